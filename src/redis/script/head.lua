-- The beginning of every script: reads the verb, the first key and the time.
--
-- A script is one decision. It is put together from the files of this folder (README.md says how,
-- and what KEYS, ARGV and the reply are), and runs atomically, so no client sees it half done.
--
-- Invariants of all files:
--   (1) Times are whole microseconds since the epoch, by Redis's own clock. `now` is read once.
--   (2) Nothing is written before every term has been asked. A request that fails has charged
--       nothing.
--   (3) A Lua number is a double, whole and exact below 2^53. A number that may exceed that is an
--       exact integer of prelude.lua. No result depends on how a double is rounded.
--   (4) What is not needed is not created: a function or a table costs 60 ns and more each time the
--       script runs, and as much again when it is collected.
--
-- The first term is read together with the header: it always exists.
local head, now, act, kind, cost, patience, p1, p2, p3, p4, p5, p6, p7 =
  struct.unpack('<i8i8i8i8i8i8i8i8i8i8i8i8i8', ARGV[1])
local spare_ms = 0

if now < 0 then
  local time = redis.call('TIME')

  now = time[1] * 1000000 + time[2]
else -- A given time (tests) runs unlike Redis's: keys then live a day longer.
  spare_ms = 86400000
end
