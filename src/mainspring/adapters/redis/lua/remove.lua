-- Drops entries that do not wait any more.
-- KEYS[1] slice. ARGV[1] epoch of the feeder, empty for others; then for each entry: range, id, and
-- the time that it must still have, or empty.
-- Returns how many were dropped; -1: the epoch is old.
if ARGV[1] ~= '' and redis.call('GET', prefix .. 'epoch') ~= ARGV[1] then
  return -1
end
local dropped, touched = 0, {}
for place = 2, #ARGV, 3 do
  local range, id, time = ARGV[place], ARGV[place + 1], ARGV[place + 2]
  if time == '' or redis.call('ZSCORE', key_of(range), id) == time then
    dropped = dropped + redis.call('ZREM', key_of(range), id)
    touched[range] = true
  end
end
for range in pairs(touched) do
  refresh(range)
end
return dropped
