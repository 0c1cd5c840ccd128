-- The fast path: buckets and fixed windows, take, no options, which is nearly every request.
--
-- The results are those of due.lua, window.lua and main.lua, where they are explained. This is the
-- same in one loop and without a function, for numbers that need no limbs and for states that the
-- same limits wrote; it takes a third of the time. It leaves everything else (plain = false) to the
-- files below, and has then changed nothing.
--
-- A bucket is counted from now in units of 1/C us (T is P/C us, so an event is P units). (-x) % C
-- is what x lacks to a multiple of C, so (x + (-x) % C) / C rounds up. All numbers are below 2^52:
-- then D' is below 2^53, the end of time, and every step is exact.
--
-- The reply to a refused request describes all terms as they are; the reply to a granted one, as
-- they are once charged. So there are two of `remaining` and `reset`: the first before, the second
-- after.
if head == 257 and #ARGV[1] == 24 + 80 * #KEYS and now <= 4503599627370496 then
  local n, i, plain = #KEYS, 0, true
  local name = string.match(KEYS[1], '^.*}:')
  local raws

  -- Behind the states come the accounts of the keys (account.lua), which as a rule do not exist.
  if n == 1 and name then
    raws = redis.call('MGET', KEYS[1], name .. 'r')
  elseif n == 1 then
    raws = redis.call('MGET', KEYS[1])
  else
    local all = {unpack(KEYS)}

    for k = 1, n do
      local other = string.match(KEYS[k], '^.*}:')

      if other and (k == 1 or other ~= name) then
        all[#all + 1], name = other .. 'r', other
      end
    end
    raws = redis.call('MGET', unpack(all))
  end
  for k = n + 1, #raws do
    plain = plain and (not raws[k] or struct.unpack('<d', raws[k]) == 9007199254740992)
  end
  local states, lives, waits = n > 1 and {}, n > 1 and {}, n > 1 and {}
  local state, ahead = nil, 0
  local reason, which, limit, wait, retry = 0, -1, 0, 0, 0
  local least, reset = 4503599627370496, 0
  local least_after, reset_after, limit_after = 4503599627370496, 0, 0

  while plain and i < n do
    i = i + 1
    if i > 1 then
      kind, cost, patience, p1, p2, p3, p4, p5, p6, p7 =
        struct.unpack('<i8i8i8i8i8i8i8i8i8i8', ARGV[1], 80 * i - 55)
      for k = 1, i - 1 do
        plain = plain and KEYS[k] ~= KEYS[i]
      end
    end
    local raw = raws[i]
    local why, long, again, most, left, left_after, ahead_before = 0, 0, 0, p3, 0, 0, 0

    plain = plain and cost > 0
    if kind == 0 then
      local mark = p3 == 0 and 0 or 1 + p7
      local ends, used = 0, 0

      if raw then
        local tag, e, u, p, m = 0, 0, 0, 0, 0

        if #raw == 33 then
          tag, e, u, p, m = struct.unpack('<Bdddd', raw)
        end
        plain = plain and tag == 64 and p == p1 and m == mark
        if e > now then
          ends, used = e, u
        end
      end
      most = p2
      left = used < p2 and p2 - used or 0
      left_after = left - cost
      ahead_before = ends > 0 and ends - now or 0
      why = cost > p2 and 2 or cost > p2 - used and 1 or 0
      again = ahead_before
      if ends == 0 and p3 == 0 then
        ends = now + p1
      elseif ends == 0 then
        local edge = p3 == 1 and p4 or p4 > now and p4 or p5 > now and p5 or p6

        ends = edge > now and p3 == 2 and edge or now - (now - edge) % p1 + p1
      end
      ahead = ends - now
      state = why == 0 and struct.pack('<Bdddd', 64, ends, used + cost, p1, mark)
    elseif kind >= 4 and kind <= 9 and kind ~= 8 then
      local P, C, owed, reserved = p1, p2, 0, false
      local width = kind == 7 and p6 or p3
      local full = width * (kind == 7 and C or P)
      local reach = kind == 6 and (p3 + p6) * P or 0
      local most = (full + (-full) % C) / C -- the most that can be owed (due.lua)
      local extra = kind == 5 and p6 or nil

      if kind == 6 then
        most = math.min((reach + (-reach) % C) / C, most + p7)
        extra = most
      end
      if raw then
        local tag, us, rem, p, c, w, x = 0, 0, 0, 0, 0, 0, nil

        if #raw == 41 and not extra then
          tag, us, rem, p, c, w = struct.unpack('<Bddddd', raw)
        elseif #raw == 49 and extra then
          tag, us, rem, p, c, w, x = struct.unpack('<Bdddddd', raw)
        end
        reserved = kind == 4 and tag == 100
        plain = plain and (tag == 64 + kind or reserved) and p == P and c == C and w == width and
          x == extra
        owed = us > now and (us - now) * C - rem or 0
      end
      local after = owed + cost * P

      plain = plain and p4 <= now and full < 4503599627370496 and after < 4503599627370496 and
        reach < 4503599627370496
      local over = (kind == 7 and owed or after) - full

      long = over > 0 and (over + (-over) % C) / C or 0
      if kind == 5 then
        local late = p6 < 0 and 0 or owed - p6 * P
        local delay = late > 0 and (late + (-late) % C) / C or 0

        why = cost > p3 and 2 or (long > 0 or delay > patience) and 1 or 0
        again = math.max(long, delay - patience)
        long = delay
      elseif kind == 6 then
        local bound, back, alone = math.min(patience, p7), after - reach, cost * P - full

        back = back > 0 and (back + (-back) % C) / C or 0
        alone = alone > 0 and (alone + (-alone) % C) / C or 0
        why = long > bound and 1 or back > 0 and 3 or 0
        if why > 0 and (cost * P > reach or alone > bound) then
          why = 2
        end
        again = math.max(long - bound, back)
      elseif kind == 9 then
        why = cost > 1 and 2 or owed > 0 and 1 or 0
        again, long = (owed + (-owed) % C) / C, 0
      else
        why = kind == 4 and cost > p3 and 2 or long > patience and 1 or 0
        again = long - patience
      end
      if kind == 7 then
        left, left_after = owed <= full and p3 or 0, after <= full and p3 or 0
      elseif kind == 9 then
        left = owed == 0 and 1 or 0
      else
        local free = kind == 5 and p6 >= 0 and p6 * P or full

        left = full > owed and owed <= free and full - owed or 0
        left_after = full > after and after <= free and full - after or 0
        left, left_after = (left - left % P) / P, (left_after - left_after % P) / P
      end
      local rem = (-after) % C

      ahead_before, ahead = (owed + (-owed) % C) / C, (after + rem) / C
      plain = plain and (kind == 7 or reserved or ahead_before <= most + 10000000)
      if why == 0 and extra then
        state = struct.pack('<Bdddddd', 64 + kind, now + ahead, rem, P, C, width, extra)
      else
        local tag = (kind == 4 and ahead > most and 96 or 64) + kind -- reserved, or not

        state = why == 0 and struct.pack('<Bddddd', tag, now + ahead, rem, P, C, width)
      end
    else
      plain = false
    end

    if why > 0 then
      if reason == 0 then
        reason, which, limit, retry = why, i - 1, most, why == 2 and -1 or again
      elseif retry >= 0 then
        retry = why == 2 and -1 or math.max(retry, again)
      end
    end
    least = left < least and left or least
    reset = ahead_before > reset and ahead_before or reset
    if left_after < least_after then
      least_after, limit_after = left_after, most
    end
    reset_after = ahead > reset_after and ahead or reset_after
    wait = long > wait and long or wait
    if n > 1 then
      states[i], lives[i], waits[i] = state, ahead, long
    end
  end

  if plain and reason > 0 then
    return {0, reason, which, limit, least, 0, retry, reset, now}
  end
  if plain then
    local reply = {1, 0, -1, limit_after, least_after, wait, 0, reset_after, now, now + wait}

    for k = 1, n do
      if n > 1 then
        state, ahead, reply[9 + k] = states[k], lives[k], now + waits[k]
      end
      redis.call('SET', KEYS[k], state, 'PX',
                 string.format('%d', (ahead + (-ahead) % 1000) / 1000 + spare_ms))
    end
    return reply
  end
end
