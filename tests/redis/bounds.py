"""With k of n nodes cut off, all are granted at most limit x (1 + k/n): bounds.py --hammer=PROGRAM
[SCENE...].

Each of three nodes has a way to the Redis of its own. They are cut off one after the other while
all ask, and come back together. What holds for k holds over every window that ends before the next
was cut off; what holds for three, over all, the return included.
"""

import contextlib
import sys

from fleet_kit import Hammer, Proxy, Redis, check, expect, now_us, play, say, until
from laws import all_of, in_time, most_in_clock_windows, most_over, most_within

TIMEOUT_US = 100_000
TIMEOUT = {"timeout": "100ms"}
NODES, PAUSE_US = 3, 2000
LIST = "weir:1:{fleet}:nodes"


class Fleet:
    """Nodes, each behind a proxy of its own."""

    def __init__(self, stack, limit, nodes=NODES, counted=False, **words):
        self.redis = stack.enter_context(Redis())
        self.proxies = [stack.enter_context(Proxy(self.redis.port)) for _ in range(nodes)]
        told = {} if counted else {"nodes": nodes}
        self.nodes = [stack.enter_context(Hammer(self.redis.url(proxy.port, **TIMEOUT, **told),
                                                 limit, **{
            "threads": 2, "pause": PAUSE_US, **words})) for proxy in self.proxies]
        self.heard = [0] * nodes
        if counted:
            until(lambda: all(node.look()["nodes"] == nodes for node in self.nodes),
                  "all have counted all")

    def lasts(self, us):
        end = now_us() + us
        until(lambda: now_us() >= end, "time passes")

    def cut(self, i, mode="hole"):
        """Cuts the node off, and returns when it has noticed."""
        self.proxies[i].turn(mode)
        _, self.heard[i] = self.nodes[i].hears("is down", self.heard[i])

    def mend(self, i):
        self.proxies[i].turn("forward")
        _, self.heard[i] = self.nodes[i].hears("is up", self.heard[i])

    def recovers(self):
        """Waits until every node is up and has been answered."""
        until(lambda: not any(node.look()["down"] for node in self.nodes), "all are back")
        seen = [node.look()["asked"] for node in self.nodes]
        until(lambda: all(node.look()["asked"] > was + 50 for node, was in zip(self.nodes, seen)),
              "all are answered")

        return now_us()

    def went_down(self, since_us, before_us):
        """How many nodes had gone down by then: on a busy machine one may have done so by
        itself."""
        return sum(any(line["is"] == "log" and "is down" in line["line"]
                       and since_us <= line["at_us"] < before_us
                       for line in node.lines) for node in self.nodes)

    def finish(self, name):
        wholes = [node.finish() for node in self.nodes]
        expect(f"no caller is left without an answer: {name}", [w["errors"] for w in wholes],
               [{}] * len(wholes))
        in_time(f"no caller waits longer than the timeout: {name}", wholes, TIMEOUT_US)
        return wholes


def cut_off_one_by_one(limit, measure, share, counted=False, span_us=600_000, **words):
    """measure(grants, k) is (what was granted, at most)."""
    name = limit + (", counted" if counted else "")
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, limit, counted=counted, **words)
        since = fleet.recovers()     # before that some may not have known how many they are
        ends = []
        for i in range(NODES):
            ends.append(now_us())
            fleet.cut(i)
            fleet.lasts(span_us)
        ends.append(now_us())
        for i in range(NODES):
            fleet.proxies[i].turn("forward")
        for i in range(NODES):
            fleet.mend(i)
        fleet.recovers()
        fleet.lasts(span_us)
        ends.append(now_us())
        gone = [fleet.went_down(since, end) for end in ends]
        grants = all_of(fleet.finish(name), lambda grant: grant[0] >= since)
    for k, end in zip(gone, ends):
        within = [grant for grant in grants if grant[1] < end]
        got, most = measure(within, k)
        check(f"{k} of {NODES} cut off, within the bound: {name}", got <= most + 1e-6,
              f"{got:.2f} of {most:.2f}")
        say(f"        {name}: {k} of {NODES} cut off, {got:.1f} of {most:.1f}")
    check(f"shares are used: {name}", any(grant[2] == share for grant in grants), grants[-5:])


def bucket(rate, burst):
    def measure(grants, k):
        return most_over(grants, rate * (1 + k / NODES)), burst * (1 + k / NODES)
    return measure


def buckets_are_shared():
    cut_off_one_by_one("token-bucket 60/s burst=30", bucket(60, 30), 10)


def buckets_are_shared_by_the_nodes_counted():
    cut_off_one_by_one("token-bucket 60/s burst=30", bucket(60, 30), 10, counted=True)


def windows_are_shared():
    cut_off_one_by_one("fixed-window 30/400ms align=clock",
                       lambda grants,
                       k: (most_in_clock_windows(grants, 400_000), 30 * (1 + k / NODES)), 10)


def logs_are_shared():
    cut_off_one_by_one("sliding-log 30/400ms",
                       lambda grants, k: (most_within(grants, 400_000), 30 * (1 + k / NODES)), 10)


def a_share_is_one_at_least():
    cut_off_one_by_one("sliding-log 2/300ms", lambda grants,
                       k: (most_within(grants, 300_000), 2 + k * 1), 1)


# ---- And back ----------------------------------------------------------------------------------


def lone_node(name, break_it, mend_it):
    """With one node no other grants can come between: an outage adds nothing at all."""
    rate, burst, threads = 20, 40, 2
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, f"token-bucket {rate}/s burst={burst}", nodes=1, threads=threads)
        fleet.recovers()
        break_it(fleet)
        alone_us, fleet.heard[0] = fleet.nodes[0].hears("is down")
        fleet.lasts(2_200_000)      # the shared bucket is full again by then, or forgotten
        mend_it(fleet)
        fleet.nodes[0].hears("is up", fleet.heard[0])
        fleet.recovers()
        fleet.lasts(300_000)
        whole = fleet.finish(name)[0]
    grants = [grant for grant in all_of([whole]) if grant[0] >= alone_us]
    worst = most_over(grants, rate)
    say(f"        {name}, over its return: {worst:.1f} of {burst}; {whole['remote']['drained']} "
        "drained")
    # On a busy machine it may have been down once more: then it has its share once more.
    most = burst + threads if whole["remote"]["outages"] == 1 else 2 * burst
    check(f"the return of {name} is no burst", worst <= most, (worst, whole["remote"]))
    check(f"{name} drained what it had granted", whole["remote"]["drained"] > burst / 2,
          whole["remote"])


def a_lone_node_pays_all_it_granted():
    lone_node("a lone node", lambda f: f.proxies[0].turn("hole"),
              lambda f: f.proxies[0].turn("forward"))


def a_lone_node_pays_to_a_redis_that_has_forgotten_all():
    lone_node("a lone node of a forgetful Redis", lambda f: f.redis.kill(),
              lambda f: f.redis.start())


def a_list_that_was_lost_is_not_believed():
    """The first node to come back to a Redis that has forgotten all does not take itself for the
    only one."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, "token-bucket 60/s burst=30", counted=True)
        fleet.redis.kill()
        for i, node in enumerate(fleet.nodes):
            _, fleet.heard[i] = node.hears("is down")
        fleet.proxies[1].turn("hole")
        fleet.proxies[2].turn("hole")
        fleet.redis.start()
        fleet.nodes[0].hears("is up", fleet.heard[0])
        until(lambda: fleet.redis.call("EXISTS", LIST) == 1, "the list begins anew")
        beats = set()
        def beat():
            beats.update(fleet.redis.call("ZRANGE", LIST, 0, -1, "WITHSCORES")[1::2])
            return len(beats) >= 3
        until(beat, "it was heard of three times")
        expect("only one is on the list", fleet.redis.call("ZCARD", LIST), 1)
        expect("and it still shares with two", fleet.nodes[0].look()["nodes"], NODES)


def one_that_comes_and_goes_has_one_share():
    """A node that is cut off again and again uses up its share, whether or not it could drain its
    backlog."""
    rate, burst = 20, 90
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, f"token-bucket {rate}/s burst={burst}", pause=1000)
        fleet.recovers()
        until(lambda: all(node.look()["asked"] > burst for node in fleet.nodes),
              "the limit is used up")
        for _ in range(5):
            fleet.cut(0, "reset")
            fleet.lasts(50_000)
            fleet.mend(0)
            fleet.recovers()         # it has paid what there was to pay it with
        k = fleet.went_down(0, now_us())
        whole = fleet.finish("one that comes and goes")
    worst, most = most_over(all_of(whole), rate * (1 + k / NODES)), burst * (1 + k / NODES)
    say(f"        one that comes and goes: {worst:.1f} of {most:.1f}")
    check("one that comes and goes stays within the bound", worst <= most,
          f"{worst:.2f} of {most:.2f}")


def nodes_that_leave_are_not_counted():
    """A node that closes takes itself off the list; one that is killed stays on it."""
    with Redis() as redis:
        def node():
            return Hammer(redis.url(timeout="5s"), "token-bucket 60/s burst=30", pause=PAUSE_US)
        with node() as first, node() as second, node() as third:
            until(lambda: all(n.look()["nodes"] == 3 for n in (first, second, third)),
                  "three are counted")
            expect("three are on the list", redis.call("ZCARD", LIST), 3)
            third.finish()
            expect("a node that leaves is off the list", redis.call("ZCARD", LIST), 2)
            until(lambda: first.look()["nodes"] == 2, "the others know")
            second.process.kill()
            second.process.wait()
            first.finish()
            expect("a node that was killed is still counted", redis.call("ZCARD", LIST), 1)


SCENES = [buckets_are_shared, buckets_are_shared_by_the_nodes_counted, windows_are_shared,
          logs_are_shared,
          a_share_is_one_at_least, a_lone_node_pays_all_it_granted,
          a_lone_node_pays_to_a_redis_that_has_forgotten_all,
          a_list_that_was_lost_is_not_believed, one_that_comes_and_goes_has_one_share,
          nodes_that_leave_are_not_counted]

if __name__ == "__main__":
    sys.exit(play("bounds", SCENES, together=3))
