<?php
// Plain PHP: (new Limit('api'))->orExit() at the top of a page asks weir before the page is made.

class Limit
{
    private ?Redis $weir = null;

    public function __construct(
        private string $name,
        private bool $closed = false,
        private string $host = '127.0.0.1',
        private int $port = 7311
    ) {
    }

    /** [status, seconds until a request may pass]: 200, 429, or 503 without weir if closed. */
    public function ask(string $key): array
    {
        try {
            if (!$this->weir) {
                $weir = new Redis();
                $weir->connect($this->host, $this->port, 0.5, null, 0, 0.5);
                $this->weir = $weir;
            }
            $reply = $this->weir->rawCommand('WEIR.TAKE', $this->name, $key);
        } catch (RedisException $e) {
            $this->weir = null;
            return $this->closed ? [503, 1] : [200, 0]; // without weir, requests pass
        }
        if ($reply === false) {
            throw new RuntimeException('weir: ' . $this->weir->getLastError());
        }
        [$allowed, , , $retry_ms] = $reply;
        return $allowed ? [200, 0] : [429, max(1, (int) ceil($retry_ms / 1000))];
    }

    public function orExit(?string $key = null): void
    {
        [$status, $seconds] = $this->ask($key ?? $_SERVER['REMOTE_ADDR']);
        if ($status !== 200) {
            http_response_code($status);
            header("Retry-After: $seconds");
            header('Content-Type: text/plain');
            exit("try again later\n");
        }
    }
}
