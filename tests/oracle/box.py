"""block= of the oracle: a term in a penalty box, from docs/reference/limits.md (block).

A box is a term around a term. It knows nothing of the C's layout: the times until which the key is
blocked, until which the length of the last block is remembered, and until which refusals are
counted; how many refusals, and how many blocks.
"""

from collections import namedtuple

from oracle import NEVER, OK, parse_duration, refuse

MONTH = 31 * 86400 * 10**9
Box = namedtuple("Box", "inner until forget window refusals blocks")


class Boxed:
    def __init__(self, inner, opts):
        self.inner = inner
        least, _, most = opts["block"].partition("..")
        self.least = parse_duration(least)
        self.most = parse_duration(most or least)
        self.after = int(opts["after"])
        self.shadow, self.count_denied = inner.shadow, inner.count_denied
        self.limit, self.default_patience = inner.limit, inner.default_patience
        self.period = inner.period or MONTH
        self.lineage = None

    def __getattr__(self, name):
        """What a script's author wants to know of a term: its count, its T."""
        if name in ("inner", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def same(self, other):
        return (type(other) is Boxed and self.inner.same(other.inner) and
                (self.least, self.most, self.after) == (other.least, other.most, other.after))

    def carries(self, old):
        return type(self.inner) is type(old.inner) and self.inner.carries(old.inner)

    def zero(self, created):
        return Box(self.inner.zero(created), 0, 0, 0, 0, 0)

    # What a request does

    def tidy(self, s, now):
        """Without what is over."""
        if s.until <= now:
            s = s._replace(until=0)
        if s.forget <= now:
            s = s._replace(forget=0, blocks=0)
        if s.window <= now:
            s = s._replace(window=0, refusals=0)
        return s

    def refused(self, s, now):
        """The state after a refusal."""
        if s.until > now:
            return s
        s = self.tidy(s, now)
        if s.refusals == 0:
            s = s._replace(window=now + self.period)
        if s.refusals + 1 < self.after:
            return s._replace(refusals=s.refusals + 1)
        until = now + min(self.most, self.least * 2**s.blocks)
        return Box(s.inner, until, max(s.forget, until + self.most), 0, 0, s.blocks + 1)

    def decide(self, s, now, cost, patience):
        if s.until <= now:
            answer = self.inner.decide(s.inner, now, cost, patience)
            if answer[0] == OK:
                return answer
            s = self.refused(s, now)
            if s.until <= now:
                return answer
        reason, _, retry = self.inner.decide(s.inner, s.until, cost, patience)
        if retry == NEVER:
            return refuse(reason, NEVER)
        return refuse("BLOCKED", s.until - now + (0 if reason == OK else retry))

    def charge(self, s, now, cost):
        s = self.tidy(s, now)
        return s._replace(inner=self.inner.charge(s.inner, now, cost))

    def owe(self, s, now, cost):
        return s._replace(inner=self.inner.owe(s.inner, now, cost))

    def remaining(self, s, now):
        return 0 if s.until > now else self.inner.remaining(s.inner, now)

    def reset_after(self, s, now, zero):
        return max(self.inner.reset_after(s.inner, now, zero.inner),
                   max(s.until, s.forget, s.window) - now)

    # What is given back, carried over and forgotten is the inner term's

    def refund(self, s, now, n, zero):
        inner, back = self.inner.refund(s.inner, now, n, zero.inner)
        return s._replace(inner=inner), back

    def cancel(self, s, now, cost, act, zero):
        inner, back = self.inner.cancel(s.inner, now, cost, act, zero.inner)
        return s._replace(inner=inner), back

    def convert(self, s, old, at, old_zero):
        return s._replace(inner=self.inner.convert(s.inner, old.inner, at, old_zero.inner))

    def forget(self, s, zero):
        return s._replace(inner=self.inner.forget(s.inner, zero.inner))

    def step_back(self, s, now, zero):
        return s._replace(inner=self.inner.step_back(s.inner, now, zero.inner))
