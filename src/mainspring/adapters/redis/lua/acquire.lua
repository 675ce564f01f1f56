-- Gives a lock if nobody has it, or to who has it already.
-- KEYS[1] lock. ARGV[1] owner, ARGV[2] microseconds that it lasts.
-- Returns 1 and the number of the grant as text; 0 and the microseconds until it ends.
if is_held and not is_ours then
  if went_back then
    last(given_for)
  end
  return { 0, text_of(ends - now) }
end
local number = tonumber(known[3] or '0')
if not is_ours then
  number = math.max(number + 1, now)
end
redis.call('HSET', lock, 'owner', owner, 'number', text_of(number))
last(ARGV[2])
return { 1, text_of(number) }
