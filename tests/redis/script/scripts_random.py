"""Random scripts, by the generator of tests/oracle/compare.py, on whole microseconds.

compare.Script makes a script while an oracle runs it, so that its times fall on the answers given
so far. It counts in nanoseconds. Here it gets an oracle that counts in microseconds and says so in
nanoseconds, and every duration it writes is cut to whole microseconds.
"""

import re
from types import SimpleNamespace

from scripts_oracle import Store, load_copy, oracle

compare = load_copy("compare", __name__="scripts_compare")
EXACT_RATES = [*compare.BUCKETS, "smooth-warmup"]


def whole(line):
    """The line with its nanoseconds cut to microseconds."""
    return re.sub(r"(\d+)ns", lambda m: f"{int(m[1]) // 1000}us", line)


def whole_but_rates(line):
    """The same, but the period of a bucket keeps its nanoseconds: a rate is exact whatever it
    is."""
    head, word, limit = line.partition("limit ")
    if not word:
        return whole(line)
    terms = [re.sub(r"=\S+", lambda m: whole(m[0]), term) if term.split()[0] in EXACT_RATES
             else whole(term)
             for term in limit.split(" + ")]
    return whole(head) + word + " + ".join(terms)


class Limits(compare.Limits):
    def sliding_window(self, term, o):
        """Slots of whole microseconds."""
        term[2] = max(10**4, term[2] - term[2] % 10**4)
        super().sliding_window(term, o)
        if term[2] // 1000 % int(o.get("slots", 10)):
            o["slots"] = "10" if term[2] % 10**4 == 0 else "1"


class InNanoseconds:
    """The store's oracle as compare.Script wants to see it."""

    def __init__(self, start):
        self.store, self.rows = Store(start // 1000), []
        self.start = start

    now = property(lambda self: self.store.now * 1000)

    @property
    def versions(self):
        terms = [SimpleNamespace(count=t.count, limit=t.limit, period=t.period and t.period * 1000,
                                 **({"len": t.len * 1000} if hasattr(t, "len") else {}))
                 for t in self.store.versions[-1][0]]
        return [None] * (len(self.store.versions) - 1) + [(terms,)]

    @property
    def names(self):
        return {name: SimpleNamespace(act=r.act * 1000) for name, r in self.store.names.items()}

    def line(self, text):
        fields = self.store.line(text)
        self.rows.append(fields)
        return (fields[:8]
                + tuple(f + "000" if f not in ("-", "-1", "0") else f for f in fields[8:11])
                + fields[11:])


class Script(compare.Script):
    """lines, and what the oracle answers to each: rows, in microseconds."""

    def __init__(self, seed):
        self.seed = seed
        super().__init__(seed)

    cut = staticmethod(whole)
    charges = property(lambda self: self.seed % 2 == 1, lambda self, value: None)

    def put(self, line):
        super().put(self.cut(line))

    rows = property(lambda self: self.sim.rows)
    start_us = property(lambda self: self.sim.store.start)


class SteadyScript(Script):
    """One that any store must answer alike: no live change, a clock that does not step back, and no
    charge, which may end 2^62 ns ahead: that is no whole microsecond."""

    cut = staticmethod(whole_but_rates)
    charges = property(lambda self: False, lambda self, value: None)
    changes = property(lambda self: 0, lambda self, value: None)
    back = property(lambda self: 0, lambda self, value: None)

    def at(self):
        before = self.now
        text = super().at()
        if self.now >= before:
            return text
        self.now = before
        return compare.duration(before) if before else "0"

    def cancel(self, name):
        """Not in the very microsecond in which it acts: the nanosecond may be past."""
        act = self.sim.names[name].act - self.sim.start
        self.put(f"{self.at() if self.now == act else compare.duration(self.now)} cancel {name}")


compare.oracle = SimpleNamespace(Sim=InNanoseconds, DEFAULT_START=oracle.DEFAULT_START * 1000)
compare.Limits = Limits
compare.END = 2**52 * 1000
