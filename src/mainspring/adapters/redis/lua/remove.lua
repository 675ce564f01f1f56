-- Drops entries that do not wait any more.
-- KEYS[1] slice. ARGV[1] epoch of the feeder, empty for others; then for each range: its name, and
-- "ID TIME" of each entry with spaces between. An entry must still have its time, unless that is -1.
-- Returns how many were dropped; -1: the epoch is old.
if ARGV[1] ~= '' and redis.call('GET', prefix .. 'epoch') ~= ARGV[1] then
  return -1
end
local dropped, touched = 0, {}
for place = 2, #ARGV, 2 do
  local range = ARGV[place]
  for id, time in string.gmatch(ARGV[place + 1], '(%S+) (%S+)') do
    if time == '-1' or redis.call('ZSCORE', key_of(range), id) == time then
      dropped = dropped + redis.call('ZREM', key_of(range), id)
      touched[range] = true
    end
  end
end
for range in pairs(touched) do
  refresh(range)
end
return dropped
