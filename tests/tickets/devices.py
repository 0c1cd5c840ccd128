#!/usr/bin/env python3
"""The recipe "at most N devices at once", run as it is: `devices.py PATH_TO_WEIR`.

examples/devices has the files; redis-cli, curl and nginx must be installed: a missing one is a
failure.
"""

import contextlib
import http.client
import http.server
import os
import subprocess
import sys
import tempfile
import threading

from tickets_kit import Daemon, check, expect, left, play, until

from serve_proxies import (NGINX, ROOT, ROOTED, free_port,  # pylint: disable=wrong-import-order
                           program, read, write)

FILES = os.path.join(ROOT, "examples", "devices")
LIMIT = ("--limit", "devices=concurrency 2 lease=12h")
SAID = """\
phone: in, laptop: in, television: refused
the phone leaves: OK
television: in
the phone leaves again: ERR no such ticket
over HTTP, tablet: 429
the laptop leaves: 204
tablet: in
bob is another account: 200
"""


def sessions_over_resp_and_http():
    with Daemon(*LIMIT) as daemon, daemon.resp() as c:
        done = subprocess.run([os.path.join(FILES, "devices.sh"), str(daemon.addresses[0][1])],
                              capture_output=True, text=True, timeout=60, check=False)
        expect("as the file says", (done.returncode, done.stdout, done.stderr), (0, SAID, ""))
        expect("two of alice are in", left(c, "devices", "alice"), 0)


class Stream(http.server.BaseHTTPRequestHandler):
    """Answers at once, or with a stream that lasts until the test says so."""

    protocol_version = "HTTP/1.1"
    over = threading.Event()

    def do_GET(self):  # pylint: disable=invalid-name
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nfilm \r\n")
        self.wfile.flush()
        if self.path == "/film":
            self.over.wait(30)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def an_app():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stream) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        Stream.over.set()
        server.shutdown()


@contextlib.contextmanager
def nginx(daemon, app):
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        os.chmod(folder, 0o755)
        site = read(FILES, "nginx.conf")
        for theirs, ours in (("unix:/run/weir/weir.sock", f"unix:{daemon.addresses[0]}"),
                             ("127.0.0.1:8080", f"127.0.0.1:{app}"),
                             ("listen 80;", f"listen 127.0.0.1:{port};")):
            if theirs not in site:
                raise RuntimeError(f"nginx.conf: expected {theirs!r}")
            site = site.replace(theirs, ours)
        write(folder, "site.conf", site)
        write(folder, "nginx.conf", NGINX.format(dir=folder,
                                                 user="user root;" if ROOTED else ""))
        with subprocess.Popen([program("nginx"), "-p", folder, "-c", f"{folder}/nginx.conf"],
                              stderr=subprocess.DEVNULL) as process:
            try:
                check("nginx starts", until(lambda: listens(port)))
                yield port
            finally:
                process.terminate()


def listens(port):
    with contextlib.suppress(OSError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()
        return True
    return False


def watch(port, path="/film", account="alice"):
    """Begins to watch; the connection, and the status."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", path, headers={"X-Account": account, "Origin": "http://films.example"})
    return c, c.getresponse()


def streams_behind_nginx():
    with Daemon(*LIMIT, listen=("unix:DIR/weir.sock", "127.0.0.1:0")) as daemon, \
            daemon.resp(1) as c, an_app() as app, nginx(daemon, app) as port:
        def in_use(n):
            return until(lambda: left(c, "devices", "alice") == 2 - n)
        _, short = watch(port, "/clip")
        expect("a short one passes", (short.status, short.read()), (200, b"film "))
        check("and has left", in_use(0))
        one, first = watch(port)
        _, second = watch(port)
        expect("two films", (first.status, second.status), (200, 200))
        check("are two devices", in_use(2))
        _, third = watch(port)
        expect("a third is refused", (third.status, third.read()), (429, b"too many devices\n"))
        _, other = watch(port, "/clip", "bob&cost=0")
        expect("another account is not, whatever its name", other.status, 200)
        one.sock.close()
        first.close()
        one.close()
        check("a client that goes leaves its place", in_use(1))
        _, third = watch(port)
        expect("to the next", third.status, 200)
        Stream.over.set()
        check("when films end all have left", in_use(0))
        check("no ticket is open", until(lambda: c.info()["open_tickets"] == "0"), c.info())


if __name__ == "__main__":
    sys.exit(play("devices", [sessions_over_resp_and_http, streams_behind_nginx]))
