-- Begins the scripts of locks. KEYS[1] is the lock, a hash:
--   owner   who has it, or had it last; gone when it was released
--   until   microseconds since 1970 by the clock of this server, at which it ends
--   given   that moment again, and the microseconds that the lock was given for. More than those
--           cannot be left, so more means that the clock went back, or that another server took over
--   number  that of the last grant. It outlives the lock for a day, so that numbers rise although
--           the clock goes back meanwhile
local lock, owner = KEYS[1], ARGV[1]
local DAY = 86400000000

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known = redis.call('HMGET', lock, 'owner', 'until', 'number', 'given')
local ends = tonumber(known[2] or '0')
local given_until, given_for = string.match(known[4] or '', '^(%d+) (%d+)$')
local went_back = given_until == known[2] and ends > now + given_for
if went_back then
  ends = now + given_for
end
local is_held = known[1] and ends > now
local is_ours = is_held and known[1] == owner

local function text_of(number)
  return string.format('%.0f', number)
end

local function last(microseconds)
  local moment = now + microseconds
  local text = text_of(moment)
  redis.call('HSET', lock, 'until', text, 'given', text .. ' ' .. microseconds)
  redis.call('PEXPIREAT', lock, text_of(math.ceil((moment + DAY) / 1000)))
end
