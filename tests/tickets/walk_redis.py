#!/usr/bin/env python3
"""A random walk over tickets of two daemons on a Redis: `walk_redis.py PATH_TO_WEIR`.

The limit has permits, which both daemons share, and at times a guard, of which each has its own.
After every step both daemons must say of every key what the model says.
"""

import random
import sys

from tickets_kit import check, enter, expect, left, play, stale, until

from serve_kit import a_fleet, on  # pylint: disable=wrong-import-order

PERMITS, IN_FLIGHT = 6, 3
SHARED = f"concurrency {PERMITS} lease=1h + 100k/s"
GUARDED = f"{SHARED} + aimd min={IN_FLIGHT} max={IN_FLIGHT} initial={IN_FLIGHT}"
KEYS = "ab"


class Ticket:
    """What an entry holds: a permit of the Redis, and perhaps a place in the guard of its node."""

    def __init__(self, name, key, node, line, guarded):
        self.name, self.key, self.node, self.line = name, key, node, line
        self.carried = not guarded      # the id says all that the other daemon needs
        self.permit, self.guard = True, guarded


class Walk:
    """Two daemons with three lines each, beside the tickets that the model has open."""

    def __init__(self, chance, redis, daemons, clients, later):
        self.chance, self.url, self.later = chance, redis.url(timeout="30s"), later
        self.daemons, self.clients = list(daemons), list(clients)
        self.guarded = [False, False]
        self.lines = [[daemon.resp() for _ in range(3)] for daemon in daemons]
        self.open, self.dead, self.orphans = [], [], []

    def held(self, key):
        return sum(t.permit for t in self.open + self.orphans if t.key == key)

    def in_flight(self, node, key):
        return sum(t.guard for t in self.open if t.key == key and t.node == node)

    def left(self, node, key):
        free = PERMITS - self.held(key)
        return min(free, IN_FLIGHT - self.in_flight(node, key)) if self.guarded[node] else free

    def differences(self):
        """What both daemons say, where the model says something else."""
        said = [(node, key, left(self.clients[node], "m", key), self.left(node, key))
                for node in (0, 1) for key in KEYS]
        return [it for it in said if it[2] != it[3]]

    def end(self, t):
        self.open.remove(t)
        self.dead.append(t)

    # ---- Steps ---------------------------------------------------------------------------------

    def enter(self, node, key):
        line = self.chance.choice(self.lines[node])
        tied = self.chance.random() < 0.4
        there_is_room = self.left(node, key) > 0
        reply = enter(line, "m", *(["CONN"] if tied else []), key=key)
        if reply[6]:
            self.open.append(Ticket(reply[6], key, node, line if tied else None,
                                    self.guarded[node]))
        return there_is_room == bool(reply[0]) == bool(reply[6])

    def lapse(self, node, key):
        """Enters for an instant. Whether it was granted does not matter afterwards."""
        enter(self.chance.choice(self.lines[node]), "m", "TTL", "20ms", key=key)
        return True

    def exit(self, node, _):
        if not self.open:
            return True
        t = self.chance.choice(self.open)
        reply = self.chance.choice(self.lines[node]).ask(
            "WEIR.EXIT", t.name, self.chance.choice(["OK", "ERROR", "DROP", "IGNORE"]))
        if node == t.node:
            self.end(t)
            return reply == "OK"
        if t.carried and t.permit:
            t.permit = False        # its own daemon counts it as open until it is exited there
            return reply == "OK"
        return stale(reply)

    def exit_again(self, node, _):
        return not self.dead or \
            stale(self.chance.choice(self.lines[node]).ask("WEIR.EXIT",
                                                           self.chance.choice(self.dead).name))

    def exit_of_the_killed(self, node, _):
        if not self.orphans:
            return True
        t = self.orphans.pop()
        if t.permit and not t.carried:
            self.orphans.insert(0, t)   # stays until its lease ends
        reply = self.clients[node].ask("WEIR.EXIT", t.name)
        return reply == "OK" if t.carried and t.permit else stale(reply)

    def leave(self, node, _):
        i = self.chance.randrange(3)
        line = self.lines[node][i]
        (line.reset if self.chance.random() < 0.5 else line.close)()
        for t in [t for t in self.open if t.line is line]:
            self.end(t)
        self.lines[node][i] = self.daemons[node].resp()
        return True

    def reset(self, node, key):
        """The permits are gone for both, what is in flight for the node that is asked."""
        for t in self.open + self.orphans:
            if t.key == key:
                t.permit = False
                t.guard = t.guard and t.node != node
        return self.clients[node].ask("WEIR.RESET", "m", key) in (0, 1, "OK")

    def change(self, node, _):
        """A guard comes or goes. One that comes back still counts the calls that it admitted."""
        self.guarded[node] = not self.guarded[node]
        return self.clients[node].ask("WEIR.LIMIT", "SET", "m",
                                      GUARDED if self.guarded[node] else SHARED) == "OK"

    def kill(self, node, _):
        daemon = self.daemons[node]
        daemon.process.kill()
        daemon.process.wait()
        daemon.ended_by_test = True
        for t in [t for t in self.open if t.node == node]:
            self.end(t)
            self.dead.remove(t)
            t.guard = False
            self.orphans.append(t)
        self.daemons[node] = self.later(on(self.url, "--limit", "m=" + (
            GUARDED if self.guarded[node] else SHARED)))
        self.clients[node] = self.daemons[node].resp()
        self.lines[node] = [self.daemons[node].resp() for _ in range(3)]
        return True

    STEPS = ((enter, 40), (exit, 25), (exit_again, 8), (leave, 8), (lapse, 6), (change, 6),
             (reset, 4), (exit_of_the_killed, 3), (kill, 1))

    def step(self):
        what = self.chance.choices([s for s, _ in self.STEPS], [n for _, n in self.STEPS])[0]
        return what.__name__, what(self, self.chance.randrange(2), self.chance.choice(KEYS))


def every_ticket_is_freed_exactly_once():
    given = [word[7:] for word in sys.argv if word.startswith("--seed=")]
    seed = int(given[0]) if given else random.randrange(1 << 30)
    with a_fleet("--limit", f"m={SHARED}") as (redis, daemons, clients):
        started = []

        def later(daemon):
            started.append(daemon)
            return daemon.__enter__()

        walk = Walk(random.Random(seed), redis, daemons, clients, later)
        for step in range(600):
            what, good = walk.step()
            if not check(f"seed {seed}, step {step}: {what}", good) or \
                    not check(f"seed {seed}, step {step}: permits after {what}",
                              until(lambda: not walk.differences()), walk.differences()):
                break
        for t in list(walk.open):
            expect(f"seed {seed}: the last exits", walk.clients[t.node].ask("WEIR.EXIT", t.name),
                   "OK")
        for c in walk.clients:
            check(f"seed {seed}: none is open", until(lambda c=c: c.info()["open_tickets"] == "0"))
        for daemon in started:
            daemon.__exit__(None, None, None)


if __name__ == "__main__":
    sys.exit(play("walk_redis", [every_ticket_is_freed_exactly_once]))
