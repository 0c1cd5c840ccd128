#!/usr/bin/env python3
"""What clients of limits in memory feel while a Redis answers late: `bench/redis/slow.py WEIR`.

A daemon with two workers has a limit in memory and limits on a Redis that answers after 40 ms (a
proxy delays its replies). A client takes from the limit in memory, another one asks for /healthz,
one request at a time. Meanwhile another client does one of these, ten times a second:

    nothing       for the numbers of an idle machine
    peeks         200 WEIR.PEEK in one pipeline
    sets          400 of them, and a WEIR.LIMIT SET over each of two connections (one a worker)
    leaves        500 reservations, and then it is gone
    floods        20,000 takes in one pipeline

It does so to the daemon that is measured ("with"), and for comparison to another daemon on the same
machine, with the same Redis ("without"): so both share the processors with the same work, and what
is left is what the clients of one daemon do to each other. Prints the median over the rounds of p50
and p99, and of each round's ratio.
"""

import argparse
import asyncio
import gc
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

DELAY_S = 0.040
SCENES = ["nothing", "peeks", "sets", "leaves", "floods"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def encode(*words):
    out = b"*%d\r\n" % len(words)
    for word in words:
        word = str(word).encode()
        out += b"$%d\r\n%s\r\n" % (len(word), word)
    return out


# ---- A Redis that answers late -----------------------------------------------------------------


async def forward(reader, writer, delay_s):
    loop = asyncio.get_running_loop()
    while data := await reader.read(1 << 16):
        if delay_s:
            loop.call_later(delay_s, writer.write, data)
        else:
            writer.write(data)
    writer.close()


async def proxy(port, redis_port):
    async def accept(reader, writer):
        there, here = await asyncio.open_connection("127.0.0.1", redis_port)
        await asyncio.gather(forward(reader, here, 0), forward(there, writer, DELAY_S),
                             return_exceptions=True)
    server = await asyncio.start_server(accept, "127.0.0.1", port)
    await server.serve_forever()


# ---- Clients -----------------------------------------------------------------------------------


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        self.socket.sendall(data)

    def read(self, until):
        """Reads until that many bytes of `until` have come."""
        mark, left = until
        while left > 0:
            got = self.socket.recv(1 << 16)
            if not got:
                raise ConnectionError("the daemon closed the connection")
            left -= got.count(mark)

    def ask(self, data, mark):
        self.send(data)
        self.read((mark, 1))


TAKE = encode("WEIR.TAKE", "near", "k")
PEEK = encode("WEIR.PEEK", "far", "k")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def peeks(port, n):
    c = Client(port)
    c.send(PEEK * n)
    c.read((b"*6\r\n", n))
    c.socket.close()


def set_limit(port, i):
    c = Client(port)
    c.ask(encode("WEIR.LIMIT", "SET", f"set{i}", "pacer 10/s slack=3"), b"+OK")
    c.socket.close()


def leaves(port):
    c = Client(port)
    c.send(b"".join(encode("WEIR.TAKE", "paced", "p", "PATIENCE", "1h", "AS", f"r{i}")
                    for i in range(500)))
    c.read((b"*6\r\n", 500))
    c.socket.close()


def floods(port):
    c = Client(port)
    sender = threading.Thread(target=c.send, args=(encode("WEIR.TAKE", "far", "k") * 20000,))
    sender.start()
    c.read((b"*6\r\n", 20000))
    sender.join()
    c.socket.close()


PAUSE_S = 0.1


def disturb(scene, port):
    time.sleep(PAUSE_S)
    if scene == "peeks":
        peeks(port, 200)
    elif scene == "sets":
        peeks(port, 400)
        set_limit(port, 0)
        set_limit(port, 1)
    elif scene == "leaves":
        leaves(port)
    elif scene == "floods":
        floods(port)


def disturb_in_a_process(scene, port, seconds):
    """A process of its own, so that what it computes does not hold up the clients that measure."""
    return subprocess.Popen([sys.executable, __file__, "--disturb", scene, "--port", str(port),
                             "--seconds", str(seconds), "-"])


# ---- Measuring ---------------------------------------------------------------------------------


def percentiles(times):
    times.sort()
    return times[len(times) // 2] * 1e6, times[int(len(times) * 0.99)] * 1e6


def measure(port, seconds):
    """(p50, p99) of a take and of /healthz, in us."""
    near, health = Client(port), Client(port)
    times = {"take": [], "healthz": []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for what, c, data, mark in (("take", near, TAKE, b"*6\r\n"),
                                    ("healthz", health, HEALTH, b"HTTP/1.1 200")):
            began = time.perf_counter()
            c.ask(data, mark)
            times[what].append(time.perf_counter() - began)
            time.sleep(0.0005)
    return {what: percentiles(list_) for what, list_ in times.items()}


def run(options):
    folder = tempfile.mkdtemp()
    redis_port, proxy_port = free_port(), free_port()
    ports = [free_port(), free_port()]
    redis = subprocess.Popen(["redis-server", "--port", str(redis_port), "--save", "", "--dir",
                              folder], stdout=subprocess.DEVNULL)
    late = subprocess.Popen([sys.executable, __file__, "--proxy", str(proxy_port), "--port",
                             str(redis_port), "-"])
    time.sleep(1)
    daemons = [subprocess.Popen(
        [options.weir, "serve", "--threads", "2", "--listen", f"127.0.0.1:{port}", "--store",
         f"redis://127.0.0.1:{proxy_port}?timeout=2s", "--limit", "far=1M/1h", "--limit",
         "paced=pacer 1M/s", "--limit", "near=1M/1h store=memory:"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for port in ports]
    time.sleep(1)
    results = {(scene, with_): [] for scene in SCENES for with_ in (True, False)}
    order = list(results)
    try:
        for number in range(options.rounds):
            for i in range(len(order)):
                scene, with_ = order[(number + i) % len(order)]
                other = disturb_in_a_process(scene, ports[0 if with_ else 1], options.seconds + 1)
                time.sleep(0.3)
                results[scene, with_].append(measure(ports[0], options.seconds))
                other.kill()
                other.wait()
                time.sleep(0.5)
    finally:
        for process in daemons + [late, redis]:
            process.kill()
            process.wait()
    return results


def report(results):
    print("| scene | request | p50 without | p50 with | p99 without | p99 with | p99 ratio |")
    print("|---|---|---|---|---|---|---|")
    for scene in SCENES:
        with_, without = results[scene, True], results[scene, False]
        for what in ("take", "healthz"):
            middle = [statistics.median(r[what][i] for r in those)
                      for i in (0, 1) for those in (without, with_)]
            ratio = statistics.median(r[what][1] / q[what][1] for r, q in zip(with_, without))
            print(f"| {scene} | {what} | " + " | ".join(f"{m:.0f} us" for m in middle) +
                  f" | {ratio:.2f} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--disturb", choices=SCENES)
    parser.add_argument("--proxy", type=int)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.proxy:
        asyncio.run(proxy(options.proxy, options.port))
    elif options.disturb:
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            disturb(options.disturb, options.port)
    else:
        gc.disable()
        options.weir = os.path.abspath(options.weir)
        report(run(options))


if __name__ == "__main__":
    sys.exit(main())
