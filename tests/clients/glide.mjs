// Valkey GLIDE against `weir serve --clock=manual --limit api=...`, as a client of one server and
// of a cluster: glide.mjs HOST PORT

import { Batch, ClusterBatch, GlideClient, GlideClusterClient } from '@valkey/valkey-glide';

import { check, expect, finish, refuses } from './rows.mjs';

const [host, port] = process.argv.slice(2);
const options = { addresses: [{ host, port: Number(port) }], requestTimeout: 10000 };

async function asks(client, name, batch) {
    expect(`${name}: PING`, await client.ping(), 'PONG');
    const throttle = await client.customCommand(['CL.THROTTLE', `${name}-t`, '15', '30', '60', '1']);
    expect(`${name}: a throttle`, throttle, [0, 16, 15, -1, 2]);
    expect(`${name}: a take`, await client.customCommand(['WEIR.TAKE', 'api', `${name}-k`]), [1, 10, 9, 0, 100, 0]);
    await refuses(`${name}: an error is an error`, client.customCommand(['WEIR.TAKE', 'nosuch', 'k']), 'no such limit');
    const replies = await Promise.all(Array.from({ length: 500 }, () =>
        client.customCommand(['CL.THROTTLE', `${name}-p`, '99', '100', '3600'])));
    expect(`${name}: 500 at once`, replies.filter((reply) => reply[0] === 0).length, 100);
    for (let i = 0; i < 3; i++)
        batch.customCommand(['WEIR.TAKE', 'api', `${name}-m`]);
    const got = await client.exec(batch, true);
    expect(`${name}: a transaction`, got.map((reply) => reply[2]), [9, 8, 7]);
}

const one = await GlideClient.createClient({ ...options, clientName: 'glide' });
await asks(one, 'GLIDE', new Batch(true));
expect('GLIDE: the connection has its name', await one.clientGetName(), 'glide');
check('GLIDE: INFO', (await one.info()).includes('role:master'));
check('GLIDE: TIME', Number((await one.time())[0]) > 1.6e9);
expect('GLIDE: SELECT', await one.select(3), 'OK');
check('GLIDE: DBSIZE', (await one.dbsize()) >= 0);
const list = await one.customCommand(['CLIENT', 'LIST']);
check('GLIDE: its library is known', list.includes('lib-name=Glide'), list);
one.close();

const two = await GlideClient.createClient({ ...options, protocol: 0 });
await asks(two, 'GLIDE, RESP2', new Batch(true));
two.close();

const cluster = await GlideClusterClient.createClient(options);
await asks(cluster, 'GLIDE in a cluster', new ClusterBatch(true));
cluster.close();
finish();
