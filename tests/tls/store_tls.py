#!/usr/bin/env python3
"""A Redis that speaks TLS alone, behind the proxies of docs/guide/fleet.md: `store_tls.py WEIR`.

HAProxy and stunnel run the page's files, with nothing changed but addresses, names and paths.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

from tls_kit import HERE, WEIR, Authority, Daemon, check, expect, play, until
from serve_proxies import free_port, program, read, write

GUIDE = os.path.join(HERE, "..", "..", "docs", "guide", "fleet.md")
PASSWORD = "a-password-of-redis"


@contextlib.contextmanager
def process(*command, **options):
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, **options)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGCONT)
        started.kill()
        started.wait()


class Proxy:
    """One of the page's proxies, in a folder, before a Redis at a port."""

    def __init__(self, name, folder, port):
        self.folder, self.listens = folder, free_port()
        write(folder, "password", PASSWORD)
        self.socket = os.path.join(folder, "redis.sock")
        changes = [("10.0.0.5:6380", f"127.0.0.1:{port}"),
                   ("/etc/weir/redis-ca.pem", f"{folder}/authority.pem"),
                   ("redis.example.org", "localhost")]
        if name == "haproxy":
            block, self.store = "haproxy", f"redis+unix:{self.socket}?"
            self.command = [program("haproxy"), "-db", "-f", f"{folder}/proxy"]
            changes.append(("/run/weir/redis.sock mode 660 group weir", self.socket))
        else:
            block, self.store = "ini", f"redis://127.0.0.1:{self.listens}?"
            self.command = [program("stunnel4"), f"{folder}/proxy"]
            changes.append(("accept = 127.0.0.1:6380", f"accept = 127.0.0.1:{self.listens}"))
        self.text = re.search(rf"(?ms)^```{block}\n(.*?)^```", read(GUIDE)).group(1)
        for theirs, ours in changes:
            self.change(theirs, ours)

    def change(self, theirs, ours):
        if theirs not in self.text:
            raise RuntimeError(f"fleet.md: expected {theirs!r}")
        self.text = self.text.replace(theirs, ours)

    def runs(self):
        write(self.folder, "proxy", self.text)
        return process(*self.command)

    def is_there(self):
        with contextlib.suppress(OSError):
            if self.store.startswith("redis+unix"):
                return os.path.exists(self.socket)
            with socket.create_connection(("127.0.0.1", self.listens), 1):
                return True
        return False


@contextlib.contextmanager
def redis_of_tls(folder, port):
    a = Authority(folder)
    a.sign("redis")
    with process("redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1",
                 "--tls-cert-file", a.path("redis"), "--tls-key-file", a.path("redis", "key"),
                 "--tls-ca-cert-file", a.file, "--tls-auth-clients", "no", "--save", "",
                 "--dir", folder, "--requirepass", PASSWORD) as redis:
        def answers():
            with contextlib.suppress(OSError):
                with a.client().wrap_socket(socket.create_connection(("127.0.0.1", port), 1),
                                            server_hostname="localhost"):
                    return True
            return False
        check("a Redis speaks TLS", until(answers))
        yield redis


def through(name):
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        port = free_port()
        proxy = Proxy(name, folder, port)
        url = f"{proxy.store}password-file={folder}/password&timeout=2s"
        with redis_of_tls(folder, port) as redis, proxy.runs(), \
                Daemon("--store", url, "--limit", "api=fixed-window 5/10h fallback=deny",
                       manual=False) as daemon, daemon.resp() as c:
            check(f"{name}: takes are decided there",
                  until(lambda: c.ask("WEIR.PEEK", "api", "k")[0] == 1))
            expect(f"{name}: and counted", [c.ask("WEIR.TAKE", "api", "k")[0] for _ in range(6)],
                   [1, 1, 1, 1, 1, 0])
            redis.kill()
            redis.wait()
            check(f"{name}: without it fallback= answers",
                  until(lambda: c.ask("WEIR.TAKE", "api", "other")[0] == 0))


def through_haproxy():
    through("haproxy")


def through_stunnel():
    through("stunnel")


def is_refused(name, what, spoil):
    """A proxy that must not believe the Redis, to which weir has the right password."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        port = free_port()
        proxy = Proxy(name, folder, port)
        with redis_of_tls(folder, port):
            spoil(proxy)
            with proxy.runs():
                check(f"{name} listens", until(proxy.is_there))
                url = f"{proxy.store}password-file={folder}/password&timeout=200ms"
                with Daemon("--store", url, "--limit", "api=5/s fallback=deny",
                            manual=False) as daemon, daemon.resp() as c:
                    check(f"{name}: nothing is decided by {what}",
                          not until(lambda: c.ask("WEIR.PEEK", "api", "k")[0] == 1, 1))


def another_name_is_refused():
    """The certificate is for localhost, and the proxy wants to see another name."""
    for name in ("haproxy", "stunnel"):
        is_refused(name, "a Redis of another name",
                   lambda proxy: proxy.change("localhost", "redis.elsewhere"))


def another_authority_is_refused():
    """The certificate is for localhost, and signed by an authority that the proxy does not know."""
    for name in ("haproxy", "stunnel"):
        is_refused(name, "a Redis of another authority",
                   lambda proxy: (Authority(proxy.folder, "stranger"),
                                  proxy.change("authority.pem", "stranger.pem")))


def rediss_is_told():
    done = subprocess.run([WEIR, "take", "1/s", "k", "--store", "rediss://127.0.0.1:1?timeout=1ms"],
                          capture_output=True, text=True, timeout=20, check=False)
    told = done.returncode == 2 and "has no TLS" in done.stderr
    built = done.returncode == 0        # its fallback answers: this hiredis has TLS
    check("rediss:// works, or says why not", told or built, done.stderr)


if __name__ == "__main__":
    sys.exit(play("store-tls", [
        through_haproxy, through_stunnel, another_name_is_refused, another_authority_is_refused,
        rediss_is_told]))
