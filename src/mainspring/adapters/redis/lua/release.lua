-- Ends a lock.
-- KEYS[1] lock. ARGV[1] owner.
-- Returns 1; 0: it is not the owner's.
if not is_ours then
  return 0
end
redis.call('HDEL', lock, 'owner', 'until', 'given')
return 1
