"""Clocks of nodes that differ by hours change nothing: skew.py --hammer=PROGRAM --clock=PRELOADED
[SCENE...].

Three nodes ask for one key until it has no more to give: one's clock is right, one's is an hour
behind, one's is an hour ahead. Then they do it again with their clocks right. Together they are
granted the same, to the last event. The windows are chosen so that an hour matters: an edge lies
within it, before now or after.
"""

import contextlib
import os
import sys
import time

from fleet_kit import OPTIONS, Hammer, Redis, check, expect, now_us, play, say, until
from laws import all_of, keeps_bucket

CLOCK = os.path.abspath(OPTIONS.get("clock", "skewed_clock.so"))
HOUR_S = 3600
SKEWS = (0, -HOUR_S, HOUR_S)
COUNT = 60


def off_by(seconds):
    return {"LD_PRELOAD": CLOCK, "SKEW_SECONDS": str(seconds)} if seconds else {}


def granted(redis, limit, skews, name):
    """What nodes with these clocks are granted together: all that the limit allows."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Hammer(redis.url(timeout="5s"), limit, preload=off_by(skew),
                                            name=name, pause=500))
                 for skew in skews]
        for node, skew in zip(nodes, skews):
            off = node.ready()["now_us"] / 1e6 - time.time() - skew
            check(f"a clock is off by {skew} s: {limit}", abs(off) < 60, off)
        asked = 2 * COUNT // len(nodes)
        until(lambda: all(node.look()["asked"] >= asked for node in nodes), "all have asked enough")
        wholes = [node.finish() for node in nodes]
    for whole in wholes:
        expect(f"all was answered by the store: {limit}",
               [whole["remote"]["failed"], whole["remote"]["fell_back"]], [0, 0])
        expect(f"no errors: {limit}", whole["errors"], {})
    return wholes


def same(limit, redis=None):
    with contextlib.ExitStack() as stack:
        redis = redis or stack.enter_context(Redis())
        skewed, right = (granted(redis, limit, skews, name)
                         for skews, name in ((SKEWS, "skewed"), ((0, 0, 0), "right")))
    say(f"        {limit}: {[w['granted'] for w in skewed]} skewed, "
        f"{[w['granted'] for w in right]} not")
    for how, wholes in (("skewed", skewed), ("right", right)):
        expect(f"all is granted once, {how}: {limit}", sum(w["granted"] for w in wholes), COUNT)


def zone_where_it_is(hour):
    """A time zone where it is that hour of the day now, if no edge comes within the minute."""
    east = (hour - time.gmtime().tm_hour) % 24
    east -= 24 if east > 12 else 0
    return f"Etc/GMT{-east:+d}" if east else "Etc/GMT"


def until_no_edge_is_near():
    until(lambda: 10 < time.time() % (HOUR_S / 2) < HOUR_S / 2 - 30, "an edge has just passed",
          seconds=60)


def buckets_do_not_look_at_the_clock():
    same(f"token-bucket 1/h burst={COUNT}")


def windows_by_the_clock():
    """An hour behind and an hour ahead are other windows than now."""
    until_no_edge_is_near()
    same(f"fixed-window {COUNT}/1h align=clock")
    same(f"fixed-window {COUNT}/30m align=clock")


def days_that_have_begun_or_end_within_the_hour():
    """Where it is between midnight and one, nodes that are behind are in yesterday; before
    midnight, nodes that are ahead are in tomorrow."""
    until_no_edge_is_near()
    for hour in (0, 23):
        same(f"fixed-window {COUNT}/day tz={zone_where_it_is(hour)}")
    same(f"fixed-window {COUNT}/day tz=Europe/Berlin")


def a_window_ends_at_its_time_whichever_node_opened_it():
    until_no_edge_is_near()
    limits = [(f"fixed-window {COUNT}/1h align=clock", HOUR_S),
              (f"fixed-window {COUNT}/30m align=clock", HOUR_S / 2),
              (f"fixed-window {COUNT}/day tz={zone_where_it_is(0)}",
               24 * HOUR_S - time.time() % HOUR_S),
              (f"fixed-window {COUNT}/day tz={zone_where_it_is(23)}",
               HOUR_S - time.time() % HOUR_S)]
    with Redis() as redis:
        for limit, wanted in limits:
            if "align" in limit:
                wanted -= time.time() % wanted
            for skew in SKEWS:
                with Hammer(redis.url(timeout="5s"), limit, preload=off_by(skew), calls=1) as node:
                    expect(f"the first is granted: {limit}", node.finish()["granted"], 1)
                left = redis.call("PTTL", redis.keys("weir:1:{p:k}:*")[0]) / 1000
                check(f"the window ends when it ends, opened by a node that is off by {skew} s: "
                      f"{limit}",
                      abs(left - wanted) < 20, f"{left} s are left, expected {wanted}")
                redis.call("FLUSHALL")


def other_algorithms():
    until_no_edge_is_near()
    with Redis() as redis:
        for limit in (f"sliding-log {COUNT}/1h", f"sliding-counter {COUNT}/3h",
                      f"sliding-window {COUNT}/1h slots=60",
                      f"leaky-bucket 1/h capacity={COUNT}",
                      f"token-bucket 1/h burst={2 * COUNT} initial={COUNT}"):
            redis.call("FLUSHALL")
            same(limit, redis)


def a_redis_that_is_off():
    """It is Redis's clock that counts, whatever it says; even if no node agrees."""
    until_no_edge_is_near()
    for seconds in (-HOUR_S, HOUR_S):
        with Redis(environment=off_by(seconds)) as redis:
            reads = int(redis.call("TIME")[0])
            check("Redis's clock is off", abs(reads - time.time() - seconds) < 60, reads)
            same(f"token-bucket 1/h burst={COUNT}", redis)
            same(f"fixed-window {COUNT}/day tz={zone_where_it_is(0 if seconds < 0 else 23)}", redis)
            same(f"token-bucket 1/h burst={2 * COUNT} initial={COUNT}", redis)


def rates_are_the_same():
    """The rates of nodes are the same over time, and not only at once."""
    with Redis() as redis, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Hammer(redis.url(timeout="5s"), "token-bucket 100/s burst=20",
                                            preload=off_by(skew), pause=1000)) for skew in SKEWS]
        end = now_us() + 1_000_000
        until(lambda: now_us() > end, "time passes")
        wholes = [node.finish() for node in nodes]
    grants = all_of(wholes)
    keeps_bucket("skewed nodes keep the law", grants, 100, 20)
    check("and get what it gives", len(grants) >= 0.8 * 120, len(grants))


SCENES = [buckets_do_not_look_at_the_clock, windows_by_the_clock,
          days_that_have_begun_or_end_within_the_hour,
          a_window_ends_at_its_time_whichever_node_opened_it, other_algorithms, a_redis_that_is_off,
          rates_are_the_same]

if __name__ == "__main__":
    sys.exit(play("skew", SCENES, together=2))
