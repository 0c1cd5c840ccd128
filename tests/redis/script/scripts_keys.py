"""What Redis holds after a decision, several terms in one, tickets, and what goes wrong."""

import json
import os
import time

from scripts_kit import (BURSTY, CONCURRENCY, COUNTER, DAY_MS, FIXED, INTERVAL, LEAKY, LOG, NOW,
                         PACER, SLIDING, TOKEN, WARMUP, ask, check, expect, several)
from scripts_redis import RedisError
from scripts_world import CANCEL, COUNTS, FOREVER, PEEK, REFUND, SHADOW, TAKE, World, blob

HERE = os.path.dirname(os.path.abspath(__file__))
ONE_OF_EACH = {
    "fixed-window": (FIXED, [60_000_000, 5, 0]), "sliding-window": (SLIDING, [100_000, 5, 10, -1]),
    "sliding-counter": (COUNTER, [1_000_000, 5]), "sliding-log": (LOG, [1_000_000, 5, 0]),
    "token-bucket": (TOKEN, [200_000, 1, 5]), "leaky-bucket": (LEAKY, [200_000, 1, 5, 0, 0, -1]),
    "pacer": (PACER, [200_000, 1, 1, 0, 0, 3, FOREVER]),
    "smooth-bursty": (BURSTY, [200_000, 1, 5, 0, 0, 10**6]),
    "smooth-warmup": (WARMUP, [200_000, 1, 5, 10**6, 3, 1]),
    "min-interval": (INTERVAL, [200_000, 1, 1]), "concurrency": (CONCURRENCY, [60_000_000, 5])}


def a_cold_key_costs_nothing(redis):
    for name, (kind, values) in ONE_OF_EACH.items():
        for what, verb, cost, flags in (("peeked", PEEK, 1, 0), ("asked for nothing", TAKE, 0, 0),
                                        ("refunded", REFUND, 1, 0), ("cancelled", CANCEL, 1, 0),
                                        ("asked for nothing, count-denied", TAKE, 0, COUNTS)):
            ask(redis, verb, "cold", kind + flags, values, cost, act=NOW)
            expect(f"{name}: a key that was {what} is not there", redis.call("EXISTS", "cold"), 0)
        if kind not in (BURSTY, WARMUP):
            expect(f"{name}: too much is refused",
                   ask(redis, TAKE, "cold", kind, values, 10**13)[:2], [0, 2])
            expect(f"{name}: and leaves no key", redis.call("EXISTS", "cold"), 0)


def a_key_as_good_as_new_is_gone(redis):
    for name, (kind, values) in ONE_OF_EACH.items():
        if kind == FIXED:
            values = [values[0], values[1], 1, 0]       # one from the first event stays open
        ask(redis, TAKE, "new", kind, values)
        expect(f"{name}: a take makes a key", redis.call("EXISTS", "new"), 1)
        if kind == WARMUP:
            redis.call("DEL", "new")                    # what warming up cost is not given back
        ask(redis, REFUND, "new", kind, values, 5)
        expect(f"{name}: given back, it is gone", redis.call("EXISTS", "new"), 0)


def states_have_the_bytes_of_their_format(redis):
    """Another weir of the same format reads them. If this fails because a state is written
    otherwise now, raise weir__redis_format (src/redis/script/key_format.c), and keep what these
    scripts write as another file."""
    with open(os.path.join(HERE, "format_1.json"), encoding="ascii") as file:
        kept = json.load(file)
    expect("a state of each algorithm is kept", sorted(kept), sorted(ONE_OF_EACH))
    for name, (kind, values) in ONE_OF_EACH.items():
        for late in (0, 30_000):
            ask(redis, TAKE, "kept", kind, values, now=NOW + late, patience=10**6,
                ticket=f"t{late}")
        expect(f"{name}: its bytes", state_of(redis, "kept", kind), kept[name])
        redis.call("DEL", "kept")


# An account as it was written when the least that was owed was in whole events.
IN_EVENTS = """
local raw = redis.call('GET', KEYS[1])
local account = cmsgpack.unpack(string.sub(raw, 9))

account[2] = string.sub(account[2], 2)
account[5][1][5] = 3
return redis.call('SET', KEYS[1], string.sub(raw, 1, 8) .. cmsgpack.pack(account), 'PX', 60000)
"""


def an_account_in_events_gives_nothing_back(redis):
    """It is settled once, like any other; and what its numbers mean is not guessed."""
    world = World(redis, NOW, "older")
    world.define("token-bucket 10/s")
    for name, back, left in (("k", 3, 10), ("older", 0, 7)):
        world.line(f"0us reserve {name} 3 ttl=1m as={name}")
        if back == 0:
            redis.call("EVAL", IN_EVENTS, 1, f"older:{{{name}}}:r")
        expect(f"{name}: given back", world.line(f"0us cancel {name}")[3], str(back))
        expect(f"{name}: left", world.line(f"0us peek {name} 0")[7], str(left))
        expect(f"{name}: once", world.line(f"0us cancel {name}")[3], "0")


def state_of(redis, key, kind):
    if kind == CONCURRENCY:
        return [word.decode() for word in redis.call("ZRANGE", key, 0, -1, "WITHSCORES")]
    return redis.call("GET", key).hex()


def redis_own_clock_serves_too(redis):
    """No time injected: waits are as long as told, and keys end by themselves."""
    for name, (kind, values) in ONE_OF_EACH.items():
        reply = ask(redis, TAKE, f"own {name}", kind, values, now=-1)
        seconds, micros = (int(x) for x in redis.call("TIME"))
        late = seconds * 10**6 + micros - reply[8]
        check(f"{name}: granted at Redis's time", reply[0] == 1 and 0 <= late < 10**6, reply)
        left, due = redis.call("PTTL", f"own {name}"), -(-reply[7] // 1000)
        check(f"{name}: lives as long as it must", due - 1000 <= left <= due, (left, reply))
    values = [20_000, 1, 2]
    granted = [ask(redis, TAKE, "own", TOKEN, values, now=-1)[0] for _ in range(3)]
    expect("a burst of two passes and the third does not", granted, [1, 1, 0])
    reply = ask(redis, TAKE, "own", TOKEN, values, now=-1)
    time.sleep((reply[6] + 1000) / 10**6)
    expect("a caller that waited as long as told passes",
           ask(redis, TAKE, "own", TOKEN, values, now=-1)[0], 1)
    reply = ask(redis, PEEK, "own", TOKEN, values, 0, now=-1)
    time.sleep(reply[7] / 10**6 + 0.003)
    expect("the key is gone once it is as good as new", redis.call("EXISTS", "own"), 0)


def a_log_takes_no_more_than_it_must(redis):
    for count, cost, takes in ((1000, 1, 5000), (1000, 7, 2000), (65536, 65536, 3),
                               (65536, 1000, 300)):
        key = f"log {count} {cost}"
        for i in range(takes):
            ask(redis, TAKE, key, LOG + COUNTS, [10**6, count, 0], cost, now=NOW + i * 1000)
        size = redis.call("STRLEN", key)
        check(f"{count} entries, {cost} at a time: 8 bytes each", size <= 49 + 8 * count, size)
        used = redis.call("MEMORY", "USAGE", key)
        check(f"{count} entries, {cost} at a time: memory", used <= 200 + 20 * count, used)


# ---- Several terms, options, faults ----------------------------------------------------------

BUCKET = (TOKEN, [10**6, 1, 3])


def several_terms_are_all_or_nothing(redis):
    terms = [(TOKEN, 1, 0, [10**6, 1, 2]), (FIXED, 1, 0, [60 * 10**6, 1, 0]),
             (LOG, 1, 0, [10**6, 9, 0])]
    keys = ["{a}:0", "{a}:1", "{a}:2"]
    expect("all grant", several(redis, TAKE, keys, terms),
           [1, 0, -1, 1, 0, 0, 0, 60 * 10**6, NOW, NOW, NOW, NOW])
    before = [redis.call("GET", key) for key in keys]
    expect("the second refuses", several(redis, TAKE, keys, terms),
           [0, 1, 1, 1, 0, 0, 60 * 10**6, 60 * 10**6, NOW])
    expect("and nothing is charged", [redis.call("GET", key) for key in keys], before)
    terms[1] = (FIXED + SHADOW, *terms[1][1:])
    reply = several(redis, TAKE, keys, terms)
    expect("a shadow refuses nothing; it is named, and why it would have", reply[:3] + reply[9:],
           [1, 1, -3, NOW, -1, NOW])


def a_key_named_twice_sees_its_first_charge(redis):
    kind, values = BUCKET
    two = [(kind, 2, 0, values), (kind, 2, 0, values)]
    expect("2 and 2 of 3 are refused by the second", several(redis, TAKE, ["k", "k"], two)[:3],
           [0, 1, 1])
    expect("and leave no key", redis.call("EXISTS", "k"), 0)
    expect("a peek says the same", several(redis, PEEK, ["k", "k"], two)[:3], [0, 1, 1])
    one = [(kind, 1, 0, values), (kind, 2, 0, values)]
    expect("1 and 2 of 3 pass", several(redis, TAKE, ["k", "k"], one)[:5], [1, 0, -1, 3, 0])
    expect("and are charged once each", ask(redis, PEEK, "k", kind, values, 0)[4:8],
           [0, 0, 0, 3 * 10**6])
    logs = [(LOG, 2, 0, [10**6, 5, 0]), (LOG, 2, 0, [10**6, 5, 0])]
    expect("a log twice", several(redis, TAKE, ["l", "l"], logs)[:5], [1, 0, -1, 5, 1])
    expect("a log twice more", several(redis, TAKE, ["l", "l"], logs, NOW + 1)[:8],
           [0, 1, 0, 5, 1, 0, 10**6 - 1, 10**6 - 1])
    counted = [(LOG + COUNTS, 4, 0, [10**6, 5, 0]), (LOG + COUNTS, 4, 0, [10**6, 5, 0])]
    expect("a log that counts the refused", several(redis, TAKE, ["m", "m"], counted)[:2], [0, 1])
    expect("counts both", ask(redis, PEEK, "m", LOG, [10**6, 5, 0], 0)[4], 0)
    expect("one key of two algorithms is an error",
           error_of(several, redis, TAKE, ["k", "k"], [two[0], logs[0]]), "WEIRKEY")


def error_of(function, *arguments):
    """The code word of the error that this gives."""
    try:
        return function(*arguments)
    except RedisError as why:
        return str(why).split()[0]


def tickets_enter_and_leave(redis):
    def enter(ticket, now=NOW, cost=1, count=2):
        return ask(redis, TAKE, "c", CONCURRENCY, [1000, count], cost, now=now, ticket=ticket)

    def leave(ticket, now=NOW, cost=1):
        return ask(redis, REFUND, "c", CONCURRENCY, [1000, 2], cost, now=now, ticket=ticket)[9]
    expect("two enter", [enter("a")[:5], enter("b")[:5]], [[1, 0, -1, 2, 1], [1, 0, -1, 2, 0]])
    expect("the third is refused; until when is not known", enter("c")[:7], [0, 1, 0, 2, 0, 0, 0])
    expect("more than there are never fit", enter("d", cost=3)[:7], [0, 2, 0, 2, 0, 0, -1])
    expect("a ticket enters once, and renews its lease", enter("a", NOW + 500)[:8],
           [1, 0, -1, 2, 0, 0, 0, 1000])
    expect("an exit makes room", [leave("b"), enter("c")[0]], [1, 1])
    expect("and leaves once", leave("b"), 0)
    expect("a lease ends", enter("d", NOW + 1000)[:5], [1, 0, -1, 2, 0])
    expect("whose lease is over has nothing to leave", leave("c", NOW + 1000), 0)
    expect("those whose lease is over are dropped", redis.call("ZCARD", "c"), 2)
    expect("the key ends with the last lease", -2000 <= redis.call("PTTL", "c") - DAY_MS <= 1, True)
    redis.call("DEL", "c")
    enter("only")
    expect("the last one out leaves it as good as new",
           ask(redis, REFUND, "c", CONCURRENCY, [1000, 2], ticket="only")[3:10],
           [2, 2, 0, 0, 0, NOW, 1])
    expect("permits count",
           [enter("x", cost=3, count=5)[4], leave("x", cost=3), redis.call("EXISTS", "c")],
           [2, 3, 0])
    expect("many permits", ask(redis, TAKE, "c", CONCURRENCY, [1000, 5000], 2500, ticket="y")[4],
           2500)
    expect("many members", redis.call("ZCARD", "c"), 2500)
    expect("no ticket is an error",
           error_of(redis.script, 16, ["c"], blob(TAKE, NOW, [(CONCURRENCY, 1, 0, [1, 1])])),
           "WEIRKIND")
    terms = [(CONCURRENCY, 1, 0, [1000, 1]), (TOKEN, 1, 0, [10**6, 1, 1])]
    expect("with a rate: both grant", several(redis, TAKE, ["{e}c", "{e}t"], terms)[:1], [1])
    expect("with a rate: the rate refuses",
           several(redis, TAKE, ["{e}c", "{e}t"], terms, NOW + 1000)[:3], [0, 1, 1])
    expect("with a rate: and no caller has entered",
           redis.call("ZCOUNT", "{e}c", NOW + 1001, "+inf"), 0)


def another_algorithm_starts_fresh(redis):
    for name, (kind, values) in ONE_OF_EACH.items():
        for other, (before, old) in ONE_OF_EACH.items():
            if before == kind:
                continue
            redis.call("DEL", "f")
            fresh = ask(redis, TAKE, "f", kind, values)
            redis.call("DEL", "f")
            ask(redis, TAKE, "f", before, old)
            expect(f"{name} after {other}: a peek", ask(redis, PEEK, "f", kind, values), fresh[:9])
            expect(f"{name} after {other}", ask(redis, TAKE, "f", kind, values), fresh)


def a_change_converts_each_key_when_it_is_touched(redis):
    """10/s burst 10, all taken, becomes 1/h: what is refused goes on paying at the new rate."""
    old, new = [100_000, 1, 10], [3_600_000_000, 1, 10]
    ask(redis, TAKE, "k", TOKEN, old, 10)
    expect("ten are owed", ask(redis, TAKE, "k", TOKEN, new)[6], 3_600_000_000)
    expect("the next asks later", ask(redis, TAKE, "k", TOKEN, new, now=NOW + 10**6)[6],
           3_599_000_000)
    expect("and back", ask(redis, PEEK, "k", TOKEN, old, now=NOW + 10**6)[7], 10**6 - 27)
    minute = 60 * 10**6
    ask(redis, TAKE, "w", FIXED, [minute, 5, 1, NOW + 7])
    expect("a clock window that becomes one of the first event's ends when it did",
           ask(redis, PEEK, "w", FIXED, [minute, 5, 0])[4:8], [3, 0, 0, 7])
    expect("and one of the first event's on the clock with the clock",
           ask(redis, PEEK, "w", FIXED, [minute, 5, 1, NOW + 9])[4:8], [3, 0, 0, 9])
    ask(redis, TAKE, "s", SLIDING, [10, 5, 2, -1], now=NOW + 5)
    for name, values in (("a longer period", [100, 5, 0]), ("a min-interval", [10, 5, 100])):
        ask(redis, TAKE, name, LOG, [10, 5, 0])
        expect(f"{name} does not bring back a dead permit",
               ask(redis, PEEK, name, LOG, values, 0, now=NOW + 10)[4:8], [5, 0, 0, 0])
    expect("events of a slot move to where its last microsecond lies",
           ask(redis, PEEK, "s", SLIDING, [5, 5, 2, -1], 0, now=NOW + 12)[4:8], [4, 0, 0, 3])


def skew_of_a_clients_clock_changes_nothing(redis):
    """Berlin's days: clients an hour ahead and behind, around midnight."""
    for skew in (-3600, -1, 0, 1, 3600):
        ends = []
        for now in (-1, 0, 1, 10**6):
            world = World(redis, 1704063600 * 10**6 + now, f"z{skew}{now}", skew * 10**6)
            world.line("limit fixed-window 5/day tz=Europe/Berlin")
            ends.append(int(world.line("0us take k")[10]) + now)
            world.forget()
        expect(f"skewed by {skew} s", ends, [0, *[86400 * 10**6] * 3])
    values = [86400 * 10**6, 5, 2, NOW - 3, NOW - 2, NOW - 1, 7]
    granted = [ask(redis, TAKE, "d", FIXED, values)[0] for _ in range(6)]
    expect("a clock days behind keeps the limit", granted, [1] * 5 + [0])


def a_request_that_fails_charges_no_key(redis):
    term = (TOKEN, 1, 0, [1, 1, 1])
    good = blob(TAKE, NOW, [term])
    for name, bad in (("another version", blob(TAKE + 256, NOW, [term])),
                      ("no verb", blob(0, NOW, [term])),
                      ("a verb too many", blob(7, NOW, [term])), ("a byte too many", good + b"x"),
                      ("a term too many", blob(TAKE, NOW, [term, term])),
                      ("a negative cost", blob(TAKE, NOW, [(TOKEN, -1, 0, [])]))):
        expect(f"{name} is an error", error_of(redis.script, 1, ["k"], bad), "WEIRFORM")
    expect("half a request is an error", error_of(redis.script, 1, ["k"], good[:50]), "ERR")
    expect("a term of a part that is missing",
           error_of(redis.script, 1, ["k"], blob(TAKE, NOW, [(LOG, 1, 0, [10**6, 1, 0])])),
           "WEIRKIND")
    redis.call("SCRIPT", "FLUSH")
    expect("a flushed script is loaded again", redis.script(1, ["k"], good)[0], 1)
    terms = [(TOKEN, 1, 0, [10**6, 1, 2]), (FIXED, 1, 0, [10**6, 3, 0])]
    redis.call("CONFIG", "SET", "maxmemory", 1)
    try:
        expect("a full Redis says so", error_of(several, redis, TAKE, ["{o}0", "{o}1"], terms),
               "OOM")
        expect("and still answers a peek", several(redis, PEEK, ["{o}0", "{o}1"], terms)[0], 1)
    finally:
        redis.call("CONFIG", "SET", "maxmemory", 0)
    expect("nothing was written", redis.call("EXISTS", "{o}0", "{o}1"), 0)
