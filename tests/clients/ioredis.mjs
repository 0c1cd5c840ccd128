// ioredis, or iovalkey, which has the same functions, against `weir serve --clock=manual --limit api=...`:
// ioredis.mjs HOST PORT SOCKET PACKAGE

import { check, expect, finish, refuses } from './rows.mjs';

const [host, port, path, name] = process.argv.slice(2);
const { default: Redis, Cluster } = await import(name);
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
while ((await other.call('WEIR.PEEK', '1/s', 'w', 1, 'PATIENCE', 'forever'))[5] !== 2000);
check('ioredis: a turn is waited for', !served);
await other.call('WEIR.CLOCK', 'ADVANCE', '1s');
expect('ioredis: and comes', (await turn)[0], 1);

// Transactions: pipelined, which is ioredis's default, and one command after the other.
const sent = await tcp.multi().call('WEIR.TAKE', 'api', 'm').call('WEIR.TAKE', 'nosuch', 'm')
    .call('WEIR.TAKE', 'api', 'm').exec();
check('ioredis: a transaction', sent[0][1][2] === 9 && /no such limit/.test(sent[1][0]) && sent[2][1][2] === 8, sent);
await refuses('ioredis: one with an unknown command', tcp.multi().call('WEIR.TAKE', 'api', 'm').call('NOSUCH').exec(),
    'EXECABORT');
await tcp.multi({ pipeline: false });
await tcp.call('WEIR.TAKE', 'api', 'm');
expect('ioredis: one step by step', (await tcp.exec())[0][1][2], 7);
expect('ioredis: WATCH', await tcp.watch('m'), 'OK');
check('ioredis: CLIENT LIST', (await tcp.client('LIST')).trim().split('\n').length >= 2);
check('ioredis: COMMAND', (await tcp.command()).every((row) => row.length === 10));

// A database and a user in a shared configuration.
const fifth = connect({ host, port: Number(port), db: 5, username: 'default', password: 'x' });
expect('ioredis: another database', (await fifth.call('WEIR.TAKE', 'api', 'm'))[2], 6);
fifth.disconnect();

// A cluster of one.
const cluster = new Cluster([{ host, port: Number(port) }], { clusterRetryStrategy: () => null });
cluster.on('error', (error) => heard.push(error.message));
expect('ioredis in a cluster: a take', (await cluster.call('WEIR.TAKE', 'api', 'c'))[2], 9);
expect('ioredis in a cluster: a throttle', await cluster.call('CL.THROTTLE', 'c', 15, 30, 60), [0, 16, 15, -1, 2]);
const all = await cluster.pipeline([['ping'], ['call', 'WEIR.TAKE', 'api', 'c']]).exec();
check('ioredis in a cluster: a pipeline', all[0][1] === 'PONG' && all[1][1][2] === 8, all);
expect('ioredis in a cluster: its nodes', cluster.nodes('master').length, 1);
await cluster.quit();

expect('ioredis: QUIT', await tcp.quit(), 'OK');
other.disconnect();
check('ioredis: no error was heard', heard.length === 0, heard);
finish();
