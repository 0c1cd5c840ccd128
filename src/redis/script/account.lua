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
--       it is the least that the key has owed since, in events; else what row.settle compares.
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

  local function events_of(t, us, rem)
    local events = us > now and div(sub(mul(us - now, t[2]), rem), t[1]) or 0

    return type(events) == 'number' and events or LIMIT
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
      return events_of(t, unpack(stamp_of(t, s)))
    end
    if t.algo == 9 then
      local ahead = div_up(s.owed, t[2])

      return type(ahead) == 'number' and ahead <= LIMIT - now and now + ahead or NO_RETURN
    end
    local of = {[0] = s.ends, [1] = s.slot, [2] = s.window, [3] = s.newest}

    return of[t.algo] or NO_RETURN
  end

  -- The numbers that must stay the same; the edges of a calendar do not.
  local function numbers_of(a)
    local out = {}

    for k, t in ipairs(a.terms) do
      out[k] = struct.pack('<ddddd', t.algo, t[1], t[2], t[3], t.algo == 5 and t[6] or 0)
    end
    return table.concat(out)
  end

  -- The least of `since` and `least`, less what another reservation has got back.
  local function lower(a, k, least, given)
    for _, slot in ipairs(a.slots) do
      if slot[4 + k] >= 0 then
        slot[4 + k] = math.max(math.min(slot[4 + k], least) - given, 0)
      end
    end
  end

  local function note_owed(a)
    a.noted = true
    for k, t in ipairs(a.terms) do
      if drains(t) then
        local is = stamp_of(t, states[t.key])

        lower(a, k, math.min(events_of(t, a.stamps[k][1], a.stamps[k][2]),
                             events_of(t, is[1], is[2])), 0)
        a.stamps[k] = is
      end
    end
  end

  local function set_stamps(a)
    for k, t in ipairs(a.terms) do
      a.stamps[k] = stamp_of(t, states[t.key])
    end
  end

  -- Gives n events of the slot back. A state that was changed is written, whatever follows.
  local function give_back(a, slot, n)
    for k, t in ipairs(a.terms) do
      local row, s, since, cost = rows[t.algo], states[t.key], slot[4 + k], t.cost
      local back, new = 0, s

      t.cost = drains(t) and math.min(n, since) or n
      if since >= 0 and t.cost > 0 and drains(t) then
        back, new = row.refund(t, s)
      elseif since >= 0 and t.cost > 0 and row.settle then
        back, new = row.settle(t, s, since)
      end
      t.cost = cost
      if new ~= s then
        new.stale, states[t.key] = true, new
      end
      if drains(t) then
        lower(a, k, LIMIT, back)
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
