"""A fault trial: four nodes ask while their Redis is broken and mended, and each records what it
saw.

Two share a limit with fallback=local; a third has one with fallback=allow, a fourth one with
fallback=deny. No node crashes, hangs, fails, or waits longer than the timeout; what is granted
stays within the bound, twice the limit with both nodes cut off; and then the limit is the shared
one again.
"""

import contextlib

from fleet_kit import Hammer, Proxy, Redis, check, expect, now_us, say, until
from laws import all_of, in_time, keeps_bucket

TIMEOUT_US, TIMEOUT = 100_000, "100ms"
RATE, BURST, NODES = 50, 20, 2
BUCKET = f"token-bucket {RATE}/s burst={BURST}"
PAUSE_US = 2000


class FaultTrial:
    """Four nodes at a Redis, or at a proxy before it."""

    def __init__(self, stack, redis, name, port=None, password=None):
        self.redis, self.name = redis, name
        url = redis.url(port, password, nodes=NODES, timeout=TIMEOUT)
        words = {"pause": PAUSE_US, "threads": 2}

        def node(limit, **more):
            return stack.enter_context(Hammer(url, limit, **words, **more))

        self.sharers = [node(BUCKET) for _ in range(NODES)]
        self.allowing = node(BUCKET + " fallback=allow", name="allowing")
        self.denying = node(BUCKET + " fallback=deny", name="denying")
        self.nodes = [*self.sharers, self.allowing, self.denying]
        self.phases = []
        self.extra = 0              # events beyond the limit that Redis itself has forgotten about
        self.believed = True        # no answer was taken for that to another question
        self.down_us = None

    # ---- Steps -----------------------------------------------------------------------------------

    def lasts(self, seconds):
        end = now_us() + int(seconds * 1e6)
        until(lambda: now_us() >= end, "time passes")

    def works(self):
        """Lets the nodes ask until the limit is what holds them back."""
        seen = [node.look()["asked"] for node in self.nodes]
        until(lambda: all(node.look()["asked"] >= was + 100 for node, was in zip(self.nodes, seen)),
              "all are answered by the store")

    def breaks(self, break_it):
        """The Redis breaks, and all nodes notice."""
        until(lambda: not any(node.look()["down"] for node in self.nodes), "none is down by itself")
        seen = [node.look()["outages"] for node in self.nodes]
        break_it()
        until(lambda: all(node.look()["outages"] > was for node, was in zip(self.nodes, seen)),
              "all have noticed")
        self.down_us = now_us()

    def falls_back(self, seconds=0.5):
        """The Redis stays broken, and all callers are answered all the same."""
        seen = [node.look()["fell_back"] for node in self.nodes]
        self.lasts(seconds)
        until(lambda: all(node.look()["fell_back"] >= was + 50 for node,
                          was in zip(self.nodes, seen)),
              "all fall back")

    def comes_up(self):
        until(lambda: not any(node.look()["down"] for node in self.nodes), "all are back")

    def ends_phase(self, name):
        told = [node.phase(name) for node in self.nodes]
        self.phases.append((name, told))
        return told

    # ---- What they saw ---------------------------------------------------------------------------

    def table(self):
        rows = [f"        {self.name}"]
        for name, told in self.phases:
            for who, tell in zip(("local", "local", "allow", "deny"), told):
                errors = "".join(f", {n} {what}" for what, n in tell["errors"].items())
                rows.append(f"          {name:8} {who:5}  {tell['granted']:5} granted "
                            f"{tell['denied']:5} denied{errors}"
                            f"  p99 {tell['p99_us'] / 1000:6.2f} ms  worst "
                            f"{tell['worst_us'] / 1000:6.1f} ms")
        say("\n".join(rows))

    def holds(self, goes_down=True):
        until(lambda: not any(node.look()["down"] for node in self.nodes),
              f"all are back: {self.name}")
        wholes = [node.finish() for node in self.nodes]
        in_time(f"no caller waits longer than the timeout: {self.name}", wholes, TIMEOUT_US)
        expect(f"no caller is left without an answer: {self.name}", [w["errors"] for w in wholes],
               [{}] * 4)
        self.holds_bounds(wholes)
        self.holds_fallbacks(wholes)
        for node, whole in zip(self.nodes, wholes):
            remote = whole["remote"]
            check(f"every node that went down is up again: {self.name}",
                  remote["outages"] - remote["recoveries"] in (0, 1), (remote, node.log()))
            check(f"the store was down: {self.name}", remote["outages"] > 0 or not goes_down,
                  (remote, node.log()))

    def holds_bounds(self, wholes):
        grants = all_of(wholes[:NODES])
        expect(f"an answer is the store's or the share's: {self.name}",
               {g[2] for g in grants} - {BURST, BURST / NODES}, set())
        for whole in wholes[:NODES]:
            keeps_bucket(f"what a node granted is within its share: {self.name}",
                         [g for g in all_of([whole]) if g[2] == BURST / NODES], RATE / NODES,
                         BURST / NODES)
        if self.believed:
            keeps_bucket(f"what both were granted is within the bound: {self.name}", grants,
                         RATE * 2, BURST * 2 + self.extra)
            keeps_bucket(f"what the store granted is within the limit: {self.name}",
                         [g for g in grants if g[2] == BURST], RATE, BURST + self.extra)
        if (self.believed and self.down_us
            and all(whole["remote"]["outages"] == 1 for whole in wholes[:NODES])):
            self.holds_return([g for g in grants if g[0] >= self.down_us])

    def holds_return(self, alone):
        """Bounds all that is granted from the outage on: the nodes' shares, and after it no more
        than is left when their backlogs are drained. But the node that drains last may find that
        another has taken it, and the one that is up first has the whole rate while the other still
        has its share."""
        backs = [node.hears("is up")[0] for node in self.sharers]
        apart = RATE / NODES * (max(backs) - min(backs)) / 1e6
        worst = keeps_bucket(f"the return is no burst: {self.name}", alone, RATE,
                             BURST * (2 - 1 / NODES) + self.extra + NODES + apart)
        say(f"        {self.name}: {worst:.1f} beyond the rate since they were alone, of {BURST} + "
            f"{apart:.1f}")

    def holds_fallbacks(self, wholes):
        allowing, denying = wholes[NODES:]
        expect(f"fallback=allow refuses nothing by itself: {self.name}",
               allowing["denials_by"].get("FALLBACK", 0), 0)
        expect(f"fallback=deny grants nothing by itself: {self.name}",
               denying["grants_by"].get("FALLBACK", 0), 0)
        if self.believed:
            keeps_bucket(f"fallback=deny stays within the limit: {self.name}", all_of([denying]),
                         RATE, BURST + self.extra)
        for name, told in self.phases:
            if name == "broken" and self.believed:
                check(f"fallback=local grants meanwhile: {self.name}",
                      all(t["granted"] > 0 for t in told[:NODES]), told)
                check(f"fallback=allow grants all meanwhile: {self.name}",
                      told[2]["denied"] == 0 and told[2]["grants_by"].get("FALLBACK", 0) > 0,
                      told[2])
                check(f"fallback=deny refuses all meanwhile: {self.name}",
                      told[3]["granted"] == 0 and told[3]["denials_by"].get("FALLBACK", 0) > 0,
                      told[3])
            if name == "after":
                check(f"the shared limit is back: {self.name}",
                      sum(t["granted"] for t in told[:NODES]) > 0
                      and all(t["remote"]["asked"] > 0 for t in told), told)


@contextlib.contextmanager
def fault_trial(name, *options, proxied=False, **more):
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis(*options))
        proxy = stack.enter_context(Proxy(redis.port)) if proxied else None
        o = FaultTrial(stack, redis, name, port=proxy.port if proxy else None, **more)
        o.proxy = proxy
        yield o


def survives(o, break_it, mend_it, seconds=0.5):
    """Breaks and mends the Redis while all nodes ask."""
    o.works()
    o.ends_phase("before")
    o.breaks(break_it)
    o.ends_phase("breaking")
    o.falls_back(seconds)
    o.ends_phase("broken")
    mend_it()
    o.comes_up()
    o.ends_phase("mending")
    o.works()
    o.ends_phase("after")
    o.table()
    o.holds()
