-- sliding-log: the exact times of the last events (src/algo/sliding_log.c).
--
-- The usual log in Redis is a sorted set; a member takes 70 bytes and more, and a request of cost
-- 1000 adds 1000 members. This is the ring of the C code: a string with 8 bytes for each event, of
-- which a decision reads and writes a few (GETRANGE, SETRANGE). A binary search finds the oldest
-- live entry.
--
-- State: a byte (67) and doubles: the period and min-interval of the limit that wrote it, its
-- count, the newest time, where the oldest entry is, and how many there are; then count entries, as
-- far as they have been used.
--
-- Invariants:
--   (1) There are at most count entries, in order: an event under a clock that stepped back is
--       logged at the newest time. The string has at most 49 + 8 x count bytes.
--   (2) An entry lives while now < time + period. Dead entries are skipped; every change of the log
--       also drops entries that min-interval does not need.
--   (3) The last `added` entries of a state in memory are not in Redis yet: all have the time
--       `newest`.
if has[3] then
  local HEAD = 49

  -- How long an entry matters.
  local function lives(t)
    return math.max(t[1], t[3])
  end

  -- The time of the i-th entry, the oldest being the 0th.
  local function time_of(t, s, i)
    local at = HEAD + 8 * ((s.first + i) % t[2])

    if i >= s.len - s.added then
      return s.newest
    end
    if at + 8 <= #s.raw then
      return (struct.unpack('<d', s.raw, at + 1))
    end
    return (struct.unpack('<d', redis.call('GETRANGE', t.key, at, at + 7)))
  end

  -- How many of the entries from the i-th on are at least that old. As a rule few have died since
  -- the last call: leaps from the oldest on, then a binary search.
  local function dead(t, s, i, age)
    local low, high, n = 0, 1, s.len - i

    while high <= n and now >= time_of(t, s, i + high - 1) + age do
      low, high = high, high * 2
    end
    high = math.min(high - 1, n)
    while low < high do
      local middle = low + (high - low - (high - low) % 2) / 2

      if now < time_of(t, s, i + middle) + age then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- Drops entries that no longer matter, and counts the live ones.
  local function viewed(t, s)
    local gone = dead(t, s, 0, lives(t))

    s.first, s.len = (s.first + gone) % t[2], s.len - gone
    s.live = s.len
    if t[3] > t[1] then
      s.live = s.len - dead(t, s, 0, t[1])
    end
    return s
  end

  local function interval_left(newest, interval)
    return newest >= 0 and interval > 0 and math.max(0, newest + interval - now) or 0
  end

  local function load(t)
    local raw = read('GETRANGE', t.key, 0, 303) -- most logs are not longer
    local s = {raw = '', first = 0, len = 0, live = 0, added = 0, newest = -1}

    if not raw or #raw < HEAD then
      s.foreign = raw ~= ''
      return s
    end
    local tag, period, interval, count, newest, first, len = struct.unpack('<Bdddddd', raw)

    if tag ~= 67 or count ~= t[2] then
      s.foreign = true
      return s
    end
    s.raw, s.first, s.len, s.newest = raw, first, len, newest
    if period == t[1] and interval == t[3] then
      return viewed(t, s)
    end
    -- Entries that live by the old period stay; so does the newest time if min-interval needs it.
    viewed({key = t.key, [1] = period, [2] = count, [3] = interval}, s)
    if s.live == 0 and (t[3] == 0 or interval_left(newest, interval) == 0) then
      s.newest = -1
    end
    s.first, s.len, s.stale = (s.first + s.len - s.live) % count, s.live, true
    return viewed(t, s)
  end

  local function left_of(t, s)
    return s.newest < 0 and 0 or math.max(0, s.newest + lives(t) - now)
  end

  -- Writes the last `added` entries, in one or two pieces of the ring.
  local function write_added(t, s)
    local entry = struct.pack('<d', s.newest)
    local from, left = (s.first + s.len - s.added) % t[2], s.added

    while left > 0 do
      local n = math.min(left, t[2] - from)

      redis.call('SETRANGE', t.key, HEAD + 8 * from, string.rep(entry, n))
      from, left = 0, left - n
    end
  end

  local function save(t, s)
    local left = left_of(t, s)

    if s.foreign or left == 0 then
      redis.call('DEL', t.key)
    end
    if left > 0 then
      write_added(t, s)
      redis.call('SETRANGE', t.key, 0,
                 struct.pack('<Bdddddd', 67, t[1], t[3], t[2], s.newest, s.first, s.len))
      redis.call('PEXPIRE', t.key, string.format('%d', up(left, 1000) + spare_ms))
    end
  end

  local function look(t, s)
    return interval_left(s.newest, t[3]) > 0 and 0 or t[2] - s.live, left_of(t, s)
  end

  local function logged(t, s, n)
    local out = math.max(0, s.len + n - t[2])

    return {raw = s.raw, foreign = s.foreign, first = (s.first + out) % t[2], len = s.len + n - out,
            live = math.min(s.live + n, t[2]), added = math.min(s.added + n, t[2]),
            newest = math.max(now, s.newest)}
  end

  local function retry_after(t, s)
    local must_go, wait = s.live + t.cost - t[2], interval_left(s.newest, t[3])

    if must_go > 0 then
      wait = math.max(wait, time_of(t, s, s.len - s.live + must_go - 1) + t[1] - now)
    end
    return wait
  end

  local function decide(t, s)
    local spaced = interval_left(s.newest, t[3]) == 0
    local reason = t.cost > t[2] and 2 or (t.cost > t[2] - s.live or not spaced) and 1 or 0

    if reason == 0 or t.counts then
      s = logged(t, s, math.min(t.cost, t[2]))
    end
    return reason, 0, reason == 1 and retry_after(t, s) or reason == 2 and -1 or 0, s
  end

  local function refund(t, s)
    local back = math.min(t.cost, s.live)
    local new = {raw = s.raw, first = s.first, len = s.len - back, live = s.live - back, added = 0,
                 newest = -1}

    if back == 0 then
      return 0, s
    end
    if new.len > 0 then
      new.newest = time_of(t, new, new.len - 1)
    end
    return back, new
  end

  -- The first of the live entries that is not before `at`, or at least after it; s.len if none is.
  local function first_from(t, s, at, after)
    local low, high = s.len - s.live, s.len

    while low < high do
      local middle = low + (high - low - (high - low) % 2) / 2
      local time = time_of(t, s, middle)

      if time < at or after and time == at then
        low = middle + 1
      else
        high = middle
      end
    end
    return low
  end

  -- Moves the entries from the i-th on to the j-th place, in pieces that end where the ring does.
  local function move(t, s, i, j)
    while i < s.len do
      local from, to = (s.first + i) % t[2], (s.first + j) % t[2]
      local n = math.min(s.len - i, t[2] - from, t[2] - to)
      local some = redis.call('GETRANGE', t.key, HEAD + 8 * from, HEAD + 8 * (from + n) - 1)

      redis.call('SETRANGE', t.key, HEAD + 8 * to, some)
      i, j = i + n, j + n
    end
  end

  -- Takes out entries of that time; those after them move up. This writes at once; main.lua saves
  -- the head of the ring in any case.
  local function settle(t, s, since)
    local after = first_from(t, s, since, true)
    local back = math.min(t.cost, after - first_from(t, s, since, false))
    local new = {raw = '', first = s.first, len = s.len - back, live = s.live - back, added = 0,
                 newest = -1}

    if back == 0 then
      return 0, s
    end
    move(t, s, after, after - back)
    if new.len > 0 then
      new.newest = time_of(t, new, new.len - 1)
    end
    return back, new
  end

  rows[3] = {load = load, save = save, look = look, decide = decide, refund = refund,
             settle = settle}
end
