-- The due time: token-bucket, leaky-bucket, pacer, smooth-bursty, min-interval (src/algo/due.h).
--
-- A key has one number, the time D at which all its events so far will have been paid for. T is P/C
-- us in lowest terms, and D is a whole number of us less a remainder in 1/C. Here D is stored as
-- its distance from `now` in units of 1/C us: `owed`, an exact integer, 0 if D is past. An event is
-- P units, a bucket of B is full at B x P, and every test of the five algorithms compares such
-- integers. A finer unit than 1/C is never needed: everything that is added is a multiple of it,
-- and clocks are whole.
--
-- State, 41 bytes: a byte (64 + the algorithm, 16 more if blurred, 32 more if reserved, both if
-- behind) and five doubles: D rounded up to us, what that added in 1/C, and P, C and B (smooth-
-- bursty: max-burst) of the limit that wrote it. A leaky-bucket (delay) and a pacer (t.most) have
-- one more; and so has a key whose clock has stepped back (`behind`; src/algo/due.c): the second
-- due time, in whole us, as D then is.
--
-- Invariants:
--   (1) A key is written only if D is after both now and the due time of an untouched key (`zero`);
--       a key with an earlier D is read as if it did not exist.
--   (2) D ends at 2^53 us. A reservation that would get there is decided as with patience 0.
--   (3) blurred: the act time of the last reservation is no longer known (src/algo/due.h).
--   (4) A state with other numbers is converted when it is touched, and then written whatever the
--       verdict: otherwise a refused key would go on paying at the old rate. So is a state that
--       finds that the clock has stepped back.
--   (5) t.most is the most that can be owed just after a charge, in us; nil if it is not known.
if has[4] or has[5] or has[6] or has[7] or has[9] then
  local function width_of(t)
    return t.algo == 7 and t[6] or t[3]
  end

  -- The other number of the limit that a state contains; nil if there is none.
  local function extra_of(t)
    if t.algo == 5 then
      return t[6]
    end
    return t.algo == 6 and t.most or nil
  end

  -- Units as us, rounded up; anything beyond the end of time is the end of time.
  local function us_of(t, units)
    local us = div_up(units, t[2])

    return type(us) == 'number' and us or LIMIT
  end

  -- How far `units` are beyond `bound`, in us rounded up; 0 if they are not.
  local function beyond(t, units, bound)
    return less(bound, units) and us_of(t, sub(units, bound)) or 0
  end

  -- A state with other numbers of the same algorithm: the events owed carry over. For smooth-bursty
  -- the ticket stays; otherwise the filled share of the store carries over.
  local function carried(t, owed, P, C, width, delay)
    if t.algo ~= 7 then
      local past = t.algo == 5 and delay or width

      return div_up(mul(owed, t[1]), P), t.algo ~= 9 and past >= 0 and less(mul(past, P), owed)
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

  -- Units as whole us: both due times of a key that is behind have that form.
  local function whole(t, units)
    return mul(us_of(t, units), t[2])
  end

  local function behind(t, owed, low_at)
    return {owed = whole(t, owed), low_at = low_at, behind = true,
            low = low_at > now and mul(low_at - now, t[2]) or 0}
  end

  -- Whether the second due time decides.
  local function by_low(t, s)
    return s.behind and us_of(t, s.owed) > t.most
  end

  local function most_of(t)
    local most = us_of(t, t.full)

    if t.algo == 7 then
      return nil
    end
    if t.algo ~= 6 then
      return most
    end
    return math.min(us_of(t, mul(t[3] + t[6], t[1])), 4611686018427387, most + t[7])
  end

  local STALE = 10000000 -- less is no step back: in the library a caller's clock may be stale

  -- The key's state, checked for a clock that has stepped back.
  local function noted(t, s)
    if not t.most or s.behind or s.blurred or s.reserved or not less(t.zero, s.owed) or
       us_of(t, s.owed) <= t.most + STALE then
      return s
    end
    s = behind(t, s.owed, now + t.most)
    s.stale = true
    return s
  end

  local function load(t)
    local raw = read('GET', t.key)
    local width = width_of(t)

    t.full = t.algo == 7 and mul(width, t[2]) or mul(width, t[1])
    t.zero = t[4] > now and sub(mul(t[4] - now, t[2]), t[5]) or 0
    t.most = most_of(t)
    local extra = extra_of(t)
    local size = extra and 49 or 41

    if not raw or #raw ~= size and #raw ~= size + 8 then
      return {owed = t.zero}
    end
    local tag, us, rem, P, C, wide = struct.unpack('<Bddddd', raw)
    local owed = us > now and sub(mul(us - now, C), rem) or 0
    local blurred, reserved = tag >= 80 and tag < 96 and owed ~= 0, tag >= 96 and owed ~= 0
    local other = extra and struct.unpack('<d', raw, 42)
    local low_at = #raw > size and struct.unpack('<d', raw, size + 1)

    if tag % 16 ~= t.algo then
      return {owed = t.zero}
    end
    local stale = P ~= t[1] or C ~= t[2] or wide ~= width or extra and other ~= extra
    local waiting = false

    if stale and low_at and low_at > now then
      low_at = now + us_of(t, (carried(t, mul(low_at - now, C), P, C, wide, other)))
    end
    if stale then
      owed, waiting = carried(t, owed, P, C, wide, other)
      reserved = reserved or t.most and us_of(t, owed) > t.most
    end
    if not less(t.zero, owed) then
      return {owed = t.zero, stale = stale}
    end
    if not low_at then
      return noted(t, {owed = owed, blurred = blurred or waiting, reserved = reserved,
                       stale = stale})
    end
    if not t.most or now + us_of(t, owed) <= low_at then
      return {owed = whole(t, owed), blurred = true, stale = stale}
    end
    local s = behind(t, owed, low_at)

    s.stale = stale
    return s
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
    local flags = s.behind and 48 or s.blurred and 16 or s.reserved and t.most and 32 or 0
    local state = struct.pack('<Bddddd', 64 + t.algo + flags, now + ahead, rem, t[1], t[2],
                              width_of(t))
    local extra = extra_of(t)

    state = extra and state .. struct.pack('<d', extra) or state
    put(t.key, s.behind and state .. struct.pack('<d', s.low_at) or state, ahead)
  end

  local function look(t, s)
    local reset, room = less(t.zero, s.owed) and us_of(t, s.owed) or 0, t[3]
    local owed = by_low(t, s) and s.low or s.owed

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

    -- count-denied: a refused event fills the bucket, and adds nothing beyond that.
    local function filled(t, owed, price)
      local after = add(owed, price)

      after = less(t.full, after) and t.full or after
      return less(owed, after) and after or owed
    end

    -- Each returns the reason (0: granted), the wait, the time to retry after, and what is then
    -- owed.
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
      -- How long the caller must wait; by how much that is too long, for the caller and for the
      -- limit; by how much it is beyond the queue. All end at the end of time.
      local function schedule(t, owed, price, patience)
        local after = add(owed, price)
        local reach, longest = mul(t[3] + t[6], t[1]), mul(4611686018427387, t[2]) -- 2^62 ns
        local wait = math.min(beyond(t, after, t.full), LIMIT - now)

        reach = less(longest, reach) and longest or reach
        patience = math.min(patience_for(t, after, patience), t[7])
        return wait, wait - patience, math.min(beyond(t, after, reach), LIMIT - now), after
      end

      judge[6] = function(t, owed, price, patience)
        local wait, late, over, after = schedule(t, owed, price, patience)

        if late <= 0 and over <= 0 then
          return 0, wait, 0, after
        end
        local _, never, beyond_all = schedule(t, 0, price, patience)
        local reason = late <= 0 and 3 or 1

        if t.counts then
          owed = filled(t, owed, price)
          _, late, over = schedule(t, owed, price, patience)
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

        if not less(after, last) then -- it would be paid after the end of time
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

    -- By the second due time, by which a token bucket reserves nothing. A grant moves both due
    -- times.
    local function decide_behind(t, s, price, patience)
      local waits = t.algo == 4 and 0 or patience
      local reason, wait, retry, low = judge[t.algo](t, s.low, price, waits)
      local counts, after = t.counts, s

      local by_d = t.algo == 4 and patience > 0 -- waits for D, as without a step back
      local first, long, then_, owed = 1, 0, 0, nil

      if reason > 0 and by_d then
        first, long, then_, owed = judge[4](t, s.owed, price, patience)
      end
      if first == 0 then
        return 0, long, 0, {owed = owed, reserved = us_of(t, owed) > t.most}
      end
      if reason == 0 then
        after = behind(t, add(s.owed, price), now + us_of(t, low))
      elseif low ~= s.low then
        after = behind(t, s.owed, now + us_of(t, low))
      end
      if reason > 0 and retry > 0 then
        local caught_up = us_of(t, s.owed) - t.most
        local _

        t.counts = false
        _, _, retry = judge[t.algo](t, after.low, price, waits)
        first, _, then_ = judge[t.algo](t, s.owed, price, patience)
        then_ = math.max(by_d and 0 or caught_up, first == 0 and 0 or then_)
        retry = retry >= caught_up and then_ or math.min(retry, then_)
        t.counts = counts
      end
      return reason, wait, retry, after
    end

    local function decide(t, s, patience)
      local price = mul(exact_cost(t), t[1])

      if by_low(t, s) then
        return decide_behind(t, s, price, patience)
      end
      local reason, wait, retry, owed = judge[t.algo](t, s.owed, price, patience)

      if owed == s.owed then
        return reason, wait, retry, s
      end
      return reason, wait, retry,
             {owed = owed, blurred = s.blurred, reserved = t.most and us_of(t, owed) > t.most}
    end

    -- How long after `us` from now a key that is behind grants the same; nothing is counted then.
    local function later(t, s, us)
      local gone, counts = mul(us, t[2]), t.counts
      local s_then = {owed = less(gone, s.owed) and sub(s.owed, gone) or 0, behind = true,
                      low_at = s.low_at, low = less(gone, s.low) and sub(s.low, gone) or 0}

      t.counts, now = false, now + us
      local reason, _, retry = decide(t, s_then, t.patience)

      t.counts, now = counts, now - us
      return reason == 0 and 0 or retry
    end

    local LONGEST = 4611686018427387 -- 2^62 ns

    -- What is owed after a charge: never more than 2^62 ns, unless it was already.
    local function charged(t, owed, price)
      local after, last = add(owed, price), mul(math.min(LONGEST, LIMIT - now), t[2])

      after = less(last, after) and last or after
      return less(owed, after) and after or owed
    end

    -- As a grant, however much is owed then; of a key that is behind, both due times move.
    local function charge(t, s)
      local price = mul(exact_cost(t), t[1])

      if by_low(t, s) then
        local low = charged(t, s.low, price)
        local low_at, owed = now + us_of(t, low), add(s.owed, sub(low, s.low))

        if now + us_of(t, owed) <= low_at then
          return {owed = whole(t, owed), blurred = true}
        end
        return behind(t, owed, low_at)
      end
      local owed = charged(t, s.owed, price)

      if owed == s.owed then
        return s
      end
      return {owed = owed, blurred = s.blurred, reserved = t.most and us_of(t, owed) > t.most}
    end

    rows[4] = {load = load, save = save, look = look, decide = decide, later = later,
               charge = charge}
  end
  if not decides or accounts[1] then
    local function lowered_by(t, s, units, blurred)
      if units == 0 or not less(t.zero, s.owed) then
        return 0, s
      end
      if less(s.owed, add(t.zero, units)) then
        return sub(s.owed, t.zero), {owed = t.zero, blurred = blurred}
      end
      return units, {owed = sub(s.owed, units), blurred = blurred}
    end

    local function lowered(t, s, events, blurred)
      local units, after = lowered_by(t, s, mul(events, t[1]), blurred)

      return (div(units, t[1])), after
    end

    -- A refund of so many units: returns how many it was, and the state.
    local function give_back(t, s, units)
      if by_low(t, s) then
        local given, after = lowered_by(t, {owed = s.low}, units)
        local lower = us_of(t, s.low) - us_of(t, after.owed)

        if lower == 0 then
          return given, s
        end
        return given, behind(t, sub(s.owed, mul(lower, t[2])), s.low_at - lower)
      end
      local past = t.algo == 5 and t[6] or t[3]
      local waits = t.algo ~= 9 and t.algo ~= 7 and past >= 0 and less(mul(past, t[1]), s.owed)
      local given, after = lowered_by(t, s, units, not s.behind and (s.blurred or waits))

      if not less(t.zero, after.owed) then
        return given, given == 0 and s or {owed = t.zero} -- untouched: it has no past
      end
      after.reserved = s.reserved
      return given, after
    end

    local function refund(t, s)
      local units, after = give_back(t, s, mul(exact_cost(t), t[1]))

      return (div(units, t[1])), after
    end

    -- What later reservations depend on: the events between this act time and the last one's, which
    -- is D - B x T. Act times are rounded up; this takes the most that the rounding may hide.
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
      if s.blurred or s.behind or not less(depended, events) then
        return 0, s
      end
      local back, after = lowered(t, s, sub(events, depended), depended ~= 0)

      after.reserved = s.reserved
      return back, after
    end

    -- All or nothing: later callers wait for their water because of it (src/algo/leaky_bucket.c). A
    -- caller that waits must surely be the last one: `own` is when its water is due, read back from
    -- the level. After a caller that acts now, surely no caller may wait.
    local function cancel_delayed(t, s, since)
      local below = mul(t[6], t[1])

      if s.blurred or s.behind or t.cost > t[3] then
        return 0, s
      end
      if since == 0 then
        if less(add(below, t[1]), s.owed) then
          return 0, s
        end
        return lowered(t, s, t.cost)
      end
      below = add(below, mul(t.cost, t[1]))
      if beyond(t, s.owed, below) ~= since or
         less(add(below, add(mul(since - 1, t[2]), t[1])), s.owed) then
        return 0, s
      end
      return lowered(t, s, t.cost)
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

    -- min-interval: the one event that counts is the estimate, if its time is.
    local function settle(t, s, since)
      if t.algo ~= 9 or now + us_of(t, s.owed) ~= since then
        return 0, s
      end
      return refund(t, s)
    end

    rows[4] = rows[4] or {load = load, save = save, look = look}
    rows[4].refund, rows[4].cancel, rows[4].settle = refund, cancelled, settle
    rows[4].give_back = give_back
  end
  rows[5], rows[6], rows[7], rows[9] = rows[4], rows[4], rows[4], rows[4]
end
