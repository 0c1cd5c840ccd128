"""The oracle of tests/oracle in microseconds, and as a store of Redis has it.

tests/oracle/oracle.py computes every answer in exact fractions of its unit of time, the nanosecond.
Here its unit is the microsecond, which is all that Redis's clock has: the same classes, a private
copy of the module, other constants. What is told otherwise, and why:

(1) The end of time is 2^53 us, and the area of smooth-warmup is still rounded to nanoseconds.
(2) A live change happens when a key is touched by other numbers, not when the limit was changed: no
    client tells Redis. (What no key stands for comes with the request, and the client converts it
    when the limit changes.)
(3) A second due time is exact, and of every bucket.
(4) A state that is as good as new once a call has changed it is gone, and does not come back if the
    clock steps back. A call is one script: what has lapsed is given back, the call is decided, and
    then the state is written, once. So is an account all of which has lapsed.
(5) A state is kept under the place and form of its term, and found again if those come back; so is
    an account (tests/oracle/account.py).
(6) For estimates, a live change is one of numbers, when a request that looks into the account finds
    others than the last one did.
(7) What has lapsed is given back before a take is cancelled, as before every other call.
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


def reserved_by(t):
    """What an account says of a term: with other numbers nothing is given back."""
    if isinstance(t, oracle.LeakyBucket):
        return t.T, t.limit, t.delay
    if isinstance(t, (oracle.Bucket, SmoothWarmup)):
        return t.T, t.limit
    if isinstance(t, FixedWindow):
        return t.period, t.count, t.clock, t.calendar is None
    if isinstance(t, oracle.SlidingWindow):
        return t.len, t.count, t.slots
    if isinstance(t, oracle.SlidingLog):
        return t.period, t.count, t.min_interval
    return t.period, t.count


def place(i, t):
    """What a client names the key of term i by: its index, and what no state is carried over."""
    shape = {oracle.SlidingWindow: ("slots", "most"), oracle.SlidingLog: ("count",),
             oracle.Constant: ("count",)}.get(type(t), ())
    return "-".join(map(str, (i, type(t).__name__, *(getattr(t, word) for word in shape))))


BEGINNING = oracle.Due(Fraction(0), False)


class Store(oracle.Sim):
    """Keys as Redis keeps them: by key and place, the term that wrote it and the state."""

    held = None     # of the key of this line: the states, and the indexes of those to be written

    def line(self, text):
        self.held = None
        fields = super().line(text)
        if self.held:
            key, states, changed = self.held
            terms, _, zeros = self.versions[-1]
            for i in changed:
                self.write(self.keys[key], place(i, terms[i]), terms[i], zeros[i], states[i])
        return fields

    def write(self, kept, at, t, zero, state):
        if t.reset_after(state, self.now, zero) > 0:
            kept[at] = t, state
        else:
            kept.pop(at, None)

    def touch(self, key):
        terms, _, zeros = self.versions[-1]
        if self.held:
            return terms, zeros, list(self.held[1])
        states, changed = list(zeros), set()
        kept = self.keys.setdefault(key, {})
        for i, t in enumerate(terms):
            by, state = kept.get(place(i, t), (None, None))
            if by is None:
                continue
            states[i] = t.forget(state, zeros[i])
            if writer(by) != writer(t):
                states[i] = t.forget(t.convert(state, by, self.now, BEGINNING), zeros[i])
                changed.add(i)
            noted = t.step_back(states[i], self.now, zeros[i])
            if noted != states[i]:
                states[i] = noted
                changed.add(i)
        self.held = key, states, changed
        if self.looks_into(key, terms):
            self.account(key, terms)
        return terms, zeros, list(states)

    def keep(self, key, states):
        _, before, changed = self.held
        changed.update(i for i, state in enumerate(states) if state != before[i])
        self.held = key, states, changed

    def places(self, terms):
        return [place(i, t) for i, t in enumerate(terms)]

    def numbers(self, terms):
        return [reserved_by(t) for t in terms]

    def looks_into(self, key, terms):
        """Whether every request for the key looks into its account: not if that is of other
        terms."""
        a = self.accounts.get(key)
        return (a is not None and a.places == self.places(terms)
                and any(slot.is_free for slot in a.slots.values()))

    def lapse(self, key):
        if self.looks_into(key, self.versions[-1][0]):
            super().lapse(key)

    def commit(self, name, cost):
        key, terms = self.reserved[name][0], self.versions[-1][0]
        a = self.accounts.get(key)
        notes = a and a.places == self.places(terms) and a.numbers != self.numbers(terms)
        done = super().commit(name, cost)
        if notes and all(slot.lapse <= self.now for slot in a.slots.values()):
            self.accounts.pop(key, None)
        return done

    def cancel(self, name):
        self.lapse(self.names[name].key)
        return super().cancel(name)

    def forget_strangers(self):
        """Drops the states that the newest terms cannot carry on."""
        lineages = {t.lineage for t in self.versions[-1][0]}
        for kept in self.keys.values():
            for i in [i for i, (by, _) in kept.items() if by.lineage not in lineages]:
                del kept[i]
