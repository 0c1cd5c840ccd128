-- All or nothing: every term is asked, then every term is charged (src/algo/decide.c).
--
-- A state is a table that no function changes: deciding returns another one. So a peek is a take
-- that writes nothing, and a key that is named twice is asked the second time as the first time
-- left it.
--
-- Invariants:
--   (1) A refused request charges no term except those with count-denied.
--   (2) The result is the strictest: the first refusal is named, with the longest retry time of all
--       terms that refuse and of those that granted but have counted it; the least remaining; the
--       longest wait and reset.
--   (3) A shadow is asked and charged like any other term; it refuses nothing and delays no caller.
--       What it would have said is the reason of a grant.
--   (4) A converted state is written, whatever else happens (due.lua, invariant 4).
--   (5) No term refuses a drain (verb 5): each charges as much of its cost as it would grant at
--       once, and none looks at what the others charged. Permits cannot be drained.
--   (6) No term refuses a charge (verb 6): a row that has no `charge` counts it as it counts what
--       it denies. Permits cannot be charged.
--   (7) A reserve (verb 7) is a take, and a settle (verb 8) a charge, with a step in the account of
--       the key (account.lua), which has given back before the terms are asked.
local n, verb = #terms, head % 256

for i = 1, n do
  if not rows[terms[i].algo] or (terms[i].algo == 10 and not ARGV[2] and verb ~= 5) then
    return redis.error_reply('WEIRKIND not a term that this script can decide')
  end
  if verb >= 6 and terms[i].algo == 10 then
    return redis.error_reply('WEIRKIND permits cannot be charged')
  end
end
if verb > 6 and (not accounts[1] or not ARGV[2] or #ARGV[2] ~= (verb == 7 and 32 or 8)) then
  return redis.error_reply('WEIRFORM not a step in an account')
end
verb = verb == 7 and 1 or verb == 8 and 6 or verb

-- The same as below, for one term.
if n == 1 and verb < 3 and not terms[1].shadow and not accounts[1] then
  local t, row = terms[1], rows[terms[1].algo]
  local was = row.load(t)
  local reason, wait, retry, is = 0, 0, 0, was

  if t.cost > 0 then
    reason, wait, retry, is = row.decide(t, was, t.patience)
  end
  local remaining, reset = row.look(t, is)

  if verb == 2 then
    is = was
  end
  if is ~= was or was.stale then
    row.save(t, is)
  end
  if reason > 0 then
    return {0, reason, 0, t.limit, remaining, 0, retry, reset, now}
  end
  return {1, 0, -1, t.limit, remaining, wait, 0, reset, now, verb == 1 and now + wait or nil}
end

local returned = 0 -- or drained
local states, first, after = {}, {}, {} -- by key: before, its first term, after
local reasons, waits, retries, ends = {}, {}, {}, {} -- by term; ends: the states that are reported
local counted = {} -- by term that granted and counted what another refused: its retry

for i = 1, n do
  local t = terms[i]
  local row = rows[t.algo]

  if first[t.key] and first[t.key].algo ~= t.algo then
    return redis.error_reply('WEIRKEY one key, two algorithms')
  end
  local state = row.load(t) -- for a key's second term too: load derives the term's numbers

  if first[t.key] then
    first[t.key].again = true
  else
    first[t.key], states[t.key] = t, state
  end
  reasons[i], waits[i], retries[i] = 0, 0, 0
end

local full = accounts[1] and accounts.begin(states)

if full then
  for _, t in pairs(first) do
    if states[t.key].stale then
      rows[t.algo].save(t, states[t.key])
    end
  end
  accounts.finish(states, nil, 0)
  return {0, 8, 0, terms[1].limit, 0, 0, full - now, 0, now}
elseif verb == 5 then
  for i = 1, n do
    local t = terms[i]
    local row, s = rows[t.algo], after[t.key] or states[t.key]
    local reason, new, _ = 1, nil, nil

    t.cost = t.algo == 10 and 0 or math.min(t.cost, (row.look(t, s)))
    if t.cost > 0 then
      reason, _, _, new = row.decide(t, s, 0)
    end
    if reason == 0 then
      s, returned = new, math.max(returned, t.cost)
    end
    after[t.key] = s
  end
  for i = 1, n do
    ends[i] = after[terms[i].key]
  end
elseif verb == 6 then
  for i = 1, n do
    local t = terms[i]
    local row, s = rows[t.algo], after[t.key] or states[t.key]

    if t.cost > 0 and row.charge then
      s = row.charge(t, s)
    elseif t.cost > 0 then
      local _

      t.counts = true
      _, _, _, s = row.decide(t, s, 0)
    end
    after[t.key], ends[i] = s, s
  end
elseif decides then
  local refused = false

  -- How long until a term that has counted a refused request grants the same again; a caller that
  -- waits does not ask twice, so nothing is counted then.
  local function again(t, s)
    t.counts = false
    local reason, _, retry = rows[t.algo].decide(t, s, t.patience)

    t.counts = true
    return reason == 0 and 0 or retry
  end

  for i = 1, n do
    local t = terms[i]
    local s = after[t.key] or states[t.key]

    if t.cost > 0 then
      reasons[i], waits[i], retries[i], s = rows[t.algo].decide(t, s, t.patience)
    end
    after[t.key], ends[i] = s, s
    refused = refused or (reasons[i] ~= 0 and not t.shadow)
  end
  if refused then
    after = {}
  end
  for i = 1, refused and n or 0 do
    local t = terms[i]
    local counts, decide, _ = t.counts and t.cost > 0, rows[t.algo].decide

    -- A term that would have granted stays unchanged, or has counted it: no caller waits for it.
    if reasons[i] == 0 then
      ends[i], waits[i] = states[t.key], 0
      if counts then
        _, _, _, ends[i] = decide(t, states[t.key], 0)
        counted[i] = not t.shadow and again(t, ends[i]) or nil
      end
    end
    if counts and first[t.key].again then
      _, _, _, after[t.key] = decide(t, after[t.key] or states[t.key], 0)
    elseif counts then
      after[t.key] = ends[i]
    end
  end
else
  for i = 1, n do
    local t = terms[i]
    local row, s, back = rows[t.algo], after[t.key] or states[t.key], 0

    if verb == 3 and t.cost > 0 then
      back, s = row.refund(t, s)
    elseif verb == 4 and t.cost > 0 and row.cancel and t.patience >= 0 and act >= now then
      back, s = row.cancel(t, s, math.max(0, t.patience - now)) -- its act time, or now
    end
    after[t.key] = s
    returned = math.max(returned, type(back) == 'number' and back or LIMIT)
  end
  for i = 1, n do
    ends[i] = after[terms[i].key]
  end
end

for i = 1, n do
  local t = terms[i]
  local was = states[t.key]
  local is = verb ~= 2 and after[t.key] or was

  if first[t.key] == t and (is ~= was or was.stale) then
    rows[t.algo].save(t, is)
  end
end

local allowed, reason, which, limit, remaining, wait, retry, reset = 1, 0, -1, 0, LIMIT, 0, 0, 0
local shadow = 0 -- the first shadow that would have refused, from 1

for i = 1, n do
  local t = terms[i]
  local left, until_new = rows[t.algo].look(t, ends[i])
  local refuses = reasons[i] ~= 0 and not t.shadow

  if refuses and allowed == 1 then
    allowed, reason, which, limit, wait, retry = 0, reasons[i], i - 1, t.limit, 0, retries[i]
  elseif refuses then
    retry = (retry < 0 or retries[i] < 0) and -1 or math.max(retry, retries[i])
  elseif allowed == 1 then
    wait = t.shadow and wait or math.max(wait, waits[i])
    if reason == 0 and reasons[i] ~= 0 then
      reason, shadow = reasons[i], i
    end
    limit = left < remaining and t.limit or limit
  end
  remaining, reset = math.min(remaining, left), math.max(reset, until_new)
end
for _, later in pairs(counted) do
  retry = (retry < 0 or later < 0) and -1 or math.max(retry, later)
end
-- A key that is behind may grant before the clock has caught up, and refuse just after.
local before = allowed == 0 and verb < 3 and retry > 0 and -1 or retry

while before ~= retry do
  before = retry
  for i = 1, n do
    if ends[i].behind and not terms[i].shadow and retry < LIMIT - now then
      retry = retry + rows[terms[i].algo].later(terms[i], ends[i], retry)
    end
  end
end

-- Of a grant that a shadow would have refused, -1 - shadow.
which = allowed == 1 and -1 - shadow or which
local reply = {allowed, reason, which, limit, remaining, wait, retry, reset, now}

if accounts[1] then
  local left = {}

  for key, was in pairs(states) do
    left[key] = verb ~= 2 and after[key] or was
  end
  accounts.finish(left, head % 256 == 7 and allowed == 1 and reasons, reset)
end
if head % 256 == 8 then
  reply[10] = accounts[1].missing and -1 or accounts[1].back
elseif verb > 2 and verb < 6 then
  reply[10] = returned
elseif verb == 1 and allowed == 1 then
  for i = 1, n do
    reply[9 + i] = reasons[i] == 0 and now + waits[i] or -1
  end
end
return reply
