-- Begins a round of feeding: everything until a time is welcome from now on.
-- KEYS[1] slice. ARGV[1] epoch, ARGV[2] until, ARGV[3] microseconds after which what was taken and
-- not confirmed comes back, ARGV[4] milliseconds that the epoch is kept, then the paused queues.
-- Returns the ranges; nothing when the epoch is old.
local epoch = ARGV[1]
if tonumber(epoch) < tonumber(redis.call('GET', prefix .. 'epoch') or '-1') then
  return false
end
redis.call('SET', prefix .. 'epoch', epoch, 'PX', ARGV[4])
redis.call('SET', prefix .. 'until', ARGV[2])
if redis.call('EXISTS', prefix .. 'limits') == 1 then
  -- They bind nobody who submits any more, but what they say is not there is not there yet.
  redis.call('RENAME', prefix .. 'limits', prefix .. 'former')
end
redis.call('DEL', prefix .. 'paused')
for place = 5, #ARGV do
  redis.call('SADD', prefix .. 'paused', ARGV[place])
end
local time = redis.call('TIME')
local before = time[1] * 1000000 + time[2] - ARGV[3]
local stale = redis.call('ZRANGEBYSCORE', prefix .. 'times', '-inf', text_of(before), 'LIMIT', 0, 100)
for _, token in ipairs(stale) do
  local taken = redis.call('HGET', prefix .. 'taken', token)
  for _, entry in ipairs(taken and cjson.decode(taken) or {}) do
    -- A time that was corrected meanwhile is better than the one of then.
    redis.call('ZADD', key_of(entry[1]), 'NX', entry[3], entry[2])
    redis.call('ZADD', prefix .. 'heads', 'LT', entry[3], entry[1])
  end
  redis.call('HDEL', prefix .. 'taken', token)
  redis.call('ZREM', prefix .. 'times', token)
end
return redis.call('ZRANGE', prefix .. 'heads', 0, -1)
