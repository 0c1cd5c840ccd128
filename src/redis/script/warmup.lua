-- smooth-warmup: prepay with a cold start (src/algo/smooth_warmup.c, where the curve is drawn).
--
-- State: `stored` permits, and `next`, the next free time. The curve is rounded to nanoseconds, as
-- in the C code, so times here are in units of 1/C ns, T being 1000 P/C ns; `ahead` is how many of
-- them next is after now, 0 if it is past. Permits are counted in units so small that all of them
-- are whole: a permit is `price` of them, a nanosecond of idleness earns `gain`, with cold = N/D in
-- lowest terms
--
--     price = 2000 P (D + N)    gain = C (5D + N)    max = W gain    threshold = W C (D + N)
--
-- All are exact integers: max has up to 122 bits.
--
-- In Redis: a byte (72) and doubles: P, C, W, N, D of the limit that wrote it; next in us rounded
-- up, what that added in whole ns, and the rest in 1/C ns; stored in three digits of base 2^48, the
-- lowest first.
--
-- Invariants:
--   (1) 0 <= stored <= max; an untouched key has max.
--   (2) The key has fully recovered when the store is full: next + (max - stored)/gain.
if has[8] then
  local DIGIT = 281474976710656

  local function prepare(t, P, C, W, N, D)
    t.C, t.step, t.W = C, mul(1000, P), mul(1000, W)
    t.price, t.per_unit = mul(t.step, 2 * (D + N)), 5 * D + N
    t.gain = mul(C, t.per_unit)
    t.max, t.threshold = mul(t.W, t.gain), mul(mul(t.W, C), D + N)
    t.curve = mul((N - D) * t.per_unit, t.per_unit)
    t.curve_by = mul(t.W, 16 * (D + N) * D * D)
    return t
  end

  -- The store at now, with what idleness has earned.
  local function brought_up(t, stored, us, ns, rem)
    -- next = us - ns/1000 - rem/(1000 C)
    local before = add(mul(ns, t.C), rem)

    if us > now then
      return {stored = stored, ahead = sub(mul(mul(us - now, 1000), t.C), before)}
    end
    local idle = add(mul(mul(now - us, 1000), t.C), before)

    stored = add(stored, mul(idle, t.per_unit))
    return {stored = less(t.max, stored) and t.max or stored, ahead = 0}
  end

  local function load(t)
    local raw = read('GET', t.key)

    prepare(t, t[1], t[2], t[4], t[5], t[6])
    if not raw or #raw ~= 89 then
      return {stored = t.max, ahead = 0}
    end
    local tag, P, C, W, N, D, us, ns, rem, low, middle, high = struct.unpack('<Bddddddddddd', raw)
    local stored = add(mul(add(mul(high, DIGIT), middle), DIGIT), low)

    if tag ~= 72 then
      return {stored = t.max, ahead = 0}
    end
    if P == t[1] and C == t[2] and W == t[4] and N == t[5] and D == t[6] then
      return brought_up(t, stored, us, ns, rem)
    end
    -- The filled share of the store carries over; the ticket stays.
    local old = prepare({}, P, C, W, N, D)
    local s = brought_up(old, stored, us, ns, rem)

    stored = div_up(mul(s.stored, t.max), old.max)
    return {stored = less(t.max, stored) and t.max or stored, ahead = div_up(mul(s.ahead, t.C), C),
            stale = true}
  end

  local function us_of(t, units)
    local us = div_up(units, mul(1000, t.C))

    return type(us) == 'number' and us or LIMIT
  end

  local function left_of(t, s)
    local units = add(mul(s.ahead, t.per_unit), sub(t.max, s.stored))

    return math.min(us_of(t, div_up(units, t.per_unit)), LIMIT - now)
  end

  local function save(t, s)
    local us = us_of(t, s.ahead)
    local ns, rem = div(sub(mul(mul(us, 1000), t.C), s.ahead), t.C)
    local rest, low = div(s.stored, DIGIT)
    local high, middle = div(rest, DIGIT)

    put(t.key, struct.pack('<Bddddddddddd', 72, t[1], t[2], t[4], t[5], t[6], now + us, ns, rem,
                           low, middle, high), left_of(t, s))
  end

  local function look(t, s)
    return s.ahead == 0 and t[3] or 0, left_of(t, s)
  end

  -- The area of the curve above T, from the threshold to what is stored, in ns.
  local function area(t, stored)
    if not less(t.threshold, stored) then
      return 0
    end
    local x = div_up(sub(stored, t.threshold), t.gain)

    return div_up(mul(mul(x, x), t.curve), t.curve_by)
  end

  local function charged(t, s, events)
    local price, stored = mul(events, t.price), 0

    if less(price, s.stored) then
      stored = sub(s.stored, price)
    end
    local extra = sub(area(t, s.stored), area(t, stored))

    return {stored = stored, ahead = add(add(s.ahead, mul(events, t.step)), mul(extra, t.C))}
  end

  -- Whether there is such a time: the store must fill before the end of time.
  local function fits(t, s)
    return now + us_of(t, s.ahead) < LIMIT - t[4]
  end

  local function decide(t, s, patience)
    local events = exact_cost(t)
    local after, wait = charged(t, s, events), us_of(t, s.ahead)

    if not fits(t, after) then
      return 2, 0, -1, s
    end
    if wait <= patience then
      return 0, wait, 0, after
    end
    if t.counts then
      local anew = mul(events, t.step)

      s = {stored = s.stored, ahead = less(s.ahead, anew) and anew or s.ahead}
      after, wait = charged(t, s, events), us_of(t, s.ahead)
    end
    return 1, 0, fits(t, after) and wait - patience or -1, s
  end

  -- The bill is as for a grant, but ends 2^62 ns ahead, or where the store can still fill.
  local function charge(t, s)
    local after = charged(t, s, exact_cost(t))
    local last = mul(mul(math.min(4611686018427387, LIMIT - t[4] - 1 - now), 1000), t.C)

    if less(last, after.ahead) then
      after.ahead = less(last, s.ahead) and s.ahead or last
    end
    return after
  end

  -- At the stable rate: the cost of warming up is not returned.
  local function refund(t, s)
    local events = exact_cost(t)
    local units = mul(events, t.step)

    if s.ahead == 0 then
      return 0, s
    end
    if less(s.ahead, units) then
      return div(s.ahead, t.step), {stored = s.stored, ahead = 0}
    end
    return events, {stored = s.stored, ahead = sub(s.ahead, units)}
  end

  rows[8] = {load = load, save = save, look = look, decide = decide, refund = refund,
             charge = charge}
end
