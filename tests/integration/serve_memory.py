#!/usr/bin/env python3
"""What keys, limits and clients may make a daemon keep, without a forgotten debt.

    serve_memory.py WEIR

Each scene was an attack once. After each, the process has never had more memory than --max-memory,
INFO adds up to the system's number, and no key was granted more than the limit. Time stands still
in all of them.
"""

import collections
import contextlib
import json
import os
import sys

from daemon import (ROOMY, Daemon, Error, check, encode, expect, play, refuses_to_start,
                    until)

MIB = 1 << 20
BUDGET = 96                                # MiB
BOUNDED = ("--max-memory", f"{BUDGET}MiB", "--threads", "2")
FEW = ("--max-keys", "2000")
SIZES = sorted({max(1, (size << doubling) // 32) for doubling in range(15)
                for size in (4, 5, 6, 7)} - {1})


# ---- Asking ------------------------------------------------------------------------------------


def ask_all(c, commands):
    """The replies to many commands, sent in one go."""
    replies = []
    for i in range(0, len(commands), 5000):
        some = commands[i:i + 5000]
        c.send_behind(b"".join(encode(*command) for command in some))
        replies += [c.read() for _ in some]
    return replies


def granted(replies):
    return [not isinstance(reply, Error) and reply[0] == 1 for reply in replies]


def takes(c, limit, keys, cost=1):
    return granted(ask_all(c, [("WEIR.TAKE", limit, key, cost) for key in keys]))


def info_of(daemon):
    with daemon.resp() as c:
        return c.info()


# ---- What holds after each -----------------------------------------------------------------------


def adds_up(daemon):
    info = {name: int(value) for name, value in info_of(daemon).items() if "memory" in name}
    total = sum(value for name, value in info.items() if name.startswith("memory_"))
    return abs(total - info["used_memory_rss"]) < max(info["used_memory_rss"] / 10, MIB)


def memory_is_bounded(daemon, what, most_mib=BUDGET):
    """INFO looks at the tables now and then: its numbers may be a second old."""
    check(f"{what}: memory is bounded", daemon.status("VmHWM") / 1024 / ROOMY <= most_mib,
          f"{daemon.status('VmHWM') / 1024:.0f} of {most_mib} MiB")
    check(f"{what}: INFO adds up", ROOMY > 1 or until(lambda: adds_up(daemon), 5),
          {name: value for name, value in info_of(daemon).items() if "memory" in name})


# ---- Keys of others ------------------------------------------------------------------------------


LOGIN = ("--limit", "login=token-bucket 5/1m", "--limit", "signup=fixed-window 3/day")


def users_try(daemon, what, users=1000, tries=20):
    with daemon.resp() as c:
        said = takes(c, "login", [f"user{i}" for i in range(users)] * tries)
        each = [sum(said[i::users]) for i in range(users)]
        check(f"{what}: no key is granted more than five", max(each) <= 5,
              collections.Counter(each))
        check(f"{what}: and most users are served", sum(each) >= users * 5 * 0.9, sum(each))


def a_longer_limit_does_not_poison_a_shorter_one():
    """1,000 users were granted 18,000 of 5,000, for as long as the longer limit's period."""
    with Daemon(*BOUNDED, *FEW, *LOGIN) as daemon, daemon.resp() as c:
        takes(c, "signup", [f"flood{i}" for i in range(4000)])
        users_try(daemon, "a named limit")
        memory_is_bounded(daemon, "a named limit")
    with Daemon(*BOUNDED, *FEW, *LOGIN) as daemon, daemon.resp() as c:
        takes(c, "fixed-window 1/366d", [f"flood{i}" for i in range(4000)])
        users_try(daemon, "a literal")
        memory_is_bounded(daemon, "a literal")


def nor_in_a_file_that_was_closed():
    with Daemon(*BOUNDED, *FEW, *LOGIN, "--store", "file:DIR/store") as daemon:
        path = os.path.join(daemon.folder, "store")
        with daemon.resp() as c:
            takes(c, "signup", [f"flood{i}" for i in range(4000)])
        daemon.stop()
        with Daemon(*BOUNDED, *LOGIN, "--store", f"file:{path}") as after:
            users_try(after, "a file")
            memory_is_bounded(after, "a file")


def a_client_that_used_up_a_limit_is_not_forgotten():
    """After one and a half times max-keys all of them were fresh."""
    for limit in ("fixed-window 5/1m", "sliding-log 5/1m", "sliding-window 5/1m",
                  "sliding-counter 5/1m", "token-bucket 5/1m", "leaky-bucket 5/1m"):
        with Daemon(*BOUNDED, *FEW, "--limit", f"it={limit}", *LOGIN) as daemon, daemon.resp() as c:
            victims = [f"victim{i}" for i in range(8)]
            got = sum(takes(c, "it", victims, 5))
            takes(c, "it", [f"flood{i}" for i in range(5000)])
            takes(c, "signup", [f"flood{i}" for i in range(5000)])
            expect(f"{limit}: each is granted once", (got, sum(takes(c, "it", victims))), (8, 0))
            memory_is_bounded(daemon, limit)


def a_colliding_key_frees_no_other_key():
    """Five takes of root, and one of a key that shares its bucket: 424,600 grants in 5 s."""
    with Daemon(*BOUNDED, *FEW, *LOGIN) as daemon, daemon.resp() as c:
        takes(c, "signup", [f"flood{i}" for i in range(4000)])
        grants, found = sum(takes(c, "login", ["root"] * 6)), "flood0"
        for key in (f"x{i}" for i in range(1000)):
            if (granted(ask_all(c, [("WEIR.TAKE", "signup", key),
                                    ("WEIR.TAKE", "login", "root")]))[1]):
                grants, found = grants + 1, key
                break
        turn = [("WEIR.TAKE", "login", "root")] * 5 + [("WEIR.TAKE", "signup", found)]
        said = granted(ask_all(c, turn * 2000))
        grants += sum(said) - sum(said[5::6])
        check("root is granted five", grants <= 5, grants)
        memory_is_bounded(daemon, "a colliding key")


# ---- Literals ------------------------------------------------------------------------------------


def every_size(daemon, bytes_each):
    """For every size of state that a sliding-log reaches, as many keys as its table has room
    for."""
    with daemon.resp() as c:
        for n in SIZES:
            keys = [f"k{i}" for i in range(min(1000, max(2, bytes_each // (8 * n + 32))))]
            takes(c, f"sliding-log {n}/366d", keys, n)


def literals_make_little():
    """58 sizes had 58 tables, of 256 x max-keys each: over 150 MiB here, 12 GiB at the default."""
    with Daemon(*BOUNDED, "--max-keys", "20000") as daemon:
        every_size(daemon, 256 * 20000)
        memory_is_bounded(daemon, "takes")
    with Daemon(*BOUNDED, "--max-keys", "20000", "--literal-state", "1MiB") as daemon:
        every_size(daemon, 256 * 20000)
        memory_is_bounded(daemon, "takes of any size")


def looking_makes_nothing():
    with Daemon(*BOUNDED) as daemon, daemon.resp() as c, daemon.http() as h:
        before = daemon.status("VmRSS") / 1024
        ask_all(c, [("WEIR.PEEK", f"sliding-log {n}/1s", "k", 0) for n in SIZES])
        said = {h.ask("GET", f"/v1/auth/sliding-log%20{n}%2F366d?key=k&cost={n}",
                      headers={"Sec-Fetch-Site": "cross-site"}).status for n in SIZES}
        expect("an image of a page elsewhere is refused", said & {200, 204}, set())
        check("no table was made", daemon.status("VmHWM") / 1024 - before < 2 * ROOMY,
              daemon.status("VmHWM") / 1024)
        memory_is_bounded(daemon, "peeks")


def a_file_stays_as_large_as_it_is():
    """58 peeks, 3 KB, made 53 MB of disk 13,591 MB."""
    with Daemon(*BOUNDED, "--max-keys", "20000", "--limit", "a=10/s", "--store",
                "file:DIR/store") as daemon:
        path = os.path.join(daemon.folder, "store")
        size = os.stat(path).st_blocks
        with daemon.resp() as c:
            ask_all(c, [("WEIR.PEEK", f"sliding-log {n}/1s", "k", 0) for n in SIZES])
        every_size(daemon, 100000)
        expect("the disk is as it was", os.stat(path).st_blocks, size)
        memory_is_bounded(daemon, "a file")


# ---- Large states --------------------------------------------------------------------------------


def again(flags, limit, users, cost, most_mib):
    with Daemon(*flags, "--limit", f"it={limit}") as daemon, daemon.resp() as c:
        keys = [f"user{i}" for i in range(users)]
        first, second = takes(c, "it", keys, cost), takes(c, "it", keys, cost)
        twice = sum(a and b for a, b in zip(first, second))
        expect(f"{limit}: no key has all of it twice", twice, 0)
        check(f"{limit}: some have it", sum(first) > 100, sum(first))
        memory_is_bounded(daemon, limit, most_mib)


def large_states_are_not_forgotten():
    """At the default 4,871 of 5,000 users were granted all of it again."""
    again(BOUNDED, "sliding-log 10000/1h", 2000, 10000, BUDGET)
    again(BOUNDED, "sliding-log 1000/1h", 5000, 1000, BUDGET)
    again(BOUNDED, "sliding-window 1000/1h slots=1000", 5000, 1000, BUDGET)
    again(("--threads", "2"), "sliding-log 10000/1h", 5000, 10000, 300)


# ---- Clients -------------------------------------------------------------------------------------


def sixteen_terms(i):
    return " + ".join([f"{i + 1}/h"] + [f"{i % 9 + 1}/{hours}h" for hours in range(2, 17)])


def all_at_once():
    """Names, keys of 64 KiB that wait, requests that never end, batches of literals, and invented
    keys."""
    names = b"".join(encode("WEIR.TAKE", "p", "k", 1, "PATIENCE", "forever", "AS", f"{n:0200d}")
                     for n in range(500))
    waits = encode("WEIR.TAKE", "p", "k" * 65000, 1, "WAIT", "forever") * 8
    part = b"*2\r\n$4\r\nECHO\r\n$900000\r\n" + b"x" * 200000
    batch = json.dumps([{"limit": sixteen_terms(i), "key": "k"} for i in range(1000)])
    with Daemon(*BOUNDED, "--limit", "p=pacer 1k/s queue=1M", *LOGIN) as daemon, daemon.resp() as c:
        crowd = [daemon.resp() for _ in range(300)]
        for i, one in enumerate(crowd):
            one.send_behind((names, waits, part)[i % 3])
        with daemon.http() as h, contextlib.suppress(ConnectionError):
            check("a batch is answered, or there is no room",
                  h.ask("POST", "/v1/take", batch).status in (200, 503))
        takes(c, "signup", [f"flood{i}" for i in range(50000)])
        takes(c, "sliding-log 100/366d", [f"flood{i}" for i in range(5000)], 100)
        memory_is_bounded(daemon, "all at once")
        users_try(daemon, "all at once", 200)
        for one in crowd:
            one.reset()


# ---- Too little ----------------------------------------------------------------------------------


def too_little_memory_is_an_error_at_the_start():
    refuses_to_start("less than the least", ["--max-memory '23MiB'", "24MiB or more"],
                     "--max-memory", "23MiB")
    refuses_to_start("not even for limits",
                     ["--max-memory", "25165824", "9437184 bytes", "256 limits"],
                     "--max-memory", "24MiB", "--limit", "a=10/s store=redis://127.0.0.1:1")
    with Daemon("--max-memory", "24MiB", "--limit", "a=10/s") as daemon, daemon.resp() as c:
        expect("the least that is accepted is enough", c.ask("WEIR.TAKE", "a", "k")[0], 1)
    refuses_to_start("not for so many keys", ["--limit a=", "1000000 keys of 16 bytes", "are left"],
                     "--max-memory", "32MiB", "--limit", "a=10/s keys=1000000")
    refuses_to_start("not for so large ones", ["--limit b=", "20 keys of 524288 bytes", "are left"],
                     "--max-memory", "32MiB", "--limit", "a=10/s", "--limit",
                     "b=sliding-log 60000/1d keys=20")


def a_limit_without_room_changes_nothing():
    with Daemon("--max-memory", "32MiB", "--limit", "a=sliding-log 60000/1d") as daemon, \
            daemon.resp() as c:
        c.ask("WEIR.TAKE", "a", "k", 7)
        before = info_of(daemon)["memory_store"]
        for text in ("sliding-log 60000/1d keys=100", "sliding-log 40000/1d", "10/s keys=1M",
                     "sliding-log 16000/1d + sliding-log 40000/1d"):
            said = c.ask("WEIR.LIMIT", "SET", "a", text)
            check(f"{text} is an error with numbers",
                  isinstance(said, Error) and "room for" in said and
                  "bytes" in said, said)
            check(f"{text} is no new limit either",
                  isinstance(c.ask("WEIR.LIMIT", "SET", "b", text), Error))
        expect("all is as it was",
               (c.ask("WEIR.LIMIT", "LIST"), c.ask("WEIR.PEEK", "a", "k", 0)[2]),
               ([b"a", b"sliding-log 60000/24h"], 59993))
        expect("and as large", info_of(daemon)["memory_store"], before)
        expect("what there is room for is set",
               c.ask("WEIR.LIMIT", "SET", "b", "sliding-log 12000/1d"), "OK")


if __name__ == "__main__":
    sys.exit(play("memory", [
        a_longer_limit_does_not_poison_a_shorter_one, nor_in_a_file_that_was_closed,
        a_client_that_used_up_a_limit_is_not_forgotten, a_colliding_key_frees_no_other_key,
        literals_make_little,
        looking_makes_nothing, a_file_stays_as_large_as_it_is, large_states_are_not_forgotten,
        all_at_once,
        too_little_memory_is_an_error_at_the_start, a_limit_without_room_changes_nothing]))
