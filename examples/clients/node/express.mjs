// Express, Connect or node:http: app.use(limit('api')) asks weir before each request.
const WEIR = process.env.WEIR ?? 'http://127.0.0.1:7311';
const FIELDS = ['ratelimit', 'ratelimit-policy', 'retry-after'];

export function limit(name, { client = (req) => req.socket.remoteAddress, closed = false } = {}) {
    return async (req, res, next) => {
        const key = client(req);
        let answer;
        if (!/^[\x20-\x7e]+$/.test(key)) // fetch would throw, as it does without weir
            return next(new Error(`weir: not a key for a header field: ${key}`));
        try {
            answer = await fetch(`${WEIR}/v1/auth/${name}`, {
                headers: { 'X-Forwarded-For': key },
                signal: AbortSignal.timeout(500),
            });
            await answer.arrayBuffer();
        } catch {
            if (!closed)
                return next(); // without weir, requests pass
            res.statusCode = 503;
            res.setHeader('retry-after', '1');
            return res.end('try again later\n');
        }
        for (const field of FIELDS)
            if (answer.headers.has(field))
                res.setHeader(field, answer.headers.get(field));
        if (answer.status === 204)
            return next();
        if (answer.status !== 429 && answer.status !== 503)
            return next(new Error(`weir: ${answer.status} for the limit ${name}`));
        res.statusCode = answer.status;
        res.end('try again later\n');
    };
}
