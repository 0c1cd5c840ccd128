// The middleware for Express, in a server of node:http.
import http from 'node:http';
import { createInterface } from 'node:readline';

const [folder, name, closed] = process.argv.slice(2);
const { limit } = await import(`${folder}/express.mjs`);
const ask = limit(name, { client: (req) => decodeURIComponent(req.url.slice(1)), closed: closed === '1' });
const server = http.createServer((req, res) => ask(req, res, (error) => {
    res.statusCode = error ? 500 : 200;
    res.end(error ? error.message : 'hello');
}));
server.listen(0, '127.0.0.1', async () => {
    for await (const from of createInterface({ input: process.stdin })) {
        const url = `http://127.0.0.1:${server.address().port}/${encodeURIComponent(from)}`;
        const got = await fetch(url);
        console.log([got.status, got.headers.get('ratelimit'), got.headers.get('retry-after'),
            (await got.text()).trim()].join('|'));
    }
    process.exit(0);
});
