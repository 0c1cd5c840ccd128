// ioredis against `weir serve --clock=manual --limit api=...`: ioredis.mjs HOST PORT SOCKET

import Redis from 'ioredis';

import { check, expect, finish, refuses } from './rows.mjs';

const [host, port, path] = process.argv.slice(2);
const heard = [];

function connect(options) {
    const client = new Redis({ connectTimeout: 5000, maxRetriesPerRequest: 0, retryStrategy: null, ...options });
    client.on('error', (error) => heard.push(error.message));
    return client;
}

async function asks(client, name) {
    expect(`${name}: PING`, await client.ping(), 'PONG');
    expect(`${name}: a throttle`, await client.call('CL.THROTTLE', `${name}-t`, 15, 30, 60, 1), [0, 16, 15, -1, 2]);
    expect(`${name}: a take`, await client.call('WEIR.TAKE', 'api', `${name}-k`), [1, 10, 9, 0, 100, 0]);
    await refuses(`${name}: an error is an error`, client.call('WEIR.TAKE', 'nosuch', 'k'), 'no such limit');
    const many = client.pipeline();
    for (let i = 0; i < 500; i++)
        many.call('CL.THROTTLE', `${name}-p`, 99, 100, 3600);
    const replies = await many.exec();
    expect(`${name}: a pipeline`, replies.filter(([error, reply]) => !error && reply[0] === 0).length, 100);
    const together = await Promise.all(Array.from({ length: 200 }, (_, i) =>
        client.call('THROTTLE', `${name}-a${i}`, 5, 5, 60)));
    check(`${name}: many at once`, together.every((reply) => reply[0] === 1 && reply[2] === 4), together[0]);
    const key = Buffer.concat([Buffer.from([0, 255, 13, 10]), Buffer.from(name)]);
    await client.callBuffer('WEIR.TAKE', 'api', key);
    expect(`${name}: a key of bytes`, await client.call('WEIR.PEEK', 'api', key, 0), [1, 10, 9, 0, 100, 0]);
}

const tcp = connect({ host, port: Number(port), connectionName: 'ioredis' });
await asks(tcp, 'ioredis');
expect('ioredis: the connection has its name', await tcp.client('GETNAME'), 'ioredis');
check('ioredis: INFO', (await tcp.info()).includes('weir'));
expect('ioredis: limits', await tcp.call('WEIR.LIMIT', 'LIST'), ['api', 'token-bucket 10/s']);

// One connection waits; the other moves the clock.
const other = connect({ path, db: 0 });
await asks(other, 'ioredis on a socket');
await tcp.call('WEIR.TAKE', '1/s', 'w');
let served = false;
const turn = tcp.call('WEIR.TAKE', '1/s', 'w', 1, 'WAIT', '5s')
    .then((reply) => { served = true; return reply; });
while ((await other.call('WEIR.PEEK', '1/s', 'w', 1, 'RESERVE', 'forever'))[5] !== 2000);
check('ioredis: a turn is waited for', !served);
await other.call('WEIR.CLOCK', 'ADVANCE', '1s');
expect('ioredis: and comes', (await turn)[0], 1);

expect('ioredis: QUIT', await tcp.quit(), 'OK');
other.disconnect();
check('ioredis: no error was heard', heard.length === 0, heard);
finish();
