-- GCRA for Redis, written for speed: the reply is that of CL.THROTTLE, and the state is one
-- integer, which Redis keeps without a string: the time in microseconds at which the key has fully
-- recovered. The key expires at that time.
--
--     EVALSHA sha 1 key max_burst count period cost
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local burst = ARGV[1] + 1
local step = ARGV[3] * 1000000 / ARGV[2]
local fresh = tonumber(redis.call('GET', KEYS[1]) or now)
if fresh < now then
    fresh = now
end
local after = fresh + step * ARGV[4]
local over = after - now - step * burst
if over > 0 then
    return {1, burst, math.floor(burst - (fresh - now) / step), math.ceil(over / 1000000),
            math.ceil((fresh - now) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return {0, burst, math.floor(burst - (after - now) / step), -1, math.ceil((after - now) / 1000000)}
