-- For wrk: random keys. wrk ... -s keys.lua URL -- KEYS, where the URL ends in "key=".
local keys, head, tail

function init(args)
    keys = tonumber(args[1])
    head = "GET " .. wrk.path
    tail = " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\n\r\n"
    math.randomseed(os.time())
end

function request()
    return head .. string.format("%012d", math.random(0, keys - 1)) .. tail
end

function done(summary, latency)
    local e = summary.errors
    io.write(string.format("requests=%d seconds=%.4f failed=%d p99_us=%d\n", summary.requests,
        summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
        latency:percentile(99)))
end
