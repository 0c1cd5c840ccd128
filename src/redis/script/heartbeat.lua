-- The heartbeat: this node is here, and how many are.
--
-- KEYS[1] is a sorted set of the nodes by when they were last heard of, in us of Redis's clock;
-- ARGV the node's name, and 'beat' or 'bye'. The reply is {nodes, now_us, new}: how many were heard
-- of in the last ten minutes; new is 1 if this node was not among them.
--
-- It is also the probe of a store that was away, so it must be refused by one that is full or
-- read-only: the first thing it does is a write that needs memory. (Redis lets a script that has
-- written go on writing, full or not.)
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
