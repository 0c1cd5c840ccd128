#!/usr/bin/env python3
"""What TLS and tokens cost, beside a Redis with and without TLS: `tls.py WEIR >bench/wire/tls.md`.

redis-benchmark asks all of them, because it speaks TLS. It costs more than the servers do, so what
is measured is the processor time of the server's process, user and system, for each request; and
for each new connection, with a full handshake where there is one. In each round every server is
measured once, one after the other; a figure is the median of the rounds.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", "tls")]
from certificates import Authority  # noqa: E402  pylint: disable=wrong-import-position

ROUNDS = int(os.environ.get("ROUNDS", "3"))
DEPTHS = ((1, 20000), (16, 100000), (64, 200000))
CONNECTIONS = 1000
TOKEN = "a-token-for-the-benchmark"
PORT = 17311
ABOUT = """\
Processor time of the server for a request, in µs, at three depths of the pipeline; and for a
new connection with one request, with a full handshake (P-256) where there is TLS.
`redis-benchmark` asks all of them, over 32 connections and 100,000 keys, on a machine that
others used too. Medians of {rounds} rounds, each of which measures all. `bench/wire/tls.py`
writes this part."""


def weir(folder, *flags):
    return [os.path.abspath(sys.argv[1]), "serve", "--config", "none", "--threads", "1", "--listen",
            f"127.0.0.1:{PORT}", "--limit", "api=1000000000/s",
            *[f.replace("DIR", folder) for f in flags]]


def redis(folder, *flags):
    return ["redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", folder,
            *[f.replace("DIR", folder) for f in flags]]


TLS = ("--tls-cert", "DIR/server.pem", "--tls-key", "DIR/server.key")
REDIS_TLS = ("--port", "0", "--tls-port", str(PORT), "--tls-cert-file", "DIR/server.pem",
             "--tls-key-file", "DIR/server.key", "--tls-ca-cert-file", "DIR/authority.pem",
             "--tls-auth-clients", "no")
TAKE = ("WEIR.TAKE", "api", "key:__rand_int__")
INCR = ("INCR", "key:__rand_int__")
# name, command of the server, its flags, does it speak TLS, is there a token, what is asked
SERVERS = (
    ("weir", weir, (), False, False, TAKE),
    ("weir, tokens", weir, ("--tokens", "DIR/tokens"), False, True, TAKE),
    ("weir, TLS", weir, TLS, True, False, TAKE),
    ("weir, TLS and tokens", weir, (*TLS, "--tokens", "DIR/tokens"), True, True, TAKE),
    ("Redis INCR", redis, ("--port", str(PORT)), False, False, INCR),
    ("Redis INCR, TLS", redis, REDIS_TLS, True, False, INCR),
    ("Redis INCR, TLS and password", redis, (*REDIS_TLS, "--requirepass", TOKEN), True, True,
     INCR),
)


@contextlib.contextmanager
def serving(command, ask):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 10
        while b"PONG" not in subprocess.run([*ask, "PING"], capture_output=True,
                                            check=False).stdout and time.monotonic() < end:
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def cpu_us(pid):
    """What all its threads have run so far."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1000


def measure(pid, n, *command):
    """Processor time of the server in us a request."""
    before = cpu_us(pid)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0 or "rror" in done.stdout + done.stderr:
        raise RuntimeError(f"{command}: {done.stdout} {done.stderr}")
    return (cpu_us(pid) - before) / n


def one_round(folder, found):
    for name, server, flags, tls, token, words in SERVERS:
        common = ["-h", "127.0.0.1", "-p", str(PORT)]
        common += ["--tls", "--cacert", f"{folder}/authority.pem"] if tls else []
        common += ["-a", TOKEN] if token else []
        bench = ["redis-benchmark", *common, "-q", "-r", "100000"]
        with serving(server(folder, *flags), ["redis-cli", *common]) as pid:
            for depth, n in DEPTHS:
                found.setdefault((name, depth), []).append(
                    measure(pid, n, *bench, "-n", str(n), "-c", "32", "-P", str(depth), *words))
            found.setdefault((name, "connection"), []).append(
                measure(pid, CONNECTIONS, *bench, "-n", str(CONNECTIONS), "-c", "8", "-k", "0",
                        *words))


def page(found):
    yield "## TLS and tokens"
    yield ""
    yield textwrap.fill(ABOUT.format(rounds=ROUNDS), 110, break_on_hyphens=False)
    yield ""
    yield "| server | depth 1 | depth 16 | depth 64 | connection |"
    yield "|---|---|---|---|---|"
    for name, *_ in SERVERS:
        cells = [f"{statistics.median(found[name, d]):.2f}" for d, _ in DEPTHS]
        cells.append(f"{statistics.median(found[name, 'connection']):.0f}")
        yield f"| {name} | {' | '.join(cells)} |"


def main():
    found = {}
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        Authority(folder).sign("server")
        with open(f"{folder}/tokens", "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(f"bench {TOKEN} all\n")
        for _ in range(ROUNDS):
            one_round(folder, found)
    print("\n".join(page(found)))


if __name__ == "__main__":
    main()
