// rate-limiter-flexible on Redis: flexible.mjs PORT PID CALLERS SECONDS WARM KEYS PIPELINING
//
// As remote_take has it: a number of callers, each of which asks, waits and asks again; keys of twelve digits, drawn at
// random. They are promises, for that is what callers are here. PIPELINING is 1 for ioredis's auto-pipelining, which
// sends in one write what was asked in one turn of the loop. SECONDS 0: every key once, and no more.
//
// Prints one line of name=value. PID is Redis's: its processor time is that of its first thread, which does all.

import fs from 'node:fs';

import Redis from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';

const [port, pid, callers, seconds, warm, keys, pipelining] = process.argv.slice(2).map(Number);
const client = new Redis({ port, host: '127.0.0.1', enableOfflineQueue: true, enableAutoPipelining: pipelining === 1 });
const limiter = new RateLimiterRedis({ storeClient: client, points: 1000000, duration: 3600, keyPrefix: 'flexible' });
const names = Array.from({ length: keys }, (_, i) => String(i).padStart(12, '0'));
const times = [];
let next = 0, began = false, over = false;

function usage() {
    const [ran, waited] = fs.readFileSync(`/proc/${pid}/schedstat`, 'ascii').split(' ').map(Number);
    const [, late] = fs.readFileSync('/proc/self/schedstat', 'ascii').split(' ').map(Number);
    const { user, system } = process.cpuUsage();
    return { ran, waited, late, mine: 1e3 * (user + system), at: performance.now() };
}

async function fill() {
    while (next < keys)
        await limiter.consume(names[next++]);
}

// Rejects, and so ends us, if it is refused or fails.
async function call() {
    let then = performance.now();
    while (!over) {
        await limiter.consume(names[Math.floor(Math.random() * keys)]);
        const now = performance.now();
        if (began)
            times.push(now - then);
        then = now;
    }
}

function all(what, n) {
    return Promise.all(Array.from({ length: n }, what));
}

const nap = (s) => new Promise((wake) => setTimeout(wake, 1e3 * s));

function at(part) {
    return 1e3 * times[Math.min(times.length - 1, Math.floor(part * times.length))];
}

async function measure() {
    const done = all(call, callers);
    await nap(warm);
    const before = usage();
    began = true;
    await nap(seconds);
    const after = usage();
    const n = times.length, ms = after.at - before.at;
    over = true;
    await done;
    times.length = n;
    times.sort((a, b) => a - b);
    console.log(`decisions=${n} rate=${1e3 * n / ms} server_ns=${(after.ran - before.ran) / n}`
        + ` server_busy=${(after.ran - before.ran) / 1e6 / ms} client_ns=${(after.mine - before.mine) / n}`
        + ` lost=${Math.max(after.waited - before.waited, after.late - before.late) / 1e6 / ms}`
        + ` p50_us=${at(0.5)} p99_us=${at(0.99)} p999_us=${at(0.999)}`);
}

await (seconds > 0 ? measure() : all(fill, 64));
client.disconnect();
