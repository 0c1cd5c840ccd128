#!/usr/bin/env python3
"""The middleware of examples/middleware, against `weir serve`: `middleware.py PATH_TO_WEIR`.

Each runs in its own language, in front of an application that says "hello". A driver below reads
the addresses of clients, one a line, and prints the status and the fields that each one gets.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from daemon import (  # noqa: E402  pylint: disable=wrong-import-position
    PATIENCE_S, Daemon, check, encode, expect, play)

SOURCE = os.path.join(HERE, "..", "..")
FOLDER = os.path.join(SOURCE, "examples", "middleware")
GUIDE = os.path.join(SOURCE, "docs", "guide", "middleware.md")

NODE = """
import http from 'node:http';
import { createInterface } from 'node:readline';
import { limit } from '%(folder)s/node.mjs';
const ask = limit('%(limit)s', (req) => req.headers.from);
const server = http.createServer((req, res) => ask(req, res, (error) => {
    res.statusCode = error ? 500 : 200;
    res.end(error ? error.message : 'hello');
}));
server.listen(0, '127.0.0.1', async () => {
    for await (const from of createInterface({ input: process.stdin })) {
        const url = `http://127.0.0.1:${server.address().port}/`;
        const got = await fetch(url, { headers: { from } });
        console.log([got.status, got.headers.get('ratelimit'), got.headers.get('retry-after'),
            (await got.text()).trim()].join('|'));
    }
    process.exit(0);
});
"""
PYTHON = """
import sys
sys.path.insert(0, '%(folder)s')
sys.dont_write_bytecode = True
from wsgi import Limit
def hello(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'hello']
app = Limit(hello, '%(limit)s')
for line in sys.stdin:
    told = []
    try:
        body = b''.join(app({'REMOTE_ADDR': line.strip()}, lambda *words: told.extend(words)))
    except RuntimeError as error:
        told, body = ['500', []], str(error).encode()
    fields = {name.lower(): value for name, value in told[1]}
    print(told[0][:3], fields.get('ratelimit', ''), fields.get('retry-after', ''),
          body.decode().strip(), sep='|', flush=True)
"""
RUBY = """
require '%(folder)s/rack'
app = Limit.new(->(env) { [200, { 'content-type' => 'text/plain' }, ['hello']] }, '%(limit)s')
$stdout.sync = true
$stdin.each_line do |line|
  begin
    status, headers, body = app.call('REMOTE_ADDR' => line.strip)
  rescue RuntimeError => e
    status, headers, body = 500, {}, [e.message]
  end
  puts [status, headers['ratelimit'], headers['retry-after'], body.join.strip].join('|')
end
"""
DRIVERS = {"node.mjs": ("node", ("--input-type=module", "-e"), NODE),
           "wsgi.py": (sys.executable, ("-c",), PYTHON), "rack.rb": ("ruby", ("-e",), RUBY)}


@contextlib.contextmanager
def driver(name, daemon, limit="win"):
    """A function that asks for a client: [status, RateLimit, Retry-After, body]."""
    program, flags, text = DRIVERS[name]
    if not shutil.which(program):
        raise RuntimeError(f"{program} is not installed")
    host, port = daemon.addresses[0]
    with subprocess.Popen([program, *flags, text % {"folder": os.path.abspath(FOLDER),
                                                    "limit": limit}],
                          env=os.environ | {"WEIR": f"http://{host}:{port}"}, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()

        def ask(client):
            process.stdin.write(client + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip().split("|")
        try:
            yield ask
        finally:
            process.stdin.close()
            process.wait(PATIENCE_S)
            late.cancel()


def limits_a_client(name):
    with Daemon("--limit", "win=fixed-window 2/1h") as daemon, driver(name, daemon) as ask, \
            daemon.resp() as c:
        expect(f"{name}: granted", [ask("192.0.2.1"), ask("::ffff:192.0.2.1")],
               [["200", '"win";r=1;t=3600', "", "hello"], ["200", '"win";r=0;t=3600', "", "hello"]])
        expect(f"{name}: refused", ask("192.0.2.1"),
               ["429", '"win";r=0;t=3600;weir-refused', "3600", "try again later"])
        expect(f"{name}: another client", ask("192.0.2.2")[0], "200")
        expect(f"{name}: an IPv6 client is its network",
               [ask(f"2001:db8::{i}")[0] for i in range(1, 4)], ["200", "200", "429"])
        expect(f"{name}: the keys", c.ask("WEIR.PEEK", "win", "2001:db8::/64", 0)[2], 0)
        with driver(name, daemon, "nosuch") as wrong:
            got = wrong("192.0.2.1")
            check(f"{name}: a limit that is missing is an error", got[0] == "500" and
                  "404 for the limit nosuch" in got[3], got)
        daemon.kill()
        expect(f"{name}: without weir requests pass", ask("192.0.2.1"), ["200", "", "", "hello"])


def refuses_for_a_full_store(name):
    flags = ("--full", "deny", "--max-keys", "1", "--limit", "win=fixed-window 2/1h")
    with Daemon(*flags) as daemon, driver(name, daemon) as ask, daemon.resp() as c:
        c.send_bytes(b"".join(encode("WEIR.TAKE", "win", f"k{i}") for i in range(5000)))
        check("the store is full", 0 in [c.read()[0] for _ in range(5000)])
        got = ask("192.0.2.1")
        check(f"{name}: 503, with a time to come back at", got[0] == "503" and int(got[2]) > 0, got)


def node():
    limits_a_client("node.mjs")
    refuses_for_a_full_store("node.mjs")


def wsgi():
    limits_a_client("wsgi.py")
    refuses_for_a_full_store("wsgi.py")


def rack():
    limits_a_client("rack.rb")
    refuses_for_a_full_store("rack.rb")


def the_guide_shows_the_files():
    with open(GUIDE, encoding="utf-8") as file:
        shown = [block.strip() for block in re.findall(r"^```(?:js|python|ruby)\n(.*?)^```",
                                                       file.read(), re.DOTALL | re.MULTILINE)]
    for name in DRIVERS:
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            check(f"the guide shows {name}", file.read().strip() in shown)


if __name__ == "__main__":
    sys.exit(play("middleware", [node, wsgi, rack, the_guide_shows_the_files]))
