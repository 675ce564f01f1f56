-- Counts what a slice holds.
-- KEYS[1] slice. Returns the number of entries, of tokens, and 1 if it is fed.
local entries = 0
for _, range in ipairs(redis.call('ZRANGE', prefix .. 'heads', 0, -1)) do
  entries = entries + redis.call('ZCARD', key_of(range))
end
return { entries, redis.call('HLEN', prefix .. 'taken'), redis.call('EXISTS', prefix .. 'fed') }
