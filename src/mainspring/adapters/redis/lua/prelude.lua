-- Begins every script. The keys of a slice are made from KEYS[1], its prefix with the hash tag:
--   heads     sorted set: ranges by the time of their first entry, or an earlier one
--   r:RANGE   sorted set: ids by microseconds since 1970. A range is "PRIORITY QUEUE TYPE"
--   limits    hash: "PRIORITY QUEUE" to the last time that is complete, where there is more
--   former    the limits of the round before, until that of now has ended
--   until     the time that everything without a limit is complete to
--   paused    set of queues
--   taken     hash: token to what was taken under it
--   times     sorted set: tokens by the time at which they took
--   epoch     the highest epoch of an owner; it expires when nobody feeds under it, so that Redis
--             cannot hold up owners for good after the database was set back
--   fed       the round that fed the slice last; it expires when none follows
local prefix = KEYS[1]

local function key_of(range)
  return prefix .. 'r:' .. range
end

local function text_of(number)
  return string.format('%.0f', number)
end

local function refresh(range)
  local head = redis.call('ZRANGE', key_of(range), 0, 0, 'WITHSCORES')
  if head[2] then
    redis.call('ZADD', prefix .. 'heads', head[2], range)
  else
    redis.call('ZREM', prefix .. 'heads', range)
  end
end
