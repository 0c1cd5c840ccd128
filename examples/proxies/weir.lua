-- `http-request lua.weir LIMIT` asks weir whether the request may pass, and sets txn.weir_status
-- (204, 429; 0 if weir did not answer, and then requests pass) and what weir says of the limit.
local WEIR = "http://127.0.0.1:7311/v1/auth/"
local FIELDS = {"retry-after", "ratelimit", "ratelimit-policy"}

core.register_action("weir", {"http-req"}, function(txn, limit)
    local answer = core.httpclient():get({
        url = WEIR .. limit,
        headers = {["host"] = {"localhost"}, ["x-forwarded-for"] = {txn.sf:src()}},
        timeout = 500,
    })
    txn:set_var("txn.weir_status", answer and answer.status or 0)
    for _, name in ipairs(FIELDS) do
        local value = answer and answer.headers and answer.headers[name]
        if value then
            txn:set_var("txn.weir_" .. name:gsub("-", "_"), value[0])
        end
    end
end, 1)
