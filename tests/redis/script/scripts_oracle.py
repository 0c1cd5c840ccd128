"""The oracle of tests/oracle in microseconds, and as a store of Redis has it.

tests/oracle/oracle.py computes every answer in exact fractions of its unit of time, the nanosecond.
Here its unit is the microsecond, which is all that Redis's clock has: the same classes, a private
copy of the module, other constants. What is told otherwise, and why:

(1) The end of time is 2^53 us, and the area of smooth-warmup is still rounded to nanoseconds.
(2) A live change happens when a key is touched by other numbers, not when the limit was changed: no
    client tells Redis. (What no key stands for comes with the request, and the client converts it
    when the limit changes.)
(3) A second due time is exact, and of every bucket.
(4) A state that is as good as new once it was changed is gone, and does not come back if the clock
    steps back.
"""

import importlib.util
import os
import re
from fractions import Fraction
from math import ceil

HERE = os.path.dirname(os.path.abspath(__file__))


def load_copy(name, **globals_of):
    """A copy of a module of tests/oracle of one's own."""
    path = os.path.join(HERE, "..", "..", "oracle", name + ".py")
    spec = importlib.util.spec_from_file_location("scripts_" + name, path)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(globals_of)
    spec.loader.exec_module(module)
    return module


oracle = load_copy("oracle")
S = 10**6
oracle.UNITS = {"ns": Fraction(1, 1000), "us": 1, "ms": 1000, "s": S, "m": 60 * S, "min": 60 * S,
                "h": 3600 * S, "d": 86400 * S}


def parse_duration(text):
    """In microseconds; a fraction of one only where the text has nanoseconds (the period of a rate
    may)."""
    total = sum(Fraction(number) * oracle.UNITS[unit]
                for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ns|us|ms|min|s|m|h|d)", text))
    return int(total) if total == int(total) else total


oracle.parse_duration = parse_duration
oracle.CALENDAR = {"day": 86400 * S, "week": 7 * 86400 * S, "month": None}
oracle.DEFAULT_START //= 1000
oracle.TOP = 2**53
oracle.LONGEST = 2**62 // 1000
oracle.FORGIVEN = 1 << 60       # there is room for both due times, and all digits
oracle.cut = lambda x: x
oracle.STALE = 10 * S
TOP = oracle.TOP


class FixedWindow(oracle.FixedWindow):
    def options(self, o):
        super().options(o)
        self.standard //= 1000

    def edges(self, t):
        if self.calendar:
            return tuple(edge // 1000 for edge in super().edges(t * 1000))
        return super().edges(t)


class SmoothWarmup(oracle.SmoothWarmup):
    def area(self, stored):
        x = ceil(max(0, stored - self.threshold) * self.W * 1000 / self.max)
        steep = (self.cold - 1) * (5 + self.cold)**2 / (16000 * self.W * (1 + self.cold))
        return Fraction(ceil(x**2 * steep), 1000)

    def convert(self, s, old, at, old_zero):
        if s == old_zero:
            return self.zero(at)
        s = old.at(s, at)
        gain = 1000 * self.T.denominator * (5 * self.cold.denominator + self.cold.numerator)
        stored = ceil(s.stored * self.W / old.max * gain) * self.max / self.W / gain
        grid = 1000 * self.T.denominator
        return oracle.Warm(min(self.max, stored), Fraction(ceil(s.next * grid), grid))


class Pacer(oracle.Pacer):
    """The queue's word on a reservation that would reach the end of time: it may be possible later,
    so it is not too big (src/algo/pacer.c)."""

    def judge(self, s, now, cost, patience):
        alone = self.patience(Fraction(0), now, cost, patience)
        _, too_long, too_many = self.tests(now, now, cost, alone)
        if too_long > 0 or too_many > 0:
            return oracle.refuse("TOO_BIG", -1)
        wait, too_long, too_many = self.tests(s.D, now, cost,
                                              self.patience(s.D, now, cost, patience))
        if too_long > 0:
            return oracle.refuse("LIMITED", max(too_long, too_many))
        if too_many > 0:
            return oracle.refuse("QUEUE_FULL", too_many)
        return oracle.grant(wait)


def on_grid(self, D):
    if D > TOP:
        raise OverflowError("a due time after the last time there is")
    return Fraction(ceil(D * self.T.denominator), self.T.denominator)


oracle.Bucket.on_grid = on_grid
oracle.ALGORITHMS.update({"fixed-window": FixedWindow, "smooth-warmup": SmoothWarmup,
                          "pacer": Pacer})


def writer(t):
    """What a state says of the term that wrote it."""
    if isinstance(t, oracle.SmoothBursty):
        return t.T, t.max_burst
    if isinstance(t, oracle.LeakyBucket):
        return t.T, t.limit, t.delay
    if isinstance(t, oracle.Pacer):
        return t.T, t.limit, t.most()
    if isinstance(t, oracle.Bucket):
        return t.T, t.limit
    if isinstance(t, FixedWindow):
        return t.period, t.clock and (str(t.zone), t.calendar, t.anchor)
    if isinstance(t, oracle.SlidingWindow):
        return t.len
    if isinstance(t, oracle.SlidingCounter):
        return t.period
    if isinstance(t, oracle.SlidingLog):
        return t.period, t.min_interval
    return t.T, t.W, t.cold


BEGINNING = oracle.Due(Fraction(0), False)


class Store(oracle.Sim):
    """Keys as Redis keeps them: by key and position, the term that wrote it and the state."""

    def touch(self, key):
        terms, _, zeros = self.versions[-1]
        states = list(zeros)
        kept = self.keys.setdefault(key, {})
        for i, t in enumerate(terms):
            by, state = kept.get(i, (None, None))
            if type(by) is not type(t) or not t.carries(by):
                continue
            states[i] = t.forget(state, zeros[i])
            if writer(by) != writer(t):
                states[i] = t.forget(t.convert(state, by, self.now, BEGINNING), zeros[i])
                self.write(kept, i, t, zeros[i], states[i])
            noted = t.step_back(states[i], self.now, zeros[i])
            if noted != states[i]:
                states[i] = noted
                self.write(kept, i, t, zeros[i], noted)
        self.touched = states
        return terms, zeros, states

    def write(self, kept, i, t, zero, state):
        if t.reset_after(state, self.now, zero) > 0:
            kept[i] = t, state
        else:
            kept.pop(i, None)

    def keep(self, key, states):
        terms, _, zeros = self.versions[-1]
        for i, (t, state) in enumerate(zip(terms, states)):
            if state != self.touched[i]:
                self.write(self.keys[key], i, t, zeros[i], state)

    def forget_strangers(self):
        """Drops the states that the newest terms cannot carry on."""
        lineages = {t.lineage for t in self.versions[-1][0]}
        for kept in self.keys.values():
            for i in [i for i, (by, _) in kept.items() if by.lineage not in lineages]:
                del kept[i]
