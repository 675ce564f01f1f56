-- Takes what is due, in the order of turns, and remembers it under the token.
-- KEYS[1] slice. ARGV[1] token, ARGV[2] now, ARGV[3] limit, ARGV[4] JSON of the task types,
-- ARGV[5] JSON of the queues or "null", ARGV[6] JSON of bands (by priority: lane, youngest and
-- oldest age or -1), wakes (by priority: ages at which an entry can be taken) and steps (by lane),
-- ARGV[7] JSON of the turns served by lane.
-- Returns 1 if everything was looked at, microseconds until the next is due or "", then for each
-- entry: id, lane. Repeated with its token it returns what it took then.
local token, now, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local RANGES, CHUNK, COMING, STEP, EVER = 2000, 100, 200, 600000000, 1e15

local again = redis.call('HGET', prefix .. 'taken', token)
if again then
  local answer = { 1, '' }
  for _, entry in ipairs(cjson.decode(again)) do
    answer[#answer + 1] = entry[2]
    answer[#answer + 1] = entry[4]
  end
  return answer
end
if redis.call('EXISTS', prefix .. 'fed') == 0 then
  return { 0, '' }
end

local function set_of(list)
  local set = {}
  for _, one in ipairs(list) do
    set[one] = true
  end
  return set
end

local plan = cjson.decode(ARGV[6])
local types = set_of(cjson.decode(ARGV[4]))
local queues = ARGV[5] ~= 'null' and set_of(cjson.decode(ARGV[5]))
local paused = set_of(redis.call('SMEMBERS', prefix .. 'paused'))

local function is_served(queue)
  return not paused[queue] and (not queues or queues[queue])
end

local function served_priority(range)
  local priority, queue, task_type = string.match(range, '^(%d+) ([^ ]+) (.+)$')
  if types[task_type] and is_served(queue) and plan.bands[priority] then
    return priority
  end
end

-- A cursor reads one range within one band, in the order of rank, which is that of time there.
local function advance(cursor)
  cursor.place = cursor.place + 2
  if not cursor.read[cursor.place] then
    if cursor.is_last then
      return false
    end
    cursor.read = redis.call('ZRANGEBYSCORE', cursor.key, cursor.low, cursor.high, 'WITHSCORES',
      'LIMIT', cursor.offset, CHUNK)
    cursor.offset = cursor.offset + CHUNK
    cursor.place = 1
    cursor.is_last = #cursor.read < 2 * CHUNK
    if not cursor.read[1] then
      return false
    end
  end
  cursor.id = cursor.read[cursor.place]
  cursor.time = cursor.read[cursor.place + 1]
  cursor.rank = tonumber(cursor.time) + cursor.shift
  return true
end

local function is_before(one, other)
  return one.rank < other.rank or (one.rank == other.rank and one.id < other.id)
end

-- The cursors of a lane are a heap, the best entry on top.
local function sift_up(heap, at)
  while at > 1 do
    local above = math.floor(at / 2)
    if not is_before(heap[at], heap[above]) then
      return
    end
    heap[at], heap[above] = heap[above], heap[at]
    at = above
  end
end

local function sift_down(heap)
  local at = 1
  while true do
    local best = at
    for below = 2 * at, 2 * at + 1 do
      if heap[below] and is_before(heap[below], heap[best]) then
        best = below
      end
    end
    if best == at then
      return
    end
    heap[at], heap[best] = heap[best], heap[at]
    at = best
  end
end

local heaps, looked = { {}, {}, {}, {} }, {}
local due = redis.call('ZRANGEBYSCORE', prefix .. 'heads', '-inf', text_of(now), 'LIMIT', 0, RANGES)
local is_complete = #due < RANGES
for _, range in ipairs(due) do
  local priority = served_priority(range)
  if priority then
    looked[range] = true
    for _, band in ipairs(plan.bands[priority]) do
      local cursor = {
        key = key_of(range), range = range, shift = priority * STEP, read = {}, place = 1, offset = 0,
        high = text_of(now - band[2]),
        low = band[3] < 0 and '-inf' or '(' .. text_of(now - band[3]),
      }
      if advance(cursor) then
        local heap = heaps[band[1]]
        heap[#heap + 1] = cursor
        sift_up(heap, #heap)
      end
    end
  end
end

local served, taken, by_range, answer = cjson.decode(ARGV[7]), {}, {}, { 1, '' }
while #taken < limit do
  local lane, best
  for each = 1, 4 do
    local turn = heaps[each][1] and (served[each] + 1) * plan.steps[each]
    if turn and (not best or turn < best) then
      lane, best = each, turn
    end
  end
  if not lane then
    break
  end
  local heap = heaps[lane]
  local cursor = heap[1]
  served[lane] = served[lane] + 1
  taken[#taken + 1] = { cursor.range, cursor.id, cursor.time, lane }
  answer[#answer + 1] = cursor.id
  answer[#answer + 1] = lane
  by_range[cursor.range] = by_range[cursor.range] or {}
  table.insert(by_range[cursor.range], cursor.id)
  if not advance(cursor) then
    heap[1] = heap[#heap]
    heap[#heap] = nil
  end
  if heap[1] then
    sift_down(heap)
  end
end

if #taken > 0 then
  -- What may fail for want of memory comes first, when nothing has been changed yet.
  local time = redis.call('TIME')
  redis.call('HSET', prefix .. 'taken', token, cjson.encode(taken))
  redis.call('ZADD', prefix .. 'times', text_of(time[1] * 1000000 + time[2]), token)
end
for range, ids in pairs(by_range) do
  for first = 1, #ids, 1000 do
    redis.call('ZREM', key_of(range), unpack(ids, first, math.min(first + 999, #ids)))
  end
end
for range in pairs(looked) do
  refresh(range)
end
if #taken >= limit then
  return answer
end

for _, limits in ipairs({ 'limits', 'former' }) do
  local fields = redis.call('HGETALL', prefix .. limits)
  for place = 1, #fields, 2 do
    local priority, queue = string.match(fields[place], '^(%d+) (.+)$')
    if tonumber(fields[place + 1]) < now and is_served(queue) and plan.bands[priority] then
      is_complete = false
    end
  end
end
answer[1] = is_complete and 1 or 0

-- When can the next one be taken? Most workers serve all lanes, then it is the first that matches.
local next_due
for _, range in ipairs(redis.call('ZRANGE', prefix .. 'heads', 0, COMING - 1)) do
  local priority = served_priority(range)
  for _, age in ipairs(priority and plan.wakes[priority] or {}) do
    local coming = redis.call('ZRANGEBYSCORE', key_of(range), '(' .. text_of(now - age),
      text_of(now + EVER), 'WITHSCORES', 'LIMIT', 0, 1)
    if coming[2] then
      local wait = tonumber(coming[2]) + age - now
      next_due = next_due and math.min(next_due, wait) or wait
    end
  end
end
answer[2] = next_due and text_of(next_due) or ''
return answer
