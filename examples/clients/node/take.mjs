// One take with ioredis: node take.mjs
import Redis from 'ioredis';

const weir = new Redis({ port: 7311, connectTimeout: 500, commandTimeout: 500, maxRetriesPerRequest: 0 });
weir.on('error', () => {}); // the call below throws it too
const [allowed, limit, remaining, retryMs] = await weir.call('WEIR.TAKE', 'api', 'alice');
console.log(allowed ? `${remaining} of ${limit} left` : `wait ${retryMs} ms`);
weir.disconnect();
