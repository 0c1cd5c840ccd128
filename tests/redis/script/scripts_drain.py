"""Paying in what was granted elsewhere (verb 5), and the heartbeat."""

import random

from scripts_kit import (CONCURRENCY, COUNTER, FIXED, LEAKY, LOG, NOW, PACER, SCRIPTS, SEED,
                         SLIDING, TOKEN, ask, check, expect, several)
from scripts_keys import ONE_OF_EACH, error_of
from scripts_redis import Redis, script_text
from scripts_world import COUNTS, FOREVER, PAY, PEEK, REFUND, SHADOW, TAKE, blob

TEN_MINUTES = 600 * 10**6
# Beside one of each: limits that make callers wait, per-slot, slack, a large count that needs
# limbs, a calendar's window.
MORE = {
    "leaky-bucket delay": (LEAKY, [200_000, 1, 5, 0, 0, 2]),
    "pacer slack": (PACER, [200_000, 1, 4, 0, 0, 9, FOREVER]),
    "pacer created now": (PACER, [200_000, 1, 4, NOW + 600_000, 0, 9, 10**6]),
    "token-bucket of limbs": (TOKEN, [999_999_999_989, 7919, 10**7]),
    "sliding-log spaced": (LOG, [10**6, 5, 200_000]),
    "sliding-window per-slot": (SLIDING, [100_000, 5, 10, 2]),
    "fixed-window of a day": (FIXED, [86400 * 10**6, 5, 2, NOW - 1, NOW + 7, NOW + 9, 3])}


def hold_alike(redis, one, other):
    """Whether Redis has the same bytes there, for as long."""
    lives = [redis.call("PTTL", key) for key in (one, other)]
    return redis.call("GET", one) == redis.call("GET", other) and abs(lives[0] - lives[1]) < 2000


def paying_takes_what_remains_and_no_more(redis):
    """On a key that has seen the same, a take of the least of the cost and of what remains."""
    rng = random.Random(SEED)
    paid = 0
    for round_of in range(max(2, SCRIPTS // 40)):
        for name, (kind, values) in {**ONE_OF_EACH, **MORE}.items():
            if kind == CONCURRENCY:
                continue
            flags, now = rng.choice((0, 0, COUNTS, SHADOW)), NOW
            a, b = f"{{pay}}a {name} {round_of}", f"{{pay}}b {name} {round_of}"
            for step in range(12):
                now += rng.choice((0, 0, 1, 50_000, 199_999, 200_000, 10**6))
                verb = rng.choice((TAKE, TAKE, REFUND, PAY, PAY))
                cost = rng.choice((0, 1, 1, 2, 3, 5, 7, 2**53 + 1, 2**63 - 1))
                here = f"{name}, round {round_of}, step {step}: {verb} of {cost}"
                if verb != PAY:
                    patience = rng.choice((0, FOREVER))
                    both = [ask(redis, verb, key, kind + flags, values, cost, patience, now)
                            for key in (a, b)]
                    expect(f"{here}: alike", both[0], both[1])
                    continue
                left = ask(redis, PEEK, b, kind + flags, values, 0, 0, now)[4]
                took = min(cost, left)
                if took:
                    granted = ask(redis, TAKE, b, kind + flags - (flags & SHADOW), values, took, 0,
                                  now)
                    check(f"{here}: what remains is granted", granted[0] == 1 and granted[5] == 0,
                          granted)
                wanted = ask(redis, PEEK, b, kind + flags, values, 0, 0, now)[:9] + [took]
                expect(here,
                       ask(redis, PAY, a, kind + flags, values, cost, rng.choice((0, FOREVER)),
                           now), wanted)
                check(f"{here}: the keys", hold_alike(redis, a, b))
                paid += took > 0
    check("some was paid", paid > 50, paid)


def a_drained_backlog_is_not_refused(redis):
    bucket, window, log = (TOKEN, 9, 0, [10**6, 1, 3]), (FIXED, 2, 0,
                                                         [60 * 10**6, 5,
                                                          0]), (LOG, 0, 0, [10**6, 9, 0])
    keys = ["{p}:0", "{p}:1", "{p}:2"]
    expect("each term takes what it can", several(redis, PAY, keys, [bucket, window, log]),
           [1, 0, -1, 3, 0, 0, 0, 60 * 10**6, NOW, 3])
    more = (FIXED, 9, 0, [60 * 10**6, 5, 0])
    expect("and no more the second time", several(redis, PAY, keys, [bucket, more, log])[9], 3)
    expect("nor the third", several(redis, PAY, keys, [bucket, window, log])[9], 0)
    expect("a term without a backlog has no key", redis.call("EXISTS", "{p}:2"), 0)
    expect("afterwards it is as after a burst", ask(redis, TAKE, "{p}:0", TOKEN, [10**6, 1, 3])[:7],
           [0, 1, 0, 3, 0, 0, 10**6])
    two = [(COUNTER, 3, 0, [10**6, 5]), (COUNTER, 3, 0, [10**6, 5])]
    expect("a key named twice: the second takes what the first left",
           several(redis, PAY, ["k", "k"], two)[:5], [1, 0, -1, 5, 0])
    mixed = [(CONCURRENCY, 1, 0, [60 * 10**6, 2]), (TOKEN, 2, 0, [10**6, 1, 3])]
    expect("permits cannot be paid", several(redis, PAY, ["{m}0", "{m}1"], mixed)[3:10],
           [3, 1, 0, 0, 2 * 10**6, NOW, 2])
    expect("and leave no key", redis.call("EXISTS", "{m}0"), 0)
    expect("nor do they need a ticket",
           redis.script(16, ["{m}0"], blob(PAY, NOW, [(CONCURRENCY, 1, 0, [60 * 10**6, 2])])),
           [1, 0, -1, 2, 2, 0, 0, 0, NOW, 0])
    expect("no caller waits: a pacer charges what would act now",
           ask(redis, PAY, "q", PACER, [10**6, 1, 2, 0, 0, 100, FOREVER], 50)[4:10],
           [0, 0, 0, 2 * 10**6, NOW, 2])
    redis.call("CONFIG", "SET", "maxmemory", 1)
    try:
        expect("a full Redis takes no payment",
               error_of(ask, redis, PAY, "o", TOKEN, [10**6, 1, 3]), "OOM")
    finally:
        redis.call("CONFIG", "SET", "maxmemory", 0)
    expect("Redis's own clock serves too", ask(redis, PAY, "own", TOKEN, [10**6, 1, 3], now=-1)[9],
           1)


# ---- The heartbeat ---------------------------------------------------------------------------

NODES, FORMAT = "weir:1:{fleet}:nodes", "weir:{fleet}:format"


def beat(redis, node, what="beat", form=1):
    return redis.call("EVAL", script_text("heartbeat"), 2, f"weir:{form}:{{fleet}}:nodes", FORMAT,
                      node, what, form)


def counted(redis, *words):
    """How many there are, and whether it is new."""
    return beat(redis, *words)[:3:2]


def a_heartbeat_counts_the_nodes_heard_of(redis):
    reply = beat(redis, "a")
    seconds, micros = (int(x) for x in redis.call("TIME"))
    check("the first is alone, new, and told the time",
          reply[0] == 1 and reply[2] == 1 and 0 <= seconds * 10**6 + micros - reply[1] < 10**6,
          reply)
    expect("again it is not new", counted(redis, "a"), [1, 0])
    expect("others are counted", [counted(redis, "b"), counted(redis, "c")], [[2, 1], [3, 1]])
    expect("a node that leaves is not", counted(redis, "b", "bye"), [2, 0])
    expect("nor is it twice", counted(redis, "b", "bye"), [2, 0])
    now = beat(redis, "a")[1]
    redis.call("ZADD", NODES, now - TEN_MINUTES + 5 * 10**6, "c")
    expect("one not heard of for nearly ten minutes is", beat(redis, "a")[0], 2)
    redis.call("ZADD", NODES, now - TEN_MINUTES - 1, "c")
    expect("one not heard of for ten minutes is not", beat(redis, "a")[0], 1)
    left = redis.call("PTTL", NODES)
    check("the list ends by itself", 590000 < left <= 600000, left)
    redis.call("DEL", NODES)
    expect("a list that was lost shows", counted(redis, "a"), [1, 1])
    expect("the last one out leaves nothing",
           [beat(redis, "a", "bye")[0], redis.call("EXISTS", NODES)], [0, 0])


def a_format_belongs_to_those_who_have_it(redis):
    expect("the first sets it", [beat(redis, "a")[3], redis.call("GET", FORMAT)], [1, b"1"])
    left = redis.call("PTTL", FORMAT)
    check("for ten seconds from its last heartbeat", 9000 < left <= 10000, left)
    redis.call("PEXPIRE", FORMAT, 500)
    beat(redis, "b")
    left = redis.call("PTTL", FORMAT)
    check("or another's of that format", 9000 < left <= 10000, left)
    redis.call("PEXPIRE", FORMAT, 5000)
    refused = beat(redis, "x", form=2)
    expect("one of another format hears which there is", refused[::3] + refused[2:3], [0, 1, 0])
    check("and prolongs nothing", redis.call("PTTL", FORMAT) <= 5000)
    expect("nor is it on a list",
           [redis.call("ZCARD", NODES), redis.call("EXISTS", "weir:2:{fleet}:nodes")], [2, 0])
    beat(redis, "x", "bye", form=2)
    expect("its leaving changes nothing", redis.call("GET", FORMAT), b"1")
    beat(redis, "a", "bye")
    expect("nor does that of one of several", redis.call("GET", FORMAT), b"1")
    beat(redis, "b", "bye")
    expect("the last one of its format frees it", redis.call("EXISTS", FORMAT), 0)
    expect("then another format may", beat(redis, "x", form=2)[3], 2)
    expect("and the first may not", beat(redis, "a")[3], 2)
    redis.call("SET", FORMAT, "what")
    expect("what is no number is another format", beat(redis, "x", form=2)[3], 0)


def a_store_that_cannot_be_written_has_no_pulse(redis):
    beat(redis, "a")
    redis.call("CONFIG", "SET", "maxmemory", 1)
    try:
        expect("a full Redis", error_of(beat, redis, "a"), "OOM")
        expect("even for a node on the list, with others to drop", error_of(beat, redis, "b"),
               "OOM")
    finally:
        redis.call("CONFIG", "SET", "maxmemory", 0)
    expect("has one again", beat(redis, "a")[0], 1)
    with Redis("--replicaof", "127.0.0.1", "1") as replica:
        expect("a replica that may only be read", error_of(beat, replica, "a"), "READONLY")
