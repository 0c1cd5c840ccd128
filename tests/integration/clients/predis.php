<?php
// predis asks a daemon with the limit api=10/s and a clock that stands still. It prints one line
// for each question; serve_languages.py knows them all, and puts its own port in the place of 7311.

// guide
require 'Predis/autoload.php';

class Take extends Predis\Command\Command
{
    public function getId()
    {
        return 'WEIR.TAKE';
    }
}

$weir = new Predis\Client(['host' => '127.0.0.1', 'port' => 7311]);
$weir->getProfile()->defineCommand('take', 'Take');
[$allowed, $limit, $remaining, $retry_ms] = $weir->take('api', 'alice');
if (!$allowed) {
    echo "wait $retry_ms ms\n";
}
// end of guide

function flat($value)
{
    return is_array($value) ? implode(' ', array_map('flat', $value)) : $value ?? 'null';
}

function tell($what, ...$values)
{
    echo "$what: ", flat($values), "\n";
}

function tell_error($what, $ask)
{
    try {
        tell($what, $ask());
    } catch (Predis\PredisException $error) {
        tell($what, get_class($error), $error->getMessage());
    }
}

function thrice($queue, $key)
{
    for ($i = 0; $i < 3; $i++) {
        $queue->take('api', $key);
    }
}

tell('named', $allowed, $limit, $remaining, $retry_ms);
tell('ping', $weir->ping());
tell('literal', $weir->take('token-bucket 10/s burst=20', 'alice'));
tell('emptied', $weir->take('token-bucket 1/m', 'alice'));
tell('refused', $weir->take('token-bucket 1/m', 'alice'));
tell('throttle', $weir->executeRaw(['CL.THROTTLE', 'alice', 15, 30, 60]));
tell('verbose', $weir->take('api', 'alice', 'VERBOSE'));
tell_error('error', fn () => $weir->take('nosuch', 'alice'));

tell('pipeline', $weir->pipeline(fn ($p) => thrice($p, 'pipeline')));
tell('transaction', $weir->transaction(fn ($t) => thrice($t, 'transaction')));
tell_error('error in it', fn () => $weir->transaction(function ($t) {
    $t->take('api', 'transaction');
    $t->take('nosuch', 'transaction');
    $t->take('api', 'transaction');
}));
tell('charged', $weir->executeRaw(['WEIR.PEEK', 'api', 'transaction']));
tell_error('unknown in it', fn () => $weir->transaction(function ($t) {
    $t->take('api', 'transaction');
    $t->get('a value');
}));
tell('not charged', $weir->executeRaw(['WEIR.PEEK', 'api', 'transaction']));

tell('select', $weir->select(1), $weir->executeRaw(['WEIR.PEEK', 'api', 'pipeline']));
$other = new Predis\Client('tcp://127.0.0.1:7311?database=1');
$other->client('setname', 'predis');
tell('name', $other->client('getname'));
tell('database', $other->executeRaw(['WEIR.PEEK', 'api', 'pipeline']));

// It must be told which word is the key of a command that is new to it.
$cluster = new Predis\Client(['tcp://127.0.0.1:7311'], ['cluster' => 'redis']);
$cluster->getProfile()->defineCommand('take', 'Take');
$cluster->getConnection()->getClusterStrategy()
    ->setCommandHandler('WEIR.TAKE', fn ($take) => $take->getArgument(1));
tell('cluster', $cluster->take('api', 'cluster'));
