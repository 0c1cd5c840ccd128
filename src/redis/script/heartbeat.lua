-- The heartbeat: announces this node, and returns how many nodes there are.
--
-- KEYS[1] is a sorted set of the nodes by the time they were last seen, in us of Redis's clock;
-- KEYS[2] is the format that all of them use. ARGV is the node's name, 'beat' or 'bye', and its
-- format. The reply is {nodes, now_us, new, format}: how many were seen in the last ten minutes;
-- new is 1 if this node was not among them; and the format that the nodes there use. If that is not
-- this node's, the node is not announced.
--
-- A format is in use until ten seconds after the last heartbeat, or until the last node leaves.
-- KEYS[2] and what is done with it here are what all formats have in common.
--
-- It is also the probe of a store that was down, so a store that is full or read-only must refuse
-- it: the first thing it does is a write that needs memory. (Redis lets a script that has written
-- go on writing, full or not.)
local TEN_MINUTES = 600000000
local TEN_SECONDS_MS = '10000'
local time = redis.call('TIME')
local now, new, nodes = time[1] * 1000000 + time[2], 0, 0
local format = redis.call('GET', KEYS[2])

if ARGV[2] == 'bye' then
  redis.call('ZREM', KEYS[1], ARGV[1])
elseif format and format ~= ARGV[3] then
  return {0, now, 0, tonumber(format) or 0}
else
  redis.call('SET', KEYS[2], ARGV[3], 'PX', TEN_SECONDS_MS)
  new = redis.call('ZADD', KEYS[1], string.format('%d', now), ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%d', now - TEN_MINUTES))
redis.call('PEXPIRE', KEYS[1], string.format('%d', TEN_MINUTES / 1000))
nodes = redis.call('ZCARD', KEYS[1])
if nodes == 0 and format == ARGV[3] then
  redis.call('DEL', KEYS[2])
end
return {nodes, now, new, tonumber(ARGV[3])}
