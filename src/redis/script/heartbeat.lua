-- The heartbeat: announces this node, and returns how many nodes there are.
--
-- KEYS[1] is a sorted set of the nodes by the time they were last seen, in us of Redis's clock;
-- ARGV is the node's name, and 'beat' or 'bye'. The reply is {nodes, now_us, new}: how many were
-- seen in the last ten minutes; new is 1 if this node was not among them.
--
-- It is also the probe of a store that was down, so a store that is full or read-only must refuse
-- it: the first thing it does is a write that needs memory. (Redis lets a script that has written
-- go on writing, full or not.)
local TEN_MINUTES = 600000000
local time = redis.call('TIME')
local now, new = time[1] * 1000000 + time[2], 0

if ARGV[2] == 'bye' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  new = redis.call('ZADD', KEYS[1], string.format('%d', now), ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%d', now - TEN_MINUTES))
redis.call('PEXPIRE', KEYS[1], string.format('%d', TEN_MINUTES / 1000))
return {redis.call('ZCARD', KEYS[1]), now, new}
