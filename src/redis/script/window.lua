-- Window counters: fixed-window, sliding-window, sliding-counter (src/algo/*.c of these names); and
-- what counts nothing (constant.c).
--
-- States: a byte (64 + the algorithm) and doubles,
--     fixed-window     when the open window ends, what is used of it, and of the limit that wrote
--                      it the period and a mark: 0 for align=first, else 1 + p7
--     sliding-window   the slot's length, slots, the newest slot, the sum of the counters; then
--                      the counters, of 4 bytes where count is below 2^32, else 8 (the byte is 81
--                      then), the newest last, as many as are needed
--     sliding-counter  the period, the window, the counts of this window and of the one before
--
-- Invariants:
--   (1) Counters stop at 2^40 - 1 (a slot of 4 bytes at 2^32 - 1). Only count-denied gets there.
--   (2) A clock that steps back stays in the newest window: no window is reopened.
--   (3) Windows and slots are cut by Redis's clock. For a calendar the client sends three edges,
--       and the first that is not past is used: the script does not know how long a day is, but
--       Redis's clock, not the client's, says which day it is.
local MOST = 1099511627775

if has[0] then
  local function mark_of(t)
    return t[3] == 0 and 0 or 1 + t[7]
  end

  -- Where the current window ends.
  local function edge_of(t)
    local edge = t[3] == 1 and t[4] or t[4] > now and t[4] or t[5] > now and t[5] or t[6]

    if t[3] == 0 then
      return now + t[1]
    end
    -- Every period has an edge; or the client's clock is more than a window behind, and any edge
    -- will do.
    return edge > now and t[3] == 2 and edge or now - (now - edge) % t[1] + t[1]
  end

  -- What was used in an open window stays used, but no longer than the new limit would keep it.
  local function carried(t, ends, used, period, mark)
    if ends <= now then
      ends, used = 0, 0
    elseif t[3] > 0 then
      ends = used > 0 and edge_of(t) or 0
    elseif t[1] <= period then
      ends = math.min(ends, now + t[1])
    elseif mark == 0 then
      ends = ends + t[1] - period
    else
      ends = now + t[1]
    end
    return {ends = ends, used = used, stale = true}
  end

  local function load(t)
    local raw = read('GET', t.key)

    if not raw or #raw ~= 33 then
      return {ends = 0, used = 0}
    end
    local tag, ends, used, period, mark = struct.unpack('<Bdddd', raw)

    if tag == 64 and (period ~= t[1] or mark ~= mark_of(t)) then
      return carried(t, ends, used, period, mark)
    end
    if tag ~= 64 or ends <= now then
      return {ends = 0, used = 0}
    end
    return {ends = ends, used = used}
  end

  local function save(t, s)
    local left = (s.used > 0 or t[3] == 0) and s.ends - now or 0

    put(t.key, struct.pack('<Bdddd', 64, s.ends, s.used, t[1], mark_of(t)), left)
  end

  local function look(t, s)
    return math.max(0, t[2] - s.used), s.ends > 0 and s.ends - now or 0
  end

  local function decide(t, s)
    local reason = t.cost > t[2] and 2 or t.cost > t[2] - s.used and 1 or 0

    if reason == 0 or t.counts then
      s = {ends = s.ends > 0 and s.ends or edge_of(t), used = math.min(s.used + t.cost, MOST)}
    end
    return reason, 0, reason == 1 and s.ends - now or reason == 2 and -1 or 0, s
  end

  local function refund(t, s)
    local back = math.min(t.cost, s.used)

    if back == 0 then
      return 0, s
    end
    return back, {ends = s.used == back and t[3] > 0 and 0 or s.ends, used = s.used - back}
  end

  -- Of a window that is over nothing counts.
  local function settle(t, s, since)
    if s.ends ~= since then
      return 0, s
    end
    return refund(t, s)
  end

  rows[0] = {load = load, save = save, look = look, decide = decide, refund = refund,
             settle = settle}
end

if has[1] then
  -- The i-th to the j-th of the stored counters; the oldest is the first.
  local function counters(s, i, j)
    local out = {}

    for from = i, j, 50 do
      local n = math.min(50, j - from + 1)
      local some = {struct.unpack('<' .. string.rep(s.form, n), s.bytes, (from - 1) * s.width + 1)}

      for k = 1, n do
        out[#out + 1] = some[k]
      end
    end
    return out
  end

  local function empty(t)
    local wide = t[2] > 4294967295

    return {newest = -1, n = 0, sum = 0, bytes = '', form = wide and 'd' or 'I4',
            width = wide and 8 or 4, most = wide and MOST or 4294967295}
  end

  -- The current slot, the sum of the window that ends with it, and the slot's own count.
  local function viewed(t, s, len)
    local gone

    s.slot = math.max((now - now % len) / len, s.newest)
    s.used, s.here = 0, 0
    gone = s.slot - t[3] - (s.newest - s.n) -- of the stored counters
    if gone < s.n then
      s.used = s.sum
      for _, count in ipairs(counters(s, 1, gone)) do
        s.used = s.used - count
      end
      s.here = s.slot == s.newest and counters(s, s.n, s.n)[1] or 0
    end
    return s
  end

  -- Each slot's events move to the new slot that holds the old one's last microsecond, or now.
  local function carried(t, s, len)
    local new, sums, lowest, parts = empty(t), {}, nil, {}
    local first = math.max(1, s.slot - t[3] - (s.newest - s.n) + 1)

    for i, count in ipairs(counters(s, first, s.n)) do
      local last = math.min((s.newest - s.n + first + i) * len - 1, now)
      local slot = (last - last % t[1]) / t[1]

      if count > 0 then
        sums[slot] = math.min((sums[slot] or 0) + count, new.most)
        new.newest, lowest = slot, lowest or slot
      end
    end
    for slot = math.max(lowest or 0, new.newest - t[3] + 1), new.newest do
      parts[#parts + 1] = struct.pack('<' .. new.form, sums[slot] or 0)
      new.sum = new.sum + (sums[slot] or 0)
    end
    new.n, new.bytes, new.stale = #parts, table.concat(parts), true
    return viewed(t, new, t[1])
  end

  local function load(t)
    local raw, s = read('GET', t.key), empty(t)

    if not raw or #raw < 33 then
      return viewed(t, s, t[1])
    end
    local tag, len, slots, newest, sum = struct.unpack('<Bdddd', raw)

    if tag ~= (s.width == 8 and 81 or 65) or slots ~= t[3] then
      return viewed(t, s, t[1])
    end
    s.newest, s.sum, s.n = newest, sum, (#raw - 33) / s.width
    s.bytes = string.sub(raw, 34)
    viewed(t, s, len)
    return len == t[1] and s or carried(t, s, len)
  end

  local function left_of(t, s)
    return s.n > 0 and math.max(0, (s.newest + t[3]) * t[1] - now) or 0
  end

  local function save(t, s)
    local head_of = struct.pack('<Bdddd', s.width == 8 and 81 or 65, t[1], t[3], s.newest, s.sum)

    put(t.key, head_of .. s.bytes, left_of(t, s))
  end

  local function room(t, s)
    local room = t[2] - s.used

    return t[4] >= 0 and math.min(room, t[4] - s.here) or room
  end

  local function look(t, s)
    return math.max(0, room(t, s)), left_of(t, s)
  end

  -- Adds `more` events to the current slot; drops the slots that have left its window.
  local function charged(t, s, more)
    local new, kept = empty(t), math.max(s.newest - s.n + 1, s.slot - t[3] + 1)
    local last = struct.pack('<' .. s.form, s.here + more)

    new.newest, new.slot, new.here = s.slot, s.slot, s.here + more
    new.sum, new.used = s.used + more, s.used + more
    if s.n == 0 or kept > s.newest then
      new.n, new.bytes = 1, last
      return new
    end
    new.n = s.slot - kept + 1
    new.bytes = string.sub(s.bytes, (kept - s.newest + s.n - 1) * s.width + 1,
                           s.slot == s.newest and -s.width - 1 or -1) ..
                string.rep('\0', (s.slot - s.newest - 1) * s.width) .. last
    return new
  end

  -- Slots leave one by one at the coming edges: the first edge at which enough have left.
  local function retry_after(t, s)
    local over, first = s.used + t.cost - t[2], s.slot - t[3] - (s.newest - s.n) + 1
    local ahead = 1

    if over > 0 then
      ahead = math.max(0, 1 - first)
      for _, count in ipairs(counters(s, math.max(1, first), s.n)) do
        ahead, over = ahead + 1, over - count
        if over <= 0 then
          break
        end
      end
    end
    return (s.slot + ahead) * t[1] - now
  end

  local function decide(t, s)
    local most = t[4] >= 0 and math.min(t[2], t[4]) or t[2]
    local reason = t.cost > most and 2 or t.cost > room(t, s) and 1 or 0
    local more = math.min(t.cost, MOST - s.used, s.most - s.here)

    if (reason == 0 or t.counts) and more > 0 then
      s = charged(t, s, more)
    end
    return reason, 0, reason == 1 and retry_after(t, s) or reason == 2 and -1 or 0, s
  end

  -- Takes from the newest slots of the window, from the `only`-th alone if there is one. Older ones
  -- stay, in case the clock steps back.
  local function refund(t, s, only)
    local counts, new = counters(s, 1, s.n), empty(t)
    local back = math.min(t.cost, only and counts[only] or s.used)
    local left, parts, first = back, {}, math.max(1, s.slot - t[3] - (s.newest - s.n) + 1)

    if back == 0 then
      return 0, s
    end
    for i = s.n, first, -1 do
      local less_by = (not only or i == only) and math.min(left, counts[i]) or 0

      counts[i], left = counts[i] - less_by, left - less_by
      if counts[i] > 0 and new.n == 0 then
        new.n, new.newest = i, s.newest - s.n + i
      end
    end
    for i = 1, new.n do
      parts[i] = struct.pack('<' .. s.form, counts[i])
    end
    new.bytes, new.sum = table.concat(parts), new.n > 0 and s.sum - back or 0
    return back, viewed(t, new, t[1])
  end

  -- From the slot in which they were counted, while it is in the window.
  local function settle(t, s, since)
    if s.used == 0 or since <= s.slot - t[3] or since > s.newest or since <= s.newest - s.n then
      return 0, s
    end
    return refund(t, s, since - (s.newest - s.n))
  end

  rows[1] = {load = load, save = save, look = look, decide = decide, refund = refund,
             settle = settle}
end

if has[2] then
  -- What the window before still weighs, `since` into this one.
  local function weight(prev, since, period)
    return (div(mul(prev, period - since), period))
  end

  local function viewed(s, period)
    local of_now = (now - now % period) / period
    local s2 = {window = of_now, since = now % period, cur = 0, prev = 0}

    if s.window > of_now then
      s2.window, s2.since = s.window, 0
    end
    if s.window == s2.window then
      s2.cur, s2.prev = s.cur, s.prev
    elseif s.window == s2.window - 1 then
      s2.prev = s.cur
    end
    return s2
  end

  local function load(t)
    local raw = read('GET', t.key)

    if not raw or #raw ~= 33 then
      return viewed({window = -2}, t[1])
    end
    local tag, period, window, cur, prev = struct.unpack('<Bdddd', raw)

    if tag ~= 66 then
      return viewed({window = -2}, t[1])
    end
    local s = viewed({window = window, cur = cur, prev = prev}, period)

    if period == t[1] then
      return s
    end
    -- as if it had happened now
    return {window = (now - now % t[1]) / t[1], since = now % t[1], prev = 0, stale = true,
            cur = math.min(weight(s.prev, s.since, period) + s.cur, MOST)}
  end

  -- From when on n counted events weigh nothing: the least e with n x (period - e) < period.
  local function fresh(t, s)
    local n = s.cur > 0 and s.cur or s.prev

    if n == 0 then
      return 0
    end
    return (s.cur > 0 and s.window + 1 or s.window) * t[1] + t[1] - div_up(t[1], n) + 1
  end

  local function save(t, s)
    local window, cur, prev = s.window, s.cur, s.prev

    if cur == 0 then -- the result is the same at every later time
      window, cur, prev = window - 1, prev, 0
    end
    put(t.key, struct.pack('<Bdddd', 66, t[1], window, cur, prev), fresh(t, s) - now)
  end

  local function look(t, s)
    return math.max(0, t[2] - weight(s.prev, s.since, t[1]) - s.cur), math.max(0, fresh(t, s) - now)
  end

  -- The least time into a window from which n events of the one before weigh no more than room.
  local function sunk_to(t, n, room)
    local left = div(sub(mul(room + 1, t[1]), 1), n)

    return less(left, t[1]) and t[1] - left or 0
  end

  local function retry_after(t, s)
    local room = t[2] - s.cur - t.cost

    if room >= 0 then
      return s.window * t[1] + sunk_to(t, s.prev, room) - now
    end
    return (s.window + 1) * t[1] + sunk_to(t, s.cur, t[2] - t.cost) - now
  end

  local function decide(t, s)
    local used = weight(s.prev, s.since, t[1]) + s.cur
    local reason = t.cost > t[2] and 2 or t.cost > t[2] - used and 1 or 0

    if reason == 0 or t.counts then
      s = {window = s.window, since = s.since, cur = math.min(s.cur + t.cost, MOST), prev = s.prev}
    end
    return reason, 0, reason == 1 and retry_after(t, s) or reason == 2 and -1 or 0, s
  end

  local function lowered(s, from_cur, from_prev)
    if from_cur + from_prev == 0 then
      return 0, s
    end
    return from_cur + from_prev,
           {window = s.window, since = s.since, cur = s.cur - from_cur, prev = s.prev - from_prev}
  end

  local function refund(t, s)
    local from_cur = math.min(t.cost, s.cur)

    return lowered(s, from_cur, math.min(t.cost - from_cur, weight(s.prev, s.since, t[1])))
  end

  -- From the window in which they were counted: this one, or the one before.
  local function settle(t, s, since)
    return lowered(s, since == s.window and math.min(t.cost, s.cur) or 0,
                   since == s.window - 1 and math.min(t.cost, s.prev) or 0)
  end

  rows[2] = {load = load, save = save, look = look, decide = decide, refund = refund,
             settle = settle}
end

if has[11] or has[12] then
  local row = {}

  function row.load()
    return row -- nothing is stored
  end

  function row.look(t)
    return t[2], 0
  end

  function row.decide(t, s)
    if t.algo == 11 then
      return 0, 0, 0, s
    end
    return 2, 0, -1, s
  end

  function row.refund(_, s)
    return 0, s
  end

  rows[11], rows[12] = row, row
end
