-- The due time: token-bucket, leaky-bucket, pacer, smooth-bursty, min-interval (src/algo/due.h).
--
-- A key has one number, the instant D at which all its events so far will have been paid for. T is
-- P/C us in lowest terms, and D a whole number of us less a remainder in 1/C. Here D is what it is
-- ahead of `now` in units of 1/C us: `owed`, an exact integer, 0 if D is past. An event is P units,
-- a bucket of B is full at B x P, and every test of the five is a comparison of such integers. A
-- unit finer than 1/C is never needed: all that is added is a multiple of it, and clocks are whole.
--
-- State, 41 bytes: a byte (64 + the algorithm, 16 more if blurred) and five doubles: D rounded up
-- to us, what that added in 1/C, and P, C and B (smooth-bursty: max-burst) of the limit that wrote
-- it.
--
-- Invariants:
--   (1) A key is written only if D is after both now and what no key stands for (`zero`); one that
--       is not is read as if it were not there.
--   (2) D ends at 2^53 us. A reservation that would get there is decided as with patience 0.
--   (3) blurred: the act time of the last reservation is no longer known (src/algo/due.h).
--   (4) A state of other numbers is converted when it is touched, and then written whatever the
--       verdict: else a refused key would go on paying at the old rate.
if has[4] or has[5] or has[6] or has[7] or has[9] then
  local function width_of(t)
    return t.algo == 7 and t[6] or t[3]
  end

  -- Units as us, rounded up; anything beyond the end of time is that.
  local function us_of(t, units)
    local us = div_up(units, t[2])

    return type(us) == 'number' and us or LIMIT
  end

  -- How far `units` are beyond `bound`, in us rounded up; 0 if they are not.
  local function beyond(t, units, bound)
    return less(bound, units) and us_of(t, sub(units, bound)) or 0
  end

  -- A state of other numbers of the same algorithm: the events owed carry over. Of smooth-bursty
  -- the ticket stays, and else the share of the store that is filled.
  local function carried(t, owed, P, C, width)
    if t.algo ~= 7 then
      return div_up(mul(owed, t[1]), P), less(mul(width, P), owed)
    end
    local burst, wide = mul(width, C), mul(t[6], t[2])

    if less(burst, owed) then
      return add(div_up(mul(sub(owed, burst), t[2]), C), wide), false
    end
    if width == 0 then
      return wide, false
    end
    return div_up(mul(owed, wide), burst), false
  end

  local function load(t)
    local raw = read('GET', t.key)
    local width = width_of(t)

    t.full = t.algo == 7 and mul(width, t[2]) or mul(width, t[1])
    t.zero = t[4] > now and sub(mul(t[4] - now, t[2]), t[5]) or 0
    if not raw or #raw ~= 41 then
      return {owed = t.zero}
    end
    local tag, us, rem, P, C, wide = struct.unpack('<Bddddd', raw)
    local owed = us > now and sub(mul(us - now, C), rem) or 0
    local blurred = tag >= 80 and owed ~= 0

    if tag % 16 ~= t.algo then
      return {owed = t.zero}
    end
    local stale = P ~= t[1] or C ~= t[2] or wide ~= width
    local waiting = false

    if stale then
      owed, waiting = carried(t, owed, P, C, wide)
    end
    if not less(t.zero, owed) then
      return {owed = t.zero, stale = stale}
    end
    return {owed = owed, blurred = blurred or waiting, stale = stale}
  end

  local function save(t, s)
    local ahead, rem = us_of(t, s.owed), 0

    if not less(t.zero, s.owed) then
      ahead = 0
    elseif ahead > LIMIT - now then
      ahead = LIMIT - now
    else
      rem = sub(mul(ahead, t[2]), s.owed)
    end
    put(t.key, struct.pack('<Bddddd', 64 + t.algo + (s.blurred and 16 or 0), now + ahead, rem, t[1],
                           t[2], width_of(t)), ahead)
  end

  local function look(t, s)
    local owed, reset, room = s.owed, less(t.zero, s.owed) and us_of(t, s.owed) or 0, t[3]

    if t.algo == 9 or t.algo == 7 then
      room = less(t.algo == 7 and t.full or 0, owed) and 0 or room
    elseif less(t.full, owed) or (t.algo == 5 and t[6] >= 0 and less(mul(t[6], t[1]), owed)) then
      room = 0
    elseif owed ~= 0 then
      room = div(sub(t.full, owed), t[1])
    end
    return room, math.min(reset, LIMIT - now)
  end

  if decides then
    -- Invariant (2).
    local function patience_for(t, after, patience)
      return patience > 0 and less(mul(LIMIT - 1 - now, t[2]), after) and 0 or patience
    end

    -- count-denied: a refused event fills the bucket, and runs up no debt.
    local function filled(t, owed, price)
      local after = add(owed, price)

      after = less(t.full, after) and t.full or after
      return less(owed, after) and after or owed
    end

    -- Each returns the reason (0: granted), the wait, the time to retry after, and what is owed
    -- then.
    local judge = {}

    if has[4] then
      judge[4] = function(t, owed, price, patience)
        local after, fits = add(owed, price), t.cost <= t[3]
        local wait = beyond(t, after, t.full)

        patience = patience_for(t, after, patience)
        if fits and wait <= patience then
          return 0, wait, 0, after
        end
        if t.counts then
          owed = filled(t, owed, price)
          after = add(owed, price)
          wait = beyond(t, after, t.full)
          patience = patience_for(t, after, patience)
        end
        return fits and 1 or 2, 0, fits and wait - patience or -1, owed
      end
    end

    if has[5] then
      judge[5] = function(t, owed, price, patience)
        local after, fits = add(owed, price), t.cost <= t[3]
        local freely = t[6] < 0 and LIMIT or mul(t[6], t[1])
        local delay = t[6] < 0 and 0 or beyond(t, owed, freely)

        patience = patience_for(t, after, patience)
        if fits and not less(t.full, after) and delay <= patience then
          return 0, delay, 0, after
        end
        if t.counts then
          owed = filled(t, owed, price)
          after = add(owed, price)
          delay = t[6] < 0 and 0 or beyond(t, owed, freely)
          patience = patience_for(t, after, patience)
        end
        if not fits then
          return 2, 0, -1, owed
        end
        return 1, 0, math.max(beyond(t, after, t.full), delay - patience), owed
      end
    end

    if has[6] then
      -- How long the turn is waited for; by how much that is too long, for caller and limit; by how
      -- much it is further back than the queue reaches. All end with time.
      local function turn(t, owed, price, patience)
        local after = add(owed, price)
        local reach, longest = mul(t[3] + t[6], t[1]), mul(4611686018427387, t[2]) -- 2^62 ns
        local wait = math.min(beyond(t, after, t.full), LIMIT - now)

        reach = less(longest, reach) and longest or reach
        patience = math.min(patience_for(t, after, patience), t[7])
        return wait, wait - patience, math.min(beyond(t, after, reach), LIMIT - now), after
      end

      judge[6] = function(t, owed, price, patience)
        local wait, late, over, after = turn(t, owed, price, patience)

        if late <= 0 and over <= 0 then
          return 0, wait, 0, after
        end
        local _, never, beyond_all = turn(t, 0, price, patience)
        local reason = late <= 0 and 3 or 1

        if t.counts then
          owed = filled(t, owed, price)
          _, late, over = turn(t, owed, price, patience)
        end
        if never > 0 or beyond_all > 0 then
          return 2, 0, -1, owed
        end
        return reason, 0, math.max(late, over), owed
      end
    end

    if has[7] then
      judge[7] = function(t, owed, price, patience)
        local after, last = add(owed, price), mul(LIMIT - now, t[2])
        local wait = beyond(t, owed, t.full)

        if not less(after, last) then -- the bill does not fit into time
          return 2, 0, -1, owed
        end
        if wait <= patience then
          return 0, wait, 0, after
        end
        if t.counts then
          local anew = add(t.full, price)

          owed = less(owed, anew) and anew or owed
          wait = beyond(t, owed, t.full)
        end
        return 1, 0, (not t.counts or less(add(owed, price), last)) and wait - patience or -1, owed
      end
    end

    if has[9] then
      judge[9] = function(t, owed)
        if t.cost == 1 and owed == 0 then
          return 0, 0, 0, t[1]
        end
        if t.counts then
          owed = filled(t, owed, t[1])
        end
        return t.cost > 1 and 2 or 1, 0, t.cost > 1 and -1 or us_of(t, owed), owed
      end
    end

    local function decide(t, s, patience)
      local reason, wait, retry, owed = judge[t.algo](t, s.owed, mul(exact_cost(t), t[1]), patience)

      if owed == s.owed then
        return reason, wait, retry, s
      end
      return reason, wait, retry, {owed = owed, blurred = s.blurred}
    end

    rows[4] = {load = load, save = save, look = look, decide = decide}
  else
    local function lowered(t, s, events, blurred)
      local units = mul(events, t[1])

      if not less(t.zero, s.owed) then
        return 0, s
      end
      if less(s.owed, add(t.zero, units)) then
        events = div(sub(s.owed, t.zero), t[1])
        return events, {owed = t.zero, blurred = blurred}
      end
      return events, {owed = sub(s.owed, units), blurred = blurred}
    end

    local function refund(t, s)
      return lowered(t, s, exact_cost(t), s.blurred or less(t.full, s.owed))
    end

    -- What later reservations stand on: the events between this act time and the last one's, which
    -- is D - B x T. Act times are rounded up; of what that may hide the most is taken.
    local function depended_on(t, s, since)
      local last, this = add(s.owed, t[2]), add(t.full, mul(since, t[2]))

      if not less(this, last) then
        return 0
      end
      local units = sub(last, this)
      local most = sub(div_up(units, t[1]), 1)
      local least = less(t[2], units) and div_up(sub(units, t[2]), t[1]) or 0

      return less(most, least) and least or most
    end

    local function cancel(t, s, since)
      local events = exact_cost(t)
      local depended = depended_on(t, s, since)

      if depended ~= 0 and less(t[3], events) then
        events = t[3]
      end
      if s.blurred or not less(depended, events) then
        return 0, s
      end
      return lowered(t, s, sub(events, depended), depended ~= 0)
    end

    -- All or nothing: who came later was told to wait for its water (src/algo/leaky_bucket.c).
    -- `own` is the act time that the level says the last one had; what is past reads as now.
    local function cancel_delayed(t, s, since)
      local below = mul(t[6], t[1])
      local own = beyond(t, s.owed, add(below, mul(t.cost, t[1])))

      if s.blurred or t.cost > t[3] or own ~= since then
        return 0, s
      end
      return lowered(t, s, t.cost, since == 0 and less(below, s.owed))
    end

    local function cancelled(t, s, since)
      local back, after = 0, s

      if t.algo == 4 or t.algo == 6 then
        back, after = cancel(t, s, since)
      elseif t.algo == 5 and t[6] >= 0 then
        back, after = cancel_delayed(t, s, since)
      end
      if back == 0 then
        return 0, s
      end
      return back, after
    end

    rows[4] = {load = load, save = save, look = look, refund = refund, cancel = cancelled}
  end
  rows[5], rows[6], rows[7], rows[9] = rows[4], rows[4], rows[4], rows[4]
end
