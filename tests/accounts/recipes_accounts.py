#!/usr/bin/env python3
"""The recipes of examples/accounts, run as they are: `recipes_accounts.py PATH_TO_WEIR`.

redis-cli, curl and nginx must be installed: a missing one is a failure.
"""

import contextlib
import http.client
import http.server
import os
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration")]
# pylint: disable=wrong-import-position
from daemon import Daemon, check, expect, play, until  # noqa: E402
from serve_proxies import NGINX, ROOTED, free_port, program, read, write  # noqa: E402

FILES = os.path.join(HERE, "..", "..", "examples", "accounts")
LOGIN = """\
      7 alice: welcome
      2 mallory: refused
      5 mallory: wrong password
over HTTP, bob: {"returned":1}
mallory: LIMITED
"""
TOKENS = """\
two calls at once: one passes, one is refused
the first took 150: 850 left
the second took 900: 0 left
over HTTP, bob's call failed: {"returned":600}
and again: "no such reservation
"""


def said_by(name, limit):
    with Daemon("--limit", limit) as daemon:
        done = subprocess.run([os.path.join(FILES, name), str(daemon.addresses[0][1])],
                              capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr


def only_failures_count():
    expect("as the file says", said_by("login.sh", "logins=sliding-log 5/10m"), (0, LOGIN, ""))


def count_what_it_cost():
    expect("as the file says", said_by("tokens.sh", "tokens=token-bucket 1000/1m"), (0, TOKENS, ""))


# ---- Behind nginx ------------------------------------------------------------------------------


class App(http.server.BaseHTTPRequestHandler):
    """A login that fails if the password is wrong, and files of so many bytes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # pylint: disable=invalid-name
        what = self.path.rsplit("/", 1)[1]
        body = b"x" * int(what) if what.isdigit() else b""
        self.send_response(401 if what == "wrong" else 200)
        if what == "wrong":
            self.send_header("X-Login", "failed")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def nginx(daemon):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), App) as app, \
            tempfile.TemporaryDirectory(prefix="weir-") as folder:
        app.daemon_threads = True
        threading.Thread(target=app.serve_forever, daemon=True).start()
        port = free_port()
        os.chmod(folder, 0o755)
        site = read(FILES, "nginx.conf")
        for theirs, ours in (("unix:/run/weir/weir.sock", f"unix:{daemon.addresses[0]}"),
                             ("127.0.0.1:8080", f"127.0.0.1:{app.server_address[1]}"),
                             ("listen 80;", f"listen 127.0.0.1:{port};")):
            if theirs not in site:
                raise RuntimeError(f"nginx.conf: expected {theirs!r}")
            site = site.replace(theirs, ours)
        write(folder, "site.conf", site)
        write(folder, "weir_request.conf", read(FILES, "weir_request.conf"))
        write(folder, "nginx.conf", NGINX.format(dir=folder, user="user root;" if ROOTED else ""))
        with subprocess.Popen([program("nginx"), "-p", folder, "-c", f"{folder}/nginx.conf"],
                              stderr=subprocess.DEVNULL) as process:
            try:
                check("nginx starts", until(lambda: get(port, "/nothing") is not None))
                yield port
            finally:
                process.terminate()
                app.shutdown()


def get(port, path):
    with contextlib.suppress(OSError):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        c.request("GET", path)
        answer = c.getresponse()
        answer.read()
        return answer.status
    return None


def behind_nginx():
    limits = ("--limit", "logins=sliding-log 5/10m", "--limit", "bytes=token-bucket 1M/1m burst=1M")
    with Daemon(*limits, listen=("unix:DIR/weir.sock", "127.0.0.1:0")) as daemon, \
            daemon.resp(1) as c, nginx(daemon) as port:
        def left(limit, n):
            return until(lambda: c.ask("WEIR.PEEK", limit, "127.0.0.1", 0)[2] == n)
        for _ in range(7):
            expect("a right password", get(port, "/login/right"), 200)
            check("counts nothing", left("logins", 5))
        for n in range(5):
            expect("a wrong one", get(port, "/login/wrong"), 401)
            check("counts", left("logins", 4 - n), c.ask("WEIR.PEEK", "logins", "127.0.0.1", 0))
        expect("no more, right or wrong", get(port, "/login/right"), 429)
        expect("a small file", get(port, "/files/1000"), 200)
        check("counts its bytes", left("bytes", 999000),
              c.ask("WEIR.PEEK", "bytes", "127.0.0.1", 0))
        expect("a large one", get(port, "/files/950000"), 200)
        check("counts too, above its estimate", left("bytes", 49000))
        expect("no room for the estimate of the next", get(port, "/files/1"), 429)


if __name__ == "__main__":
    sys.exit(play("recipes of accounts", [only_failures_count, count_what_it_cost, behind_nginx]))
