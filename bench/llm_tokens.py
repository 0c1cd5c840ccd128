#!/usr/bin/env python3
"""Four ways to count what an LLM call costs: `llm_tokens.py WEIR TRACE.csv[.gz]`.

The trace has a time, context tokens and generated tokens in each line (Azure's public trace of 2023
conversations). Every call asks a daemon with a manual clock when it arrives, and reports its cost
when it ends. How long a call takes is not in the trace: 0.5 s and 20 ms for each generated token.

    check-then-charge   peek with cost 1; charge context + generated when the call ends
    take-the-maximum    take context + 1024
    reserve-then-commit reserve context + 256; commit context + generated when the call ends
    reserve-the-maximum reserve context + 1024; commit the same

Each is held against a bucket that knows the actual cost when a call arrives: a call that passed
though it did not fit is over-admitted, a call that was refused though it did is refused wrongly.
"""

import csv
import datetime
import gzip
import heapq
import os
import socket
import subprocess
import sys
from fractions import Fraction

BASE_NS, PER_TOKEN_NS, CAP, GUESS = 500_000_000, 20_000_000, 1024, 256
RATE, PERIOD_S, BURST = 300_000, 60, 60_000
LIMIT = f"token-bucket {RATE}/{PERIOD_S}s burst={BURST}"


def read_trace(path):
    """Pairs (arrival in ns, context, generated)."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="ascii") as file:
        calls, first = [], None
        for row in csv.DictReader(file):
            text, _, fraction = row["TIMESTAMP"].partition(".")
            at = datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
            ns = int((at - datetime.datetime(1970, 1, 1)).total_seconds()) * 10**9
            ns += int((fraction or "0").ljust(9, "0")[:9])
            first = ns if first is None else first
            calls.append((ns - first, int(row["ContextTokens"]), int(row["GeneratedTokens"])))
    return sorted(calls)


class Daemon:
    """`weir serve` with a manual clock, asked over RESP."""

    def __init__(self, weir):
        command = [weir, "serve", "--listen", "127.0.0.1:0", "--clock", "manual",
                   "--limit", "tokens=" + LIMIT]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        port = int(self.process.stdout.readline().decode().rsplit(":", 1)[1])
        self.line = socket.create_connection(("127.0.0.1", port))
        self.file = self.line.makefile("rb")
        self.start = int(self.ask("WEIR.CLOCK", "GET"))

    def read(self):
        head = self.file.readline().rstrip(b"\r\n")
        kind, rest = head[:1], head[1:]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode()
        return int(rest) if kind == b":" else rest.decode()

    def send(self, *words):
        parts = [str(word).encode() for word in words]
        body = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.line.sendall(b"*%d\r\n" % len(parts) + body)

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def at(self, ns, *words):
        """The reply to a command at that time."""
        self.send("WEIR.CLOCK", "SET", self.start + ns)
        self.send(*words)
        self.read()
        return self.read()

    def close(self):
        self.line.close()
        self.process.terminate()
        self.process.wait()


def check_arrive(daemon, now, context, _):
    return bool(daemon.at(now, "WEIR.PEEK", "tokens", "k", 1)[0]), None


def check_end(daemon, now, cost, _):
    daemon.at(now, "WEIR.CHARGE", "tokens", "k", cost)


def most_arrive(daemon, now, context, _):
    return bool(daemon.at(now, "WEIR.TAKE", "tokens", "k", context + CAP)[0]), None


def reserve_with(more):
    def arrive(daemon, now, context, _):
        got = daemon.at(now, "WEIR.RESERVE", "tokens", "k", context + more, "TTL", "10m")
        return bool(got[0]), got[6]

    return arrive


def reserve_end(daemon, now, cost, ident):
    daemon.at(now, "WEIR.COMMIT", ident, cost)


WAYS = (("check-then-charge", check_arrive, check_end),
        ("take-the-maximum", most_arrive, lambda *_: None),
        ("reserve-then-commit", reserve_with(GUESS), reserve_end),
        ("reserve-the-maximum", reserve_with(CAP), reserve_end))


def replay(weir, calls, arrive, end):
    """What passed, what passed beyond the limit, what was refused, and what of that wrongly."""
    daemon, under_way, serial = Daemon(weir), [], 0
    owed, then, rate = Fraction(0), 0, Fraction(RATE, PERIOD_S * 10**9)
    got = dict(passed=0, tokens=0, over=0, over_tokens=0, worst=0, refused=0, wrongly=0)

    for now, context, generated in calls:
        while under_way and under_way[0][0] <= now:
            at, _, cost, ident = heapq.heappop(under_way)
            end(daemon, at, cost, ident)
        owed, then = max(Fraction(0), owed - rate * (now - then)), now
        cost = context + generated
        fits = owed + cost <= BURST
        passed, ident = arrive(daemon, now, context, generated)
        if not passed:
            got["refused"] += 1
            got["wrongly"] += fits
            continue
        serial += 1
        heapq.heappush(under_way, (now + BASE_NS + PER_TOKEN_NS * generated, serial, cost, ident))
        owed += cost
        got["passed"] += 1
        got["tokens"] += cost
        got["over"] += not fits
        got["over_tokens"] += 0 if fits else int(min(cost, owed - BURST))
        got["worst"] = max(got["worst"], int(owed - BURST))
    daemon.close()
    return got


def main(weir, trace):
    calls = read_trace(trace)
    tokens = sum(context + generated for _, context, generated in calls)
    minutes = calls[-1][0] / 60e9
    print(f"{os.path.basename(trace)}: {len(calls):,} calls, {tokens:,} tokens in {minutes:.0f} "
          f"minutes; the limit is {LIMIT}: {RATE * minutes * 60 / PERIOD_S + BURST:,.0f} tokens\n")
    print("| | passed | tokens | over-admitted | at worst | refused | wrongly |")
    print("|---|---|---|---|---|---|---|")
    for name, arrive, end in WAYS:
        g = replay(weir, calls, arrive, end)
        part = 100 * g["wrongly"] / max(1, g["refused"])
        print(f"| {name} | {g['passed']:,} | {g['tokens']:,} | {g['over']:,} calls, "
              f"{g['over_tokens']:,} tokens | {g['worst']:,} tokens | {g['refused']:,} | "
              f"{g['wrongly']:,} ({part:.0f}%) |")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
