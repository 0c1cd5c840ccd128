-- Exact integers, and the terms of the request.
--
-- Counts go to 10^12, periods to 366 days (2^45 us), costs to 2^63: products need up to 250 bits,
-- and a double has 53. So an integer is either a plain number, below 2^53, or a table of limbs:
-- digits of base 2^24, the lowest first, the highest not 0. Two digits make a product below 2^48,
-- which with two carries is far below 2^53: no step is ever rounded. An integer is a table only if
-- it does not fit in a number, so each has one form; and small numbers never pay for large ones:
-- functions on limbs are not even created before they are needed.
--
-- Invariants:
--   (1) Every integer is at least 0. sub(a, b) requires b <= a.
--   (2) A number plus or times another is exact if the result is below 2^53, and not below it
--       otherwise: 2^53 is itself a double, and rounding never passes one. That is the test for
--       limbs.
--   (3) a % b and (a - a % b) / b are exact for numbers: the quotient's distance from the next
--       whole number is at least 1/b, more than the rounding can be.
--   (4) For limbs, div guesses the quotient in doubles a little too low (by 2^-46, where the guess
--       is good to 2^-48), subtracts that many exactly, and guesses again. So r never falls below
--       0, and what is left in the end is the remainder, whatever the guesses were.
local LIMIT = 9007199254740992
local decides = head % 256 ~= 3 and head % 256 ~= 4 -- take, peek, drain, charge, reserve, settle
local rows, terms, has = {}, {}, {}
local add, sub, mul, div, less, large

if head % 256 < 1 or head % 256 > 8 or head - head % 256 ~= 256 or not KEYS[1] or
   #ARGV[1] ~= 24 + 80 * #KEYS then
  return redis.error_reply('WEIRFORM not a request of version 1')
end
for i = 1, #KEYS do
  if #KEYS > 1 then
    kind, cost, patience, p1, p2, p3, p4, p5, p6, p7 =
      struct.unpack('<i8i8i8i8i8i8i8i8i8i8', ARGV[1], 80 * i - 55)
  end
  if cost < 0 then
    return redis.error_reply('WEIRFORM a negative cost')
  end
  local algo = kind % 16

  terms[i] = {key = KEYS[i], i = i, algo = algo, cost = cost, patience = patience,
              counts = kind % 32 >= 16, shadow = kind >= 32,
              limit = (algo < 4 or algo >= 10) and p2 or p3, p1, p2, p3, p4, p5, p6, p7}
  has[algo] = true
end

-- ceil(a / b) of numbers, for b far below 2^53.
local function up(a, b)
  local r = a % b

  return r == 0 and a / b or (a - r) / b + 1
end

-- The result of a command that reads; nil if the key belongs to another algorithm, of another type.
local function read(...)
  local got = redis.pcall(...)

  if type(got) ~= 'table' or not got.err then
    return got
  end
  if string.find(got.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return redis.call(...) -- fails with the same error
end

-- Writes the state of a key that has fully recovered `left` us from now.
local function put(key, state, left)
  if left <= 0 then
    redis.call('DEL', key)
  else
    redis.call('SET', key, state, 'PX', string.format('%d', up(left, 1000) + spare_ms))
  end
end

if has[2] or has[4] or has[5] or has[6] or has[7] or has[8] or has[9] then
  -- The same on limbs.
  local function grow()
    local BASE = 16777216

    local function limbs(x)
      local t = {}

      if type(x) == 'table' then
        return x
      end
      while x > 0 do
        local low = x % BASE

        t[#t + 1] = low
        x = (x - low) / BASE
      end
      return t
    end

    -- Its only form; t is used up.
    local function normalized(t)
      local n = #t

      while n > 0 and t[n] == 0 do
        t[n] = nil
        n = n - 1
      end
      if n > 3 or (n == 3 and t[3] >= 32) then
        return t
      end
      return ((t[3] or 0) * BASE + (t[2] or 0)) * BASE + (t[1] or 0)
    end

    local function near(a)
      local x = 0

      for i = #a, 1, -1 do
        x = x * BASE + a[i]
      end
      return x
    end

    large = {}

    function large.less(a, b)
      if type(a) == 'number' or type(b) == 'number' then
        return type(a) == 'number'
      end
      for i = math.max(#a, #b), 1, -1 do
        if (a[i] or 0) ~= (b[i] or 0) then
          return (a[i] or 0) < (b[i] or 0)
        end
      end
      return false
    end

    -- a + sign x b
    function large.add(a, b, sign)
      local t, carry = {}, 0

      a, b = limbs(a), limbs(b)
      for i = 1, math.max(#a, #b) + 1 do
        local digit = (a[i] or 0) + sign * (b[i] or 0) + carry

        t[i] = digit % BASE
        carry = (digit - t[i]) / BASE
      end
      return normalized(t)
    end

    function large.mul(a, b)
      local t = {}

      a, b = limbs(a), limbs(b)
      for i = 1, #a + #b do
        t[i] = 0
      end
      for i = 1, #a do
        local carry = 0

        for j = 1, #b do
          local digit = t[i + j - 1] + a[i] * b[j] + carry

          t[i + j - 1] = digit % BASE
          carry = (digit - t[i + j - 1]) / BASE
        end
        t[i + #b] = carry
      end
      return normalized(t)
    end

    function large.div(a, b)
      local q, r = 0, a

      while not less(r, b) do
        local guess = math.floor(near(limbs(r)) / near(limbs(b)) * (1 - 2 ^ -46))

        guess = normalized(limbs(math.max(1, guess)))
        q = add(q, guess)
        r = sub(r, mul(guess, b))
      end
      return q, r
    end

    return large
  end

  function less(a, b)
    if type(a) == 'number' and type(b) == 'number' then
      return a < b
    end
    return (large or grow()).less(a, b)
  end

  function add(a, b)
    if type(a) == 'number' and type(b) == 'number' and a + b < LIMIT then
      return a + b
    end
    return (large or grow()).add(a, b, 1)
  end

  function sub(a, b)
    if type(a) == 'number' then
      return a - b
    end
    return large.add(a, b, -1)
  end

  function mul(a, b)
    if type(a) == 'number' and type(b) == 'number' and a * b < LIMIT then
      return a * b
    end
    return (large or grow()).mul(a, b)
  end

  -- floor(a / b) and the remainder
  function div(a, b)
    if type(a) == 'number' and type(b) == 'number' then
      local r = a % b

      return (a - r) / b, r
    end
    return (large or grow()).div(a, b)
  end
end

local function div_up(a, b)
  local q, r = div(a, b)

  return r == 0 and q or add(q, 1)
end

-- The cost as an exact integer: beyond 2^53 the number that was read is rounded, its bytes are not.
local function exact_cost(t)
  if t.cost < LIMIT then
    return t.cost
  end
  if t.exact then
    return t.exact -- of an estimate that is settled, what is charged beyond it
  end
  local low, high = struct.unpack('<I4I4', ARGV[1], 80 * t.i - 47)

  return add(mul(high, 4294967296), low)
end

-- The accounts that this request needs (account.lua): of every key that has reservations which
-- lapse as nothing; and the one in which it reserves or settles.
local accounts = {}

for i = 1, #KEYS do
  local name = string.match(KEYS[i], '^.*}:')

  if name and (i == 1 or accounts.last ~= name) then
    local raw = read('GET', name .. 'r')

    accounts.last = name
    if head % 256 > 6 or raw and struct.unpack('<d', raw) < LIMIT then
      accounts[#accounts + 1] = {name = name .. 'r', prefix = name, raw = raw or ''}
    end
  end
end
