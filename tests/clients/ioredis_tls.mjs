// ioredis over TLS against `weir serve --tokens ... --tls-ca ...`: ioredis_tls.mjs PORT FOLDER TOKEN

import fs from 'node:fs';
import https from 'node:https';

import Redis from 'ioredis';

import { check, expect, finish } from './rows.mjs';

const [port, folder, token] = process.argv.slice(2);
const file = (name) => fs.readFileSync(`${folder}/${name}`);
const heard = [];

function connect(options, tls) {
    const client = new Redis({
        host: 'localhost', family: 4, port: Number(port), connectTimeout: 5000, maxRetriesPerRequest: 0,
        retryStrategy: null, tls: { ca: file('authority.pem'), ...tls }, ...options,
    });
    client.on('error', (error) => heard.push(error.message));
    return client;
}

async function asks(client, name) {
    expect(`${name}: a take`, (await client.call('WEIR.TAKE', 'api', 'shop:k'))[0], 1);
    const many = client.pipeline();
    for (let i = 0; i < 500; i++)
        many.call('WEIR.TAKE', 'api', `shop:${i}`);
    const replies = await many.exec();
    expect(`${name}: a pipeline`, replies.filter(([error, reply]) => !error && reply[0] === 1).length, 500);
}

const byToken = connect({ username: 'ops', password: token });
await asks(byToken, 'ioredis by a token');
const byName = connect({}, { cert: file('shop.pem'), key: file('shop.key') });
await asks(byName, 'ioredis by a certificate');

// Node's own https, which offers http/1.1 by ALPN and resumes sessions.
const agent = new https.Agent({ ca: file('authority.pem'), keepAlive: false, maxCachedSessions: 10 });
function get() {
    return new Promise((resolve, reject) => {
        https.get({ host: 'localhost', family: 4, port, path: '/v1/take?limit=api&key=shop:k', agent,
            ALPNProtocols: ['http/1.1'], headers: { Authorization: `Bearer ${token}` } }, (reply) => {
            const found = [reply.statusCode, reply.socket.alpnProtocol, reply.socket.isSessionReused()];
            reply.resume();
            reply.on('end', () => resolve(found));
        }).on('error', reject);
    });
}
expect('https: the first', await get(), [200, 'http/1.1', false]);
expect('https: the second resumes its session', await get(), [200, 'http/1.1', true]);
check('nothing else was heard', heard.length === 0, heard);
byToken.disconnect();
byName.disconnect();
finish();
