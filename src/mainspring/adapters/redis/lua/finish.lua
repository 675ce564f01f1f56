-- Ends a round of feeding: the slice is fed, and nothing is kept beyond the limits.
-- KEYS[1] slice. ARGV[1] epoch, ARGV[2] milliseconds until it counts as not fed, then for each range
-- that has a limit: range, time.
-- Returns 1; 0: the epoch is old.
if redis.call('GET', prefix .. 'epoch') ~= ARGV[1] then
  return 0
end
for place = 3, #ARGV, 2 do
  local range, limit = ARGV[place], ARGV[place + 1]
  redis.call('HSET', prefix .. 'limits', string.match(range, '^%d+ [^ ]+'), limit)
  if redis.call('ZREMRANGEBYSCORE', key_of(range), '(' .. limit, '+inf') > 0 then
    refresh(range)
  end
end
redis.call('DEL', prefix .. 'former')
redis.call('SET', prefix .. 'fed', ARGV[1], 'PX', ARGV[2])
return 1
