-- concurrency: how many callers are in flight at once, each with a lease.
--
-- A ticket is a member of a sorted set, scored by the time at which its lease ends; a ticket that
-- costs more than 1 has a member for each permit. Entering (take) counts the live tickets and adds
-- one; leaving (refund, cancel) removes it. The permits of a caller that was killed return when its
-- lease ends. Entering with a ticket that is already in renews its lease and counts nothing twice:
-- a request whose reply was lost can be repeated, and a long call can keep its permit.
--
-- The script cannot know when another caller leaves, so retry_us of a refusal is 0: not known.
--
-- Invariants:
--   (1) There are never more than count live tickets, except after a live change to a lower count:
--       then no caller enters until enough have left. A lease is as long as the limit said when it
--       began.
--   (2) Every enter drops the tickets whose lease is over: the set has at most as many members as
--       were live at once. The key expires with its last lease.
if has[10] then
  local ticket = ARGV[2]

  -- The members of a ticket from the i-th on, as many as one command may carry.
  local function members(t, i)
    local names = {}

    for k = i, math.min(t.cost, i + 999) do
      names[#names + 1] = k == 1 and ticket or ticket .. '\0' .. k
    end
    return names
  end

  local function load(t)
    local alive = read('ZCOUNT', t.key, '(' .. string.format('%d', now), '+inf')
    local s = {alive = alive or 0, ends = 0, foreign = not alive}

    if s.alive > 0 then
      s.ends = tonumber(redis.call('ZREVRANGE', t.key, 0, 0, 'WITHSCORES')[2])
      s.holds = ticket and (tonumber(redis.call('ZSCORE', t.key, ticket) or 0)) > now
    end
    return s
  end

  local function look(t, s)
    return math.max(0, t[2] - s.alive), math.max(0, s.ends - now)
  end

  local function decide(t, s)
    local more = s.holds and 0 or t.cost
    local reason = t.cost > t[2] and 2 or more > t[2] - s.alive and 1 or 0

    if reason == 0 then
      s = {alive = s.alive + more, ends = math.max(s.ends, now + t[1]), foreign = s.foreign,
           holds = true}
    end
    return reason, 0, reason == 2 and -1 or 0, s
  end

  local function enter(t)
    local ends = string.format('%d', now + t[1])

    redis.call('ZREMRANGEBYSCORE', t.key, '-inf', string.format('%d', now))
    for i = 1, t.cost, 1000 do
      local by_end = {}

      for _, name in ipairs(members(t, i)) do
        by_end[#by_end + 1] = ends
        by_end[#by_end + 1] = name
      end
      redis.call('ZADD', t.key, unpack(by_end))
    end
  end

  local function save(t, s)
    if s.foreign then
      redis.call('DEL', t.key)
    end
    if s.left then
      for i = 1, t.cost, 1000 do
        redis.call('ZREM', t.key, unpack(members(t, i)))
      end
    else
      enter(t)
      redis.call('PEXPIRE', t.key, string.format('%d', up(s.ends - now, 1000) + spare_ms))
    end
  end

  local function leave(t, s)
    local alive = math.max(0, s.alive - t.cost)

    if not s.holds then
      return 0, s
    end
    return s.alive - alive, {alive = alive, ends = alive > 0 and s.ends or 0, left = true}
  end

  rows[10] = {load = load, save = save, look = look, decide = decide, refund = leave,
              cancel = leave}
end
