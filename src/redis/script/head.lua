-- How every script begins: what is asked, of which key, and when.
--
-- A script is one decision. It is put together from the files of this folder (README.md says how,
-- and what KEYS, ARGV and the reply are), and runs in one piece, so that nobody sees it half done.
--
-- Invariants of all files:
--   (1) Times are whole microseconds since the epoch, of Redis's own clock. `now` is read once.
--   (2) Nothing is written before everything has been asked. A request that fails has charged
--       nobody.
--   (3) A number of Lua's is a double, whole and exact below 2^53. What may pass that is an exact
--       integer of prelude.lua. No answer depends on how a double is rounded.
--   (4) What is not needed is not made: a function or a table costs 60 ns and more each time the
--       script runs, and as much again when it is collected.
--
-- The first term is read along with the header: it is there in any case.
local head, now, act, kind, cost, patience, p1, p2, p3, p4, p5, p6, p7 =
  struct.unpack('<i8i8i8i8i8i8i8i8i8i8i8i8i8', ARGV[1])
local spare_ms = 0

if now < 0 then
  local time = redis.call('TIME')

  now = time[1] * 1000000 + time[2]
else -- A time that is given, by tests, passes unlike Redis's: keys then live a day longer.
  spare_ms = 86400000
end
