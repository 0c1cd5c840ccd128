<?php
// The class for plain PHP, asked as a page would.
[, $folder, $name, $closed, $port] = $argv;
require "$folder/Limit.php";

$limit = new Limit($name, $closed === '1', port: (int) $port);
while (($line = fgets(STDIN)) !== false) {
    try {
        [$status, $seconds] = $limit->ask(trim($line));
        $body = $status === 200 ? 'hello' : 'try again later';
    } catch (RuntimeException $e) {
        [$status, $seconds, $body] = [500, 0, $e->getMessage()];
    }
    echo "$status||", $seconds ?: '', "|$body\n";
}
