#!/usr/bin/env python3
"""Random clients of a daemon whose Redis comes and goes: `serve_soak_redis.py PATH_TO_WEIR
[--seconds=N] [--seed=N]`.

Clients send random commands in pipelines and transactions, over HTTP too; some read all replies,
others leave in the middle. Behind each command stands one with a known reply, so a reply that is
lost, doubled or out of place shows. In the end nothing may be kept for anyone.
"""

import random
import socket
import sys
import threading
import time

from serve_kit import Daemon, Error, Proxy, Redis, check, encode, expect, http_request, play, until

OPTIONS = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
SECONDS = float(OPTIONS.get("seconds", 5))
SEED = int(OPTIONS.get("seed", random.SystemRandom().randrange(10**6)))
CLIENTS = 12
LIMITS = {"bucket": "100/s burst=5", "window": "fixed-window 5/200ms",
          "paced": "pacer 50/s queue=100 max-wait=2s", "both": "20/s burst=4 + fixed-window 30/1s",
          "log": "sliding-log 3/100ms", "empty": "50/s initial=empty"}
LITERALS = ["7/s", "fixed-window 3/100ms", "10/s burst=2"]
KEPT = ("memory_delayed", "memory_reservations", "memory_multi", "memory_batches", "memory_input",
        "memory_output", "delayed_replies", "awaited_replies")
STOPPED = threading.Event()
WRONG = []


# ---- Commands ----------------------------------------------------------------------------------


def take(dice, limit, key, cost):
    words = ["WEIR.TAKE", limit, key, cost]
    kind = dice.choice(["WAIT", "WAIT", "PATIENCE", None])
    if kind:
        words += [kind, dice.choice(["0", "50", "200ms", "forever"])]
    if kind == "WAIT" and dice.random() < 0.3:
        words += ["POLL", dice.choice(["1", "20", "100ms"])]
    if kind and dice.random() < 0.5:
        words += ["AS", dice.choice("xyz")]
    return words


def command(dice):
    limit, key = dice.choice([*LIMITS, *LITERALS]), dice.choice(["a", "b", dice.randrange(50)])
    cost = dice.choice([0, 1, 1, 1, 2, 3, 100])
    return dice.choices(
        [take(dice, limit, key, cost), ["WEIR.CANCEL", dice.choice("xyz")],
         ["WEIR.PEEK", limit, key, cost], ["WEIR.REFUND", limit, key, cost],
         ["WEIR.RESET", limit, key],
         ["WEIR.TAKEALL", 2, limit, key, 1, dice.choice(list(LIMITS)), key, 1],
         ["CL.THROTTLE", key, 3, 10, 1, dice.choice([1, -1])], ["WEIR.LIMIT", "DEL", "log"],
         ["WEIR.LIMIT", "SET", "log", LIMITS["log"]]],
        [60, 12, 8, 4, 3, 5, 3, 2, 3])[0]


def fits(words, reply):
    """Whether it can be the reply to that command."""
    if isinstance(reply, Error):
        return True
    if words[0] in ("WEIR.CANCEL", "WEIR.REFUND"):
        return isinstance(reply, int)
    if words[0] in ("WEIR.RESET", "WEIR.LIMIT"):
        return reply in ("OK", 0, 1)
    length = {"WEIR.TAKEALL": 7, "CL.THROTTLE": 5}.get(words[0], 6)
    return isinstance(reply, list) and len(reply) == length


# ---- Clients -----------------------------------------------------------------------------------


def leave(dice, line):
    """Returns whether the client has left."""
    how = dice.choice(["stays"] * 4 + ["close", "reset", "half"])
    if how != "stays":
        time.sleep(dice.random() / 10)
    if how == "half":
        line.socket.shutdown(socket.SHUT_WR)
        line.rest()
    if how in ("close", "reset"):
        getattr(line, how)()
    return how != "stays"


def read_each(line, commands):
    for i, words in enumerate(commands):
        got = line.read(), line.read()
        if not fits(words, got[0]) or got[1] != b"%d" % i:
            WRONG.append((words, got, i))


def read_all(line, commands):
    queued = [line.read() for _ in range(1 + 2 * len(commands))]
    got = line.read()
    if (queued != ["OK"] + ["QUEUED"] * 2 * len(commands) or len(got) != 2 * len(commands)
            or any(not fits(words, got[2 * i]) or got[2 * i + 1] != b"%d" % i
                   for i, words in enumerate(commands))):
        WRONG.append((commands, got))


def over_resp(dice, daemon):
    commands = [command(dice) for _ in range(dice.choice([1, 3, 10, 60, 300]))]
    data = b"".join(encode(*words) + encode("ECHO", i) for i, words in enumerate(commands))
    multi = dice.random() < 0.2
    with daemon.resp() as line:
        line.send_bytes(encode("MULTI") + data + encode("EXEC") if multi else data)
        if not leave(dice, line):
            (read_all if multi else read_each)(line, commands)


def over_http(dice, daemon):
    n = dice.choice([1, 5, 40])
    asked = [dice.choice(["take?wait=100&", "take?", "peek?"]) for _ in range(n)]
    data = b"".join(http_request("GET", f"/v1/{what}limit={dice.choice(list(LIMITS))}&key=h")
                    + http_request("GET", f"/none/{i}") for i, what in enumerate(asked))
    with daemon.http() as line:
        line.send_bytes(data)
        if leave(dice, line):
            return
        for i in range(n):
            got = line.read(), line.read()
            if b"/none" in got[0].body or b"/none/%d" % i not in got[1].body:
                WRONG.append((asked[i], got, i))


def client(seed, daemon):
    dice = random.Random(seed)
    try:
        while not STOPPED.is_set():
            dice.choice([over_resp] * 4 + [over_http])(dice, daemon)
    except OSError as error:
        WRONG.append((seed, repr(error)))


# ---- The store ---------------------------------------------------------------------------------


def disturb(dice, redis, proxy):
    while not STOPPED.wait(dice.random() / 2):
        mode = dice.choice(["pause", "pause", "hole", "hole", "reset", "broken", "rubbish"])
        if mode == "pause":
            redis.pause()
        else:
            proxy.turn(mode)
        time.sleep(dice.choice([0.01, 0.05, 0.1, 0.4]) if mode in ("pause", "hole") else 0.02)
        redis.resume()
        proxy.turn("forward")


def nothing_is_lost_doubled_or_kept():
    print(f"seed {SEED}", flush=True)
    with Redis() as redis, Proxy(redis.port) as proxy:
        flags = ["--store", redis.url(proxy.port, timeout="200ms"), "--threads", "2",
                 "--max-wait", "1s"]
        for name, limit in LIMITS.items():
            flags += ["--limit", f"{name}={limit}"]
        with Daemon(*flags, manual=False) as daemon:
            threads = [threading.Thread(target=client, args=(SEED + i, daemon))
                       for i in range(CLIENTS)]
            threads.append(threading.Thread(target=disturb,
                                            args=(random.Random(SEED), redis, proxy)))
            for thread in threads:
                thread.start()
            time.sleep(SECONDS)
            STOPPED.set()
            for thread in threads:
                thread.join()
            check("every reply is in its place", not WRONG, WRONG[:3])
            with daemon.resp() as c:
                until(lambda: all(c.info()[what] == "0" for what in KEPT), 5)
                told = c.info()
                expect("nothing is kept for anyone", {what: told[what] for what in KEPT},
                       dict.fromkeys(KEPT, "0"))
                check("takes were decided", int(told["takes"]) > 100 and int(told["delayed"]) > 0,
                      told)


if __name__ == "__main__":
    sys.exit(play("a soak", [nothing_is_lost_doubled_or_kept]))
