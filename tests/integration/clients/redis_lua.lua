-- redis-lua asks a daemon with the limit api=10/s and a clock that stands still. It prints one line
-- for each question; serve_languages.py knows them all, and puts its own port in the place of 7311.

-- guide
local redis = require 'redis'

redis.commands.take = redis.command('WEIR.TAKE')
local weir = redis.connect('127.0.0.1', 7311)
local allowed, limit, remaining, retry_ms = unpack(weir:take('api', 'alice'))
if allowed == 0 then
    print('wait ' .. retry_ms .. ' ms')
end
-- end of guide

redis.commands.peek = redis.command('WEIR.PEEK')
redis.commands.throttle = redis.command('CL.THROTTLE')
redis.commands.nosuch = redis.command('NOSUCH')
redis.commands.named = redis.command('CLIENT')
weir = redis.connect('127.0.0.1', 7311)

local function flat(value)
    if type(value) ~= 'table' then return value == nil and 'null' or tostring(value) end
    local words = {}
    for i = 1, table.maxn(value) do words[i] = flat(value[i]) end
    return table.concat(words, ' ')
end

local function tell(what, ...)
    print(what .. ': ' .. flat({...}))
end

-- The message of an error, without the lines of redis-lua's own source.
local function tell_error(what, ...)
    local good, message = pcall(...)
    tell(what, good, type(message) == 'string' and message:gsub('^.*: redis error', 'redis error')
        or message)
end

local function queue(...)
    local limits = {...}
    return function(q)
        for _, limit in ipairs(limits) do q:take(limit, 'transaction') end
    end
end

tell('named', allowed, limit, remaining, retry_ms)
tell('ping', weir:ping())
tell('literal', weir:take('token-bucket 10/s burst=20', 'alice'))
tell('emptied', weir:take('token-bucket 1/m', 'alice'))
tell('refused', weir:take('token-bucket 1/m', 'alice'))
tell('throttle', weir:throttle('alice', 15, 30, 60))
tell('verbose', weir:take('api', 'alice', 'VERBOSE'))
tell_error('error', weir.take, weir, 'nosuch', 'alice')

tell('pipeline', (weir:pipeline(function(p)
    for _ = 1, 3 do p:take('api', 'pipeline') end
end)))
tell('transaction', (weir:transaction(queue('api', 'api', 'api'))))
-- At an error among the replies of EXEC redis-lua leaves the rest unread: connect again.
local broken = redis.connect('127.0.0.1', 7311)
tell_error('error in it', broken.transaction, broken, queue('api', 'nosuch', 'api'))
tell('charged', weir:peek('api', 'transaction'))
tell_error('unknown in it', weir.transaction, weir, function(t)
    t:take('api', 'transaction')
    t:nosuch()
end)
tell('not charged', weir:peek('api', 'transaction'))
tell('select', weir:select(1), weir:peek('api', 'pipeline'))
weir:named('SETNAME', 'lua')
tell('name', weir:named('GETNAME'))
