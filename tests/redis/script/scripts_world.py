"""Lines of `weir sim`, decided by the scripts in a real Redis.

A World reads the same lines as the oracle's Sim and answers with the same fields, in microseconds.
It is also the shortest client there is of src/redis/script/README.md: `blob` makes a request,
`encode` a term.
"""

import re
import struct
import zlib
from math import ceil

from scripts_oracle import FixedWindow, Pacer, SmoothWarmup, Store, oracle, place

TAKE, PEEK, REFUND, CANCEL, PAY, CHARGE, RESERVE, SETTLE = 1, 2, 3, 4, 5, 6, 7, 8
COUNTS, SHADOW = 16, 32
FOREVER = 2**63 - 1
REASONS = ("OK", "LIMITED", "TOO_BIG", "QUEUE_FULL", None, None, None, None, "FULL")
NUMBERS = {FixedWindow: 0, oracle.SlidingWindow: 1, oracle.SlidingCounter: 2, oracle.SlidingLog: 3,
           oracle.TokenBucket: 4, oracle.LeakyBucket: 5, Pacer: 6, oracle.SmoothBursty: 7,
           SmoothWarmup: 8, oracle.MinInterval: 9}
FAMILY = (2, 2, 2, 4, 1, 1, 1, 1, 8, 1, 16, 2, 2)  # the bit of the part that decides an algorithm


def blob(verb, now, terms, act=0):
    """A request: (kind, cost, patience, parameters) of each term."""
    out = struct.pack("<3q", 256 + verb, now, act)
    for kind, cost, patience, parameters in terms:
        numbers = [kind, cost, patience, *parameters]
        out += struct.pack("<10q", *numbers, *[0] * (10 - len(numbers)))
    return out


def mask_of(terms):
    mask = 0
    for term in terms:
        mask |= FAMILY[term[0] % 16]
    return mask


def due(t, zero):
    us = ceil(zero.D)
    return [t.T.numerator, t.T.denominator, t.limit, us, int((us - zero.D) * t.T.denominator)]


def calendar(t, now):
    start, end = t.edges(now)
    return [start, end, t.edges(end)[1]]


def encode(t, zero, now):
    """The kind and the parameters of a term. `zero` is the state that no key stands for, `now` the
    client's own time, for calendars only."""
    number = NUMBERS.get(type(t))
    if isinstance(t, oracle.Constant):
        number, values = 11 if t.count else 12, [t.period, t.count]
    elif isinstance(t, FixedWindow):
        period = t.period or 31 * oracle.CALENDAR["day"]
        align = 0 if not t.clock else 2 if t.calendar else 1
        edges = calendar(t, now) if t.calendar else [-t.standard % period, 0, 0]
        windows = zlib.crc32(f"{t.calendar} {t.zone} {t.anchor}".encode())
        values = [period, t.count, align, *edges, windows]
    elif isinstance(t, oracle.SlidingWindow):
        values = [t.len, t.count, t.slots, -1 if t.per_slot is None else t.per_slot]
    elif isinstance(t, oracle.SlidingCounter):
        values = [t.period, t.count]
    elif isinstance(t, oracle.SlidingLog):
        values = [t.period, t.count, t.min_interval]
    elif isinstance(t, SmoothWarmup):
        values = [t.T.numerator, t.T.denominator, t.limit, t.W, t.cold.numerator,
                  t.cold.denominator]
    elif isinstance(t, oracle.LeakyBucket):
        values = due(t, zero) + [-1 if t.delay is None else t.delay]
    elif isinstance(t, Pacer):
        values = due(t, zero) + [t.queue, min(t.max_wait, FOREVER)]
    elif isinstance(t, oracle.SmoothBursty):
        values = due(t, zero) + [t.max_burst]
    else:
        values = due(t, zero)
    return number + COUNTS * t.count_denied + SHADOW * t.shadow, values


class World:
    """One limit and its keys in Redis, line by line."""

    def __init__(self, redis, start, scope="w", skew=0):
        self.redis, self.start, self.now, self.scope, self.skew = redis, start, start, scope, skew
        # what a client knows of its limits: the versions, and what zero stands for
        self.limits = Store(start)
        self.terms, self.before, self.zeros = [], [], []
        self.names, self.keys = {}, {}
        self.estimates = {}  # by name: the key, and the id in Redis
        self.resets = 0  # of any key: each voids the reservations made before it
        self.reply = None

    def define(self, text):
        self.before = self.terms
        self.limits.now = self.now
        self.limits.define(text)
        self.terms, _, self.zeros = self.limits.versions[-1]

    def names_of(self, key):
        places = [place(i, t) for i, t in enumerate(self.terms)]
        self.keys.setdefault(key, set()).update(places)
        return [f"{self.scope}:{{{key}}}:{at}" for at in places]

    def ask(self, verb, key, asked, act=0, step=()):
        """asked: (cost, patience) of each term, patience None being the limit's own. step: in the
        account of the key."""
        terms = []
        for t, zero, (cost, patience) in zip(self.terms, self.zeros, asked):
            kind, values = encode(t, zero, max(0, self.now + self.skew))
            patience = t.default_patience if patience is None else patience
            terms.append((kind, cost, min(patience, FOREVER), values))
        self.reply = self.redis.script(mask_of(terms), self.names_of(key),
                                       blob(verb, self.now, terms, act), *step)
        return self.reply

    def forget(self, fresh=False):
        """Deletes all keys of this world, or those of terms that the last change started afresh."""
        went_on = [t.lineage for t in self.terms] if fresh else []
        kept = [place(i, t) for i, t in enumerate(self.before) if fresh and t.lineage in went_on]
        names = [f"{self.scope}:{{{key}}}:{at}" for key, places in self.keys.items()
                 for at in places if at not in kept]
        if went_on != [t.lineage for t in self.before] or not fresh:
            names += [f"{self.scope}:{{{key}}}:r" for key in self.keys]
        if names:
            self.redis.call("DEL", *names)

    def line(self, text):
        words = re.sub(r"(^|\s)#.*", "", text).split()
        if words[0] != "limit":
            self.now = self.start + oracle.parse_duration(words.pop(0))
        verb, rest = words[0], words[1:]
        time = str(self.now - self.start)
        if verb == "limit":
            self.define(" ".join(rest))
            return (time, verb) + ("-",) * 10
        if verb == "reset":
            self.names_of(rest[0])
            self.redis.call("DEL", *(f"{self.scope}:{{{rest[0]}}}:{at}"
                                     for at in ("r", *self.keys[rest[0]])))
            self.resets += 1
            return (time, verb) + ("-",) * 10
        if verb in ("commit", "cancel") and rest[0] in self.estimates:
            key, cost = self.settle(rest[0], int(rest[1]) if verb == "commit" else None)
        else:
            key, cost = self.cancel(rest[0]) if verb == "cancel" else self.event(verb, rest)
        allowed, reason, _, limit, remaining, wait, retry, reset = self.reply[:8]
        return (time, verb, key, str(cost), "allow" if allowed else "deny", REASONS[reason],
                str(limit), str(remaining),
                str(wait) if allowed else "-", "-" if allowed else str(retry), str(reset), "-")

    def event(self, verb, rest):
        key, rest = rest[0], rest[1:]
        cost = int(rest.pop(0)) if rest and "=" not in rest[0] else 1
        options = dict(o.split("=", 1) for o in rest)
        if verb == "charge":
            self.ask(CHARGE, key, [(cost, 0)] * len(self.terms))
            return key, cost
        if verb == "refund":
            return key, self.ask(REFUND, key, [(cost, 0)] * len(self.terms))[9]
        patience = options.get("wait")
        if patience is not None:
            patience = FOREVER if patience == "forever" else oracle.parse_duration(patience)
        if verb == "reserve":
            return key, self.reserve(key, cost, patience, options)
        reply = self.ask(TAKE if verb == "take" else PEEK, key,
                         [(cost, patience)] * len(self.terms))
        if "as" in options:
            acts = reply[9:] if reply[0] else []
            self.names[options["as"]] = (key, cost, self.now + reply[5], acts,
                                         [t.lineage for t in self.terms], self.resets)
        return key, cost

    def reserve(self, key, cost, patience, options):
        ident = zlib.crc32(options["as"].encode()) + 1
        step = struct.pack("<4q", ident, oracle.parse_duration(options["ttl"]),
                           options.get("lapse") == "free", 100)
        self.ask(RESERVE, key, [(cost, patience)] * len(self.terms), step=(step,))
        self.estimates[options["as"]] = key, ident if self.reply[0] else 0
        return cost

    def settle(self, name, cost):
        """As this cost; None: it is cancelled. One that is not there changes nothing."""
        key, ident = self.estimates[name]
        back = self.ask(SETTLE, key, [(cost or 0, 0)] * len(self.terms),
                        step=(struct.pack("<q", ident),))[9]
        return key, max(0, back) if cost is None or back < 0 else cost

    def cancel(self, name):
        """As the client does it: what is no longer the term or the key that granted it is not
        asked."""
        key, cost, act, acts, lineages, resets = self.names[name]
        self.names[name] = (key, cost, act, [], lineages, resets)
        asked = []
        for i, t in enumerate(self.terms):
            good = i < len(acts) and lineages[i] == t.lineage and resets == self.resets
            asked.append((cost if good else 0, acts[i] if good else -1))
        return key, self.ask(CANCEL, key, asked, act)[9]
