// node-redis against `weir serve --clock=manual --limit api=...`, in RESP2 and RESP3 (version 4: in RESP2 alone):
// node_redis.mjs HOST PORT SOCKET PACKAGE

import { check, expect, finish, refuses } from './rows.mjs';

const [host, port, path, name] = process.argv.slice(2);
const { createClient, createCluster } = await import(name);
const old = name === 'redis-4';
const destroy = (client) => old ? client.disconnect() : client.destroy();
const close = (client) => old ? client.disconnect() : client.close();
const heard = [];

async function connect(options) {
    const socket = { reconnectStrategy: false, connectTimeout: 5000, ...options.socket };
    const client = createClient({ ...options, socket });
    client.on('error', (error) => heard.push(error.message));
    return client.connect();
}

async function asks(client, name) {
    expect(`${name}: PING`, await client.ping(), 'PONG');
    expect(`${name}: ECHO`, await client.echo('é'), 'é');
    const throttle = await client.sendCommand(['CL.THROTTLE', `${name}-t`, '15', '30', '60', '1']);
    expect(`${name}: a throttle`, throttle, [0, 16, 15, -1, 2]);
    expect(`${name}: a take`, await client.sendCommand(['WEIR.TAKE', 'api', `${name}-k`]), [1, 10, 9, 0, 100, 0]);
    expect(`${name}: nothing`, await client.sendCommand(['WEIR.LIMIT', 'GET', 'nosuch']), null);
    await refuses(`${name}: an error is an error`, client.sendCommand(['WEIR.TAKE', 'nosuch', 'k']), 'no such limit');
    const replies = await Promise.all(Array.from({ length: 500 }, () =>
        client.sendCommand(['CL.THROTTLE', `${name}-p`, '99', '100', '3600'])));
    expect(`${name}: 500 at once`, replies.filter((reply) => reply[0] === 0).length, 100);
    const key = Buffer.from([0, 255, 13, 10]);
    await client.sendCommand(['WEIR.TAKE', 'api', key]);
    expect(`${name}: a key of bytes`, (await client.sendCommand(['WEIR.PEEK', 'api', key, '0']))[1], 10);
    check(`${name}: CLIENT ID`, (await client.clientId()) > 0);
    check(`${name}: INFO`, (await client.info()).includes('weir'));
}

const two = await connect({ socket: { host, port: Number(port) }, name: 'two' });
await asks(two, 'node-redis');
expect('node-redis: the connection has its name', await two.clientGetName(), 'two');
const three = await connect({ RESP: 3, socket: { host, port: Number(port) }, name: 'three' });
await asks(three, 'node-redis, RESP3');
expect('node-redis, RESP3: the connection has its name', await three.clientGetName(), 'three');
const limits = { ...await three.sendCommand(['WEIR.LIMIT', 'LIST']) };
expect('node-redis, RESP3: a map', limits,
    old ? { 0: 'api', 1: 'token-bucket 10/s' } : { api: 'token-bucket 10/s' });
const local = await connect({ socket: { path } });
await asks(local, 'node-redis on a socket');

await two.sendCommand(['WEIR.TAKE', '2/s burst=1', 'w']);
let served = false;
const turn = two.sendCommand(['WEIR.TAKE', '2/s burst=1', 'w', '1', 'WAIT', '5s'])
    .then((reply) => { served = true; return reply; });
while ((await three.sendCommand(['WEIR.PEEK', '2/s burst=1', 'w', '1', 'PATIENCE', 'forever']))[5] !== 1000);
check('node-redis: a turn is waited for', !served);
await three.sendCommand(['WEIR.CLOCK', 'ADVANCE', '500ms']);
expect('node-redis: and comes', (await turn)[0], 1);

// Transactions.
const sent = await two.multi().addCommand(['WEIR.TAKE', 'api', 'm']).ping().addCommand(['WEIR.TAKE', 'api', 'm']).exec();
check('node-redis: a transaction', sent[0][2] === 9 && sent[1] === 'PONG' && sent[2][2] === 8, JSON.stringify(sent));
const spread = await three.multi().addCommand(['WEIR.TAKE', 'api', 'm']).execAsPipeline();
expect('node-redis, RESP3: as a pipeline', spread[0][2], 7);
await refuses('node-redis: one with an unknown command',
    two.multi().addCommand(['WEIR.TAKE', 'api', 'm']).addCommand(['NOSUCH']).exec(),
    old ? 'EXECABORT' : 'unknown command');
expect('node-redis: which charged nothing', (await two.sendCommand(['WEIR.PEEK', 'api', 'm', '0']))[2], 7);

// What it parses.
const info = await two.clientInfo();
check('node-redis: CLIENT INFO', info.name === 'two' && info.psub === 0 && info.db === 0 && info.multi === -1 &&
    info.libName === 'node-redis' && info.addr.startsWith('127.0.0.1:'), JSON.stringify(info));
const names = (await three.clientList()).map((one) => one.name);
check('node-redis, RESP3: CLIENT LIST', ['two', 'three'].every((name) => names.includes(name)), names);
for (const [client, name] of [[two, 'node-redis'], [three, 'node-redis, RESP3']]) {
    const take = (await client.commandInfo(['weir.take']))[0];
    check(`${name}: COMMAND INFO`, take.arity === -3 && take.firstKeyIndex === 2, JSON.stringify(take));
    expect(`${name}: COMMAND GETKEYS`, await client.commandGetKeys(['WEIR.TAKE', 'api', 'k']), ['k']);
    check(`${name}: ROLE`, (await client.role()).role === 'master');
    check(`${name}: CONFIG GET`, Number((await client.configGet('maxmemory')).maxmemory) > 0);
    check(`${name}: TIME`, (await client.time()) !== null);
    check(`${name}: DBSIZE`, (await client.dbSize()) >= 0);
    expect(`${name}: LATENCY LATEST`, await client.latencyLatest(), []);
}

// A database, and the default user's password.
const fifth = await connect({ socket: { host, port: Number(port) }, database: 5, username: 'default', password: 'x' });
expect('node-redis: another database', (await fifth.sendCommand(['WEIR.TAKE', 'api', 'm']))[2], 6);
destroy(fifth);

// A cluster of one.
for (const RESP of [2, 3]) {
    const name = `node-redis in a cluster, RESP${RESP}`;
    const cluster = createCluster({ RESP, rootNodes: [{ socket: { host, port: Number(port) } }] });
    cluster.on('error', (error) => heard.push(error.message));
    await cluster.connect();
    const take = await cluster.sendCommand(`c${RESP}`, false, ['WEIR.TAKE', 'api', `c${RESP}`]);
    expect(`${name}: a take`, take, [1, 10, 9, 0, 100, 0]);
    const again = ['WEIR.TAKE', 'api', `c${RESP}`];
    const words = old ? [again] : [false, again];
    const both = await cluster.multi(`c${RESP}`).addCommand(`c${RESP}`, ...words).exec();
    expect(`${name}: a transaction`, both[0][2], 8);
    expect(`${name}: its nodes`, cluster.masters.length, 1);
    await close(cluster);
}

await close(two);
await three.quit();
destroy(local);
check('node-redis: no error was heard', heard.length === 0, heard);
finish();
