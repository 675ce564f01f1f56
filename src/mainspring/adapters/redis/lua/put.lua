-- Adds entries, or corrects their time.
-- KEYS[1] slice. ARGV[1] epoch of the feeder, empty for others; ARGV[2] most entries of a range that
-- others may fill it to; then for each range: its name, and "ID TIME" of each entry with spaces
-- between.
-- Returns how many were kept; -1: the epoch is old.
local epoch, most = ARGV[1], tonumber(ARGV[2])
if epoch ~= '' and redis.call('GET', prefix .. 'epoch') ~= epoch then
  return -1
end
local complete = tonumber(redis.call('GET', prefix .. 'until') or '-1')
local limits, counts, rows, first, kept = {}, {}, {}, {}, 0

local function put(range, id, time)
  local is_kept = epoch ~= ''
  if not is_kept then
    local field = string.match(range, '^%d+ [^ ]+')
    if not limits[field] then
      limits[field] = tonumber(redis.call('HGET', prefix .. 'limits', field) or complete)
    end
    counts[range] = (counts[range] or redis.call('ZCARD', key_of(range))) + 1
    is_kept = tonumber(time) <= limits[field]
    if is_kept and counts[range] > most then
      -- Whoever looks for more than this has to look in the store.
      local last = redis.call('ZRANGE', key_of(range), -1, -1, 'WITHSCORES')
      limits[field] = math.min(limits[field], tonumber(last[2] or '-1'), tonumber(time) - 1)
      redis.call('HSET', prefix .. 'limits', field, text_of(limits[field]))
      is_kept = false
    end
  end
  if is_kept then
    local list = rows[range] or {}
    rows[range] = list
    list[#list + 1] = time
    list[#list + 1] = id
    first[range] = math.min(first[range] or tonumber(time), tonumber(time))
    kept = kept + 1
  end
end

for place = 3, #ARGV, 2 do
  for id, time in string.gmatch(ARGV[place + 1], '(%S+) (%S+)') do
    put(ARGV[place], id, time)
  end
end
for range, list in pairs(rows) do
  for at = 1, #list, 1000 do
    redis.call('ZADD', key_of(range), unpack(list, at, math.min(at + 999, #list)))
  end
  redis.call('ZADD', prefix .. 'heads', 'LT', text_of(first[range]), range)
end
return kept
