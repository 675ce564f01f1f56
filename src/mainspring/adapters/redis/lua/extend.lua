-- Lets a lock last for longer.
-- KEYS[1] lock. ARGV[1] owner, ARGV[2] microseconds that it lasts from now.
-- Returns 1; 0: it is not the owner's.
if not is_ours then
  return 0
end
last(ARGV[2])
return 1
