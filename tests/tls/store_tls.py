#!/usr/bin/env python3
"""A Redis that speaks TLS alone, behind the HAProxy of docs/guide/fleet.md: `store_tls.py WEIR`."""

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


def recipe(folder, port):
    text = re.search(r"(?ms)^```haproxy\n(.*?)^```", read(GUIDE)).group(1)
    for theirs, ours in (("/run/weir/redis.sock mode 660 group weir", f"{folder}/redis.sock"),
                         ("10.0.0.5:6380", f"127.0.0.1:{port}"),
                         ("/etc/weir/redis-ca.pem", f"{folder}/authority.pem"),
                         ("redis.example.org", "localhost")):
        if theirs not in text:
            raise RuntimeError(f"fleet.md: expected {theirs!r}")
        text = text.replace(theirs, ours)
    write(folder, "haproxy.cfg", text)
    return [program("haproxy"), "-db", "-f", f"{folder}/haproxy.cfg"]


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


def through_a_proxy():
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        port = free_port()
        write(folder, "password", PASSWORD)
        url = f"redis+unix:{folder}/redis.sock?password-file={folder}/password&timeout=2s"
        with redis_of_tls(folder, port) as redis, process(*recipe(folder, port)), \
                Daemon("--store", url, "--limit", "api=fixed-window 5/10h fallback=deny",
                       manual=False) as daemon, daemon.resp() as c:
            check("takes are decided there", until(lambda: c.ask("WEIR.PEEK", "api", "k")[0] == 1))
            expect("and counted", [c.ask("WEIR.TAKE", "api", "k")[0] for _ in range(6)],
                   [1, 1, 1, 1, 1, 0])
            redis.kill()
            redis.wait()
            check("without it fallback= answers",
                  until(lambda: c.ask("WEIR.TAKE", "api", "other")[0] == 0))


def another_name_is_refused():
    """The certificate is for localhost, and the proxy wants to see another name."""
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        port = free_port()
        with redis_of_tls(folder, port):
            command = recipe(folder, port)
            text = read(folder, "haproxy.cfg")
            write(folder, "haproxy.cfg", text.replace("verifyhost localhost",
                                                      "verifyhost redis.elsewhere"))
            url = f"redis+unix:{folder}/redis.sock?timeout=200ms"
            with process(*command), Daemon("--store", url, "--limit", "api=5/s fallback=deny",
                                           manual=False) as daemon, daemon.resp() as c:
                until(lambda: os.path.exists(f"{folder}/redis.sock"))
                expect("nothing is decided by it", c.ask("WEIR.TAKE", "api", "k")[0], 0)


def rediss_is_told():
    done = subprocess.run([WEIR, "take", "1/s", "k", "--store", "rediss://127.0.0.1:1?timeout=1ms"],
                          capture_output=True, text=True, timeout=20, check=False)
    told = done.returncode == 2 and "has no TLS" in done.stderr
    built = done.returncode == 0        # its fallback answers: this hiredis has TLS
    check("rediss:// works, or says why not", told or built, done.stderr)


if __name__ == "__main__":
    sys.exit(play("store-tls", [through_a_proxy, another_name_is_refused, rediss_is_told]))
