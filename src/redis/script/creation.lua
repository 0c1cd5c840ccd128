-- The creation time of a limit: the first node that asks sets it, by Redis's clock in us.
--
-- KEYS[1] is PREFIX:FORMAT:{SCOPE}:created. The reply is the time. The key lives three years after
-- the last time that a node asked.
local THREE_YEARS_MS = 94867200000
local created = redis.call('GET', KEYS[1])

if not created then
  local time = redis.call('TIME')
  created = string.format('%d', time[1] * 1000000 + time[2])
  redis.call('SET', KEYS[1], created)
end
redis.call('PEXPIRE', KEYS[1], string.format('%d', THREE_YEARS_MS))
return tonumber(created)
