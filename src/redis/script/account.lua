-- Accounts: the open reservations of a key (src/engine/account, src/algo/settle.c).
--
-- A reservation is a take that leaves a slot in the account of its key: id, estimate, when it
-- lapses, and for each term what settling it needs (`since`). To settle is to empty the slot and to
-- give back, or to charge, the difference. An account is one string beside the keys of its terms
-- (the same name, with `r` for the term), so it is in their slot of a cluster.
--
-- Account: a double, the earliest time at which a slot lapses as nothing (2^53: none does), which
-- is all that other requests look at; then cmsgpack of {the terms' keys, their numbers, when the
-- account may be forgotten, {a stamp for each term}, {slots}}. A stamp is a due time as due.lua
-- stores it, {us, rem}; a slot is {id, the estimate as 8 bytes, lapse, 1 if as nothing, since ..}.
--
-- Invariants:
--   (1) A slot and its estimate appear and end in one script: none is settled twice.
--   (2) Every request whose key has slots that lapse as nothing first gives back what is due.
--   (3) An account outlives the last lapse of its slots; with slots that lapse as nothing, also the
--       key's recovery: by then there is nothing left to give back.
--   (4) since is -1 if the term did not take the estimate, -2 if it gives nothing back. Of a bucket
--       it is the least that the key has owed since, in the units of due.lua (limbs, if it is as
--       large as that); else what row.settle compares.
--   (5) Requests that do not name all the terms of an account leave it alone.
--   (6) A stamp is what the bucket owed after the key was last reserved from or settled. What has
--       lapsed as nothing is settled before the call that finds it, without what that call takes.
if accounts[1] then
  local UNTAKEN, NO_RETURN = -1, -2
  local states -- by key, as main.lua has them
  -- What only counts has no limbs (prelude.lua), and no use for numbers beyond 2^53.
  local minus = sub or function(a, b) return a - b end
  local before = less or function(a, b) return a < b end

  local function drains(t)
    return t.algo == 4 or t.algo == 5 and t[6] < 0
  end

  local function owed_of(t, us, rem)
    return us > now and sub(mul(us - now, t[2]), rem) or 0
  end

  local function stamp_of(t, s)
    if not drains(t) then
      return {0, 0}
    end
    local ahead = div_up(s.owed, t[2])

    if type(ahead) ~= 'number' or ahead > LIMIT - now then
      return {LIMIT, 0}
    end
    return {now + ahead, sub(mul(ahead, t[2]), s.owed)}
  end

  -- What row.settle will compare: when the events of the estimate were counted.
  local function since_of(t, s)
    if drains(t) then
      return owed_of(t, unpack(stamp_of(t, s)))
    end
    if t.algo == 9 then
      local ahead = div_up(s.owed, t[2])

      return type(ahead) == 'number' and ahead <= LIMIT - now and now + ahead or NO_RETURN
    end
    local of = {[0] = s.ends, [1] = s.slot, [2] = s.window, [3] = s.newest}

    return of[t.algo] or NO_RETURN
  end

  -- The numbers that must stay the same; the edges of a calendar do not. `u`, because a weir whose
  -- since was in events had none: the two read each other's accounts as those of a limit that was
  -- changed, and give nothing back.
  local function numbers_of(a)
    local out = {'u'}

    for k, t in ipairs(a.terms) do
      out[k + 1] = struct.pack('<ddddd', t.algo, t[1], t[2], t[3], t.algo == 5 and t[6] or 0)
    end
    return table.concat(out)
  end

  local function least_of(x, y)
    return less(x, y) and x or y
  end

  local function less_by(x, y)
    return less(y, x) and sub(x, y) or 0
  end

  -- Lowers what the reservations may get back to `least`.
  local function lower(a, k, least)
    for _, slot in ipairs(a.slots) do
      if slot[4 + k] ~= UNTAKEN then
        slot[4 + k] = least_of(slot[4 + k], least)
      end
    end
  end

  -- And once so much has been given back for one of them, whose least was `of` (settle.c).
  local function note_given(a, k, of, given)
    for _, slot in ipairs(a.slots) do
      local since = slot[4 + k]

      if since ~= UNTAKEN and less(since, of) then
        slot[4 + k] = least_of(since, less_by(of, given))
      elseif since ~= UNTAKEN then
        slot[4 + k] = less_by(since, given)
      end
    end
  end

  local function note_owed(a)
    a.noted = true
    for k, t in ipairs(a.terms) do
      if drains(t) then
        local is = stamp_of(t, states[t.key])

        lower(a, k, least_of(owed_of(t, a.stamps[k][1], a.stamps[k][2]),
                             owed_of(t, is[1], is[2])))
        a.stamps[k] = is
      end
    end
  end

  local function set_stamps(a)
    for k, t in ipairs(a.terms) do
      a.stamps[k] = stamp_of(t, states[t.key])
    end
  end

  -- Gives n events of the slot back; a part of one counts as one. A state that was changed is
  -- written, whatever follows.
  local function give_back(a, slot, n)
    for k, t in ipairs(a.terms) do
      local row, s, since, cost = rows[t.algo], states[t.key], slot[4 + k], t.cost
      local back, new = 0, s

      if since == UNTAKEN or since == NO_RETURN or n == 0 then
        back = 0
      elseif drains(t) then
        local given

        given, new = row.give_back(t, s, least_of(mul(n, t[1]), since))
        back = div_up(given, t[1])
        note_given(a, k, since, given)
      elseif row.settle then
        t.cost = n
        back, new = row.settle(t, s, since)
        t.cost = cost
      end
      if new ~= s then
        new.stale, states[t.key] = true, new
      end
      a.back = math.max(a.back, back)
    end
  end

  local function exact_of(bytes)
    local low, high = struct.unpack('<I4I4', bytes)

    if high < 2097152 or not add then
      return high * 4294967296 + low
    end
    return add(mul(high, 4294967296), low)
  end

  local function plain_of(x)
    return type(x) == 'number' and x or LIMIT
  end

  local function due_of(a)
    return a.raw == '' and LIMIT or (struct.unpack('<d', a.raw))
  end

  -- Empties the slots that have lapsed: those as nothing are given back.
  local function sweep(a)
    local open = {}

    for _, slot in ipairs(a.slots) do
      if slot[3] > now then
        open[#open + 1] = slot
      elseif slot[4] == 1 then
        give_back(a, slot, plain_of(exact_of(slot[2])))
      end
    end
    a.slots = open
  end

  -- False: the account is left alone.
  local function open(a)
    local seen, keys = {}, {}

    a.terms, a.slots, a.stamps, a.until_us, a.back = {}, {}, {}, 0, 0
    for _, t in ipairs(terms) do
      if string.match(t.key, '^.*}:') == a.prefix and not seen[t.key] then
        seen[t.key] = true
        a.terms[#a.terms + 1], keys[#keys + 1] = t, t.key
      end
    end
    a.keys, a.numbers = table.concat(keys, '\n'), numbers_of(a)
    for k = 1, #keys do
      a.stamps[k] = {0, 0}
    end
    if a.raw == '' then
      return true
    end
    local of = cmsgpack.unpack(string.sub(a.raw, 9))

    if of[1] ~= a.keys then
      a.noted = head % 256 > 6 -- its terms are no more, and so are its slots
      return a.noted
    end
    a.until_us, a.stamps, a.slots = of[3], of[4], of[5]
    a.noted = of[2] ~= a.numbers -- to be written, even if nothing is settled
    for k = 1, a.noted and #keys or 0 do
      a.stamps[k] = {0, 0} -- it has the remainder of another rate
      for _, slot in ipairs(a.slots) do -- across a change nothing is given back
        slot[4 + k] = slot[4 + k] == UNTAKEN and UNTAKEN or drains(a.terms[k]) and 0 or NO_RETURN
      end
    end
    return true
  end

  local function found(a, id)
    for i, slot in ipairs(a.slots) do
      if slot[1] == id and slot[3] > now then
        return slot, i
      end
    end
  end

  -- Before the decision of a settlement: gives back, or sets what is charged beyond the estimate.
  local function settle(a)
    local cost = exact_of(string.sub(ARGV[1], 33, 40))
    local slot, at = found(a, ARGV[2])
    local estimate = slot and exact_of(slot[2])
    local more = 0

    a.missing, a.back = not slot, 0 -- what lapsed before is another matter
    if slot then
      note_owed(a) -- of this one too
      table.remove(a.slots, at)
      sweep(a)
    end
    if slot and before(cost, estimate) then
      give_back(a, slot, plain_of(minus(estimate, cost)))
    elseif slot then
      more = minus(cost, estimate)
    end
    for k, t in ipairs(a.terms) do
      t.exact = slot and slot[4 + k] ~= UNTAKEN and more or 0
      t.cost = plain_of(t.exact)
    end
  end

  -- Before the decision. Returns when the first slot of a full account lapses, or nil.
  function accounts.begin(of)
    local used = {}

    states = of
    for _, a in ipairs(accounts) do
      if open(a) then
        used[#used + 1] = a
        if due_of(a) <= now then
          note_owed(a)
          sweep(a)
          set_stamps(a)
        end
      end
    end
    for i = 1, #accounts do
      accounts[i] = used[i]
    end
    local a = accounts[1]

    if head % 256 == 8 then
      settle(a)
    elseif head % 256 == 7 then
      note_owed(a)
      sweep(a)
    end
    if head % 256 == 7 and #a.slots >= struct.unpack('<i8', ARGV[2], 25) then
      local first = a.slots[1][3]

      for _, slot in ipairs(a.slots) do
        first = math.min(first, slot[3])
      end
      return first
    end
    return nil
  end

  local function fill_slot(a, reasons)
    local ttl, as_nothing = struct.unpack('<i8i8', ARGV[2], 9)
    local slot = {string.sub(ARGV[2], 1, 8), string.sub(ARGV[1], 33, 40), now + ttl, as_nothing}

    for k, t in ipairs(a.terms) do
      local took = reasons[t.i] == 0 and t.cost > 0

      slot[4 + k] = took and since_of(t, states[t.key]) or UNTAKEN
    end
    a.slots[#a.slots + 1] = slot
  end

  local function write(a, reset)
    local due, last = LIMIT, 0

    for _, slot in ipairs(a.slots) do
      due = slot[4] == 1 and math.min(due, slot[3]) or due
      last = math.max(last, slot[3])
    end
    if #a.slots == 0 then
      if a.raw ~= '' then
        redis.call('DEL', a.name)
      end
      return
    end
    a.until_us = due == LIMIT and last or math.max(last, a.until_us, now + reset)
    put(a.name, struct.pack('<d', due) ..
                cmsgpack.pack({a.keys, a.numbers, a.until_us, a.stamps, a.slots}),
        a.until_us - now)
  end

  -- After the decision, which has left the keys as `of`; reasons: nil if nothing was reserved.
  function accounts.finish(of, reasons, reset)
    states = of
    for _, a in ipairs(accounts) do
      if a.noted and head % 256 > 6 then -- invariant (6)
        set_stamps(a)
      end
      if reasons then
        fill_slot(a, reasons)
      end
      if a.noted or due_of(a) < LIMIT then -- else it is as it was
        write(a, reset)
      end
    end
  end
end
