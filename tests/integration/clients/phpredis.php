<?php
// phpredis asks a daemon with the limit api=10/s and a clock that stands still. It prints one line
// for each question; serve_languages.py knows them all, and puts its own port in the place of 7311.

// guide
$weir = new Redis();
$weir->connect('127.0.0.1', 7311);
$reply = $weir->rawCommand('WEIR.TAKE', 'api', 'alice');
if ($reply === false) {
    throw new RuntimeException($weir->getLastError());
}
[$allowed, $limit, $remaining, $retry_ms] = $reply;
if (!$allowed) {
    echo "wait $retry_ms ms\n";
}
// end of guide

function flat($value)
{
    return is_array($value) ? implode(' ', array_map('flat', $value))
        : (is_string($value) ? $value : json_encode($value));
}

function tell($what, ...$values)
{
    echo "$what: ", trim(flat($values), "\0"), "\n";
}

tell('named', $allowed, $limit, $remaining, $retry_ms);
tell('ping', $weir->ping('PONG'));
tell('literal', $weir->rawCommand('WEIR.TAKE', 'token-bucket 10/s burst=20', 'alice'));
tell('emptied', $weir->rawCommand('WEIR.TAKE', 'token-bucket 1/m', 'alice'));
tell('refused', $weir->rawCommand('WEIR.TAKE', 'token-bucket 1/m', 'alice'));
tell('throttle', $weir->rawCommand('CL.THROTTLE', 'alice', 15, 30, 60));
tell('verbose', $weir->rawCommand('WEIR.TAKE', 'api', 'alice', 'VERBOSE'));
tell('error', $weir->rawCommand('WEIR.TAKE', 'nosuch', 'alice'), $weir->getLastError());

foreach (['pipeline' => Redis::PIPELINE, 'transaction' => Redis::MULTI] as $key => $mode) {
    $queue = $weir->multi($mode);
    for ($i = 0; $i < 3; $i++) {
        $queue->rawCommand('WEIR.TAKE', 'api', $key);
    }
    tell($key, $queue->exec());
}
tell('error in it', $weir->multi()
    ->rawCommand('WEIR.TAKE', 'api', 'transaction')
    ->rawCommand('WEIR.TAKE', 'nosuch', 'transaction')
    ->rawCommand('WEIR.TAKE', 'api', 'transaction')
    ->exec());
tell('charged', $weir->rawCommand('WEIR.PEEK', 'api', 'transaction'));
// What cannot be queued is false, and exec() would then wait for a reply that does not come.
$queue = $weir->multi()->rawCommand('WEIR.TAKE', 'api', 'transaction')->rawCommand('NOSUCH');
tell('unknown in it', $queue, $weir->getLastError());
$weir->discard();
tell('not charged', $weir->rawCommand('WEIR.PEEK', 'api', 'transaction'));

tell('select', $weir->select(1), $weir->rawCommand('WEIR.PEEK', 'api', 'pipeline'));
$weir->client('setname', 'php');
tell('name', $weir->client('getname'));

// The first argument chooses the node, and is not sent.
$cluster = new RedisCluster(null, ['127.0.0.1:7311']);
tell('cluster', $cluster->rawCommand('cluster', 'WEIR.TAKE', 'api', 'cluster'));
$cluster->multi();
for ($i = 0; $i < 2; $i++) {
    $cluster->rawCommand('cluster', 'WEIR.TAKE', 'api', 'cluster');
}
tell('cluster transaction', $cluster->exec());
