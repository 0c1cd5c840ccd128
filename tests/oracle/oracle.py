"""A second implementation of the limits, in exact fractions.

The idea: limits.md says what every algorithm decides, precisely enough to write it twice. This is
the second implementation, for comparison: written from the page alone, with fractions and plain
lists where the library has 128-bit integers and sixteen bytes, and with nothing clever. Read it
beside limits.md, section by section.

A term (one limit of a compound) is an object that never changes; a key's state is a value that is
never modified in place, so that a peek is a take whose new state is dropped. Every algorithm has:

    zero(created)                          the state of a fresh key
    decide(s, now, cost, patience)      (reason, wait, retry)
    charge(s, now, cost)                the state after a grant
    deny(s, now, cost)                  the state after a refusal under count-denied
    owe(s, now, cost)                   the state after a charge, which asks nothing
    remaining(s, now)
    reset_after(s, now, zero)
    refund(s, now, n, zero)             (state, returned)
    cancel(s, now, cost, act, zero)     (state, returned)
    convert(s, old, at, old_zero)       the state that a term `old` wrote, after the change at `at`

Where the page leaves room, the oracle reads it so:
(1) A live change pairs terms by position. A term that starts fresh is created at the change; a
    bucket that is created full has D = 0.
(2) D, and a warmup's `stored` and `next`, are rounded up to their grid by a live change.
(3) A refund or a cancel returns the most that one of the terms got back.
(4) A reservation acts, in each term, when that term said so.
(5) In a refused request, a count-denied term that would have granted at once is charged; otherwise
    it counts as refused.
(6) The store forgets a key whose state is the zero state; a bucket then forgets, too, whether its
    reservations are known.
"""

import bisect
import re
from collections import namedtuple
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from math import ceil, floor
from zoneinfo import ZoneInfo

from account import Accounts

FOREVER = 1 << 200
DEFAULT_START = 1704067200 * 10**9          # 2024-01-01T00:00:00Z
KEPT_VERSIONS = 8
LONGEST = 1 << 62                           # the longest time that a bucket may take to drain
TOP = (1 << 63) - 1                         # the last time there is
MOST = (1 << 40) - 1                        # where the counters of windows stop
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9,
         "h": 3600 * 10**9, "d": 86400 * 10**9}
CALENDAR = {"day": 24 * UNITS["h"], "week": 168 * UNITS["h"], "month": None}

OK, LIMITED, TOO_BIG, QUEUE_FULL = "OK", "LIMITED", "TOO_BIG", "QUEUE_FULL"
NEVER = -1


def grant(wait=0):
    return (OK, wait, None)


def refuse(reason, retry):
    return (reason, None, retry)


# ---------------------------------------------------------------- texts

def parse_duration(text):
    if text == "0":
        return 0
    total, end = Fraction(0), 0
    for m in re.finditer(r"(\d+(?:\.\d+)?)(ns|us|ms|min|s|m|h|d)", text):
        assert m.start() == end, text
        total, end = total + Fraction(m[1]) * UNITS[m[2]], m.end()
    assert end == len(text) > 0 and total.denominator == 1, text
    return int(total)


def parse_count(text):
    scale = {"k": 1000, "M": 10**6}.get(text[-1], 1)
    value = Fraction(text.rstrip("kM")) * scale
    assert value.denominator == 1, text
    return int(value)


def parse_anchor(text, calendar):
    """The time from the first midnight of a day, week or month to its anchor."""
    day, _, clock = text.rpartition("-") if ":" in text else (text, "", "0:0")
    hours, minutes = map(int, clock.split(":"))
    names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    days = 0 if not day else int(day) - 1 if calendar == "month" else names.index(day[:3])
    return timedelta(days=days, hours=hours, minutes=minutes)


def parse_term(text):
    opts = dict(word.partition("=")[::2] for word in text.split())
    term = parse_inner(text)
    if "block" in opts:
        from box import Boxed               # it is written in terms of this file
        term = Boxed(term, opts)
    term.warn = parse_share(opts["warn"]) if "warn" in opts else None
    return term


def parse_share(text):
    return Fraction(text.removesuffix("%")) / 100


def parse_inner(text):
    words = text.split()
    if words[0] == "min-interval":
        return MinInterval(1, words[1], words[2:])
    if words[0] == "unlimited":
        return Constant(10**12, "1s", words[1:])
    if words[0].split("/")[0] == "0":
        return Constant(0, "1s", words[1:])
    if "/" in words[0]:
        words.insert(0, "token-bucket")
    count, period = words[1].split("/")
    return ALGORITHMS[words[0]](parse_count(count), period, words[2:])


def parse_limit(text):
    return [parse_term(t) for t in text.split(" + ")]


class Term:
    default_patience = 0

    def __init__(self, count, period, options):
        self.count = count
        self.calendar = period if period in CALENDAR else None
        if self.calendar:
            self.period = CALENDAR[period]
        else:
            self.period = UNITS[period] if period in UNITS else parse_duration(period)
        if self.period is not None:
            self.T = Fraction(self.period, count) if count else None
        opts = dict(o.partition("=")[::2] for o in options)
        self.count_denied = "count-denied" in opts
        self.shadow = "shadow" in opts
        self.fallback = opts.get("fallback", "local")
        self.limit = count
        self.options(opts)

    def options(self, o):
        pass

    def same(self, other):
        """Whether it is the same limit, however it was written."""
        return type(self) is type(other) and \
            {**vars(self), "lineage": None} == {**vars(other), "lineage": None}

    def carries(self, old):
        """Does a state of the older version carry over to this one?"""
        return True

    def owe(self, s, now, cost):
        """Windows fill up: as a refusal that counts."""
        return self.deny(s, now, cost)

    def cancel(self, s, now, cost, act, zero):
        return s, 0

    def forget(self, s, zero):
        """A fully recovered bucket is fresh: it remembers nothing of its reservations."""
        return s

    def step_back(self, s, now, zero):
        return s

    def by_low(self, s, now):
        return False


# ---------------------------------------------------------------- buckets

# `lost`: the act time of the last reservation is no longer known, until D is found past.
# `reserved`: more was owed than M when it was charged. `low`: the clock has stepped back, and this
# is the second due time; else None.
Due = namedtuple("Due", "D lost reserved low", defaults=(False, None))
# the largest count of a bucket that has room for a second due time
FORGIVEN = 1 << 39
STALE = 10 * 10**9                          # how much later than its reading a time may be used


def cut(x):
    """Cuts x to its 34 highest binary digits."""
    shift = max(0, x.bit_length() - 34)
    return x >> shift << shift


class Bucket(Term):
    """One number, the due time D; B is the limit reported."""

    patient_behind = True       # honours patience while the clock is behind

    def zero_due(self, created):
        return Fraction(0)

    def zero(self, created):
        return Due(self.zero_due(created), False)

    def most(self):
        """M: the most that may be owed right after a charge; None if it is not known."""
        return ceil(self.limit * self.T) if self.count <= FORGIVEN else None

    def more_than_most(self, D, now):
        return self.most() is not None and ceil(D) - now > self.most()

    def step_back(self, s, now, zero):
        """Any access to a key notes that the clock has stepped back."""
        if (s.low is not None or s.lost or s.reserved or s.D <= zero.D
            or not self.more_than_most(s.D, now + STALE)):
            return s
        H = ceil(s.D)
        return Due(Fraction(H), False, False, H - cut(H - now - self.most()))

    def by_low(self, s, now):
        return s.low is not None and self.more_than_most(s.D, now)

    def read(self, s, now):
        """The due time that decides."""
        return s.low if self.by_low(s, now) else s.D

    def behind(self, H, low):
        return Due(Fraction(H), False, False, H - cut(H - ceil(low)))

    def decide(self, s, now, cost, patience):
        plain = Due(self.read(s, now), False)
        if not self.by_low(s, now):
            return self.judge(plain, now, cost, patience)
        answer = self.judge(plain, now, cost, patience if self.patient_behind else 0)
        reason, _, retry = answer
        if reason == OK or retry == NEVER:
            return answer
        caught_up = ceil(s.D) - now - self.most()
        by_D = self.judge(Due(s.D, False), now, cost, patience)
        waits_for_D = not self.patient_behind and patience > 0
        if waits_for_D and by_D[0] == OK:
            return by_D
        then = (by_D[2] or 0) if waits_for_D else max(caught_up, by_D[2] or 0)
        return refuse(reason, then if retry >= caught_up else min(retry, then))

    def patience(self, D, now, cost, patience):
        """None for a reservation that would reach the end of time."""
        return 0 if ceil(self.after(D, now, cost)) >= TOP else patience

    def after(self, D, now, cost):
        return max(D, now) + cost * self.T

    def charge(self, s, now, cost):
        if (self.by_low(s, now)
            and (self.patient_behind or self.judge(Due(s.low, False), now, cost, 0)[0] == OK)):
            return self.behind(min(TOP, ceil(s.D + cost * self.T)), self.after(s.low, now, cost))
        D = self.after(s.D, now, cost)
        return Due(D, s.lost and s.D > now, self.more_than_most(D, now))

    def owe(self, s, now, cost):
        """As a grant, however much is owed then, up to 2^62 ns ahead."""
        D = self.read(s, now)
        last = min(TOP, max(D, now + LONGEST))
        after = min(self.after(D, now, cost), last)
        after = Fraction(TOP) if ceil(after) == TOP else after
        if not self.by_low(s, now):
            return Due(after, s.lost and s.D > now, self.more_than_most(after, now))
        H = min(TOP, ceil(s.D + after - max(D, now)))
        return self.behind(H, after) if H > ceil(after) else Due(Fraction(H), True)

    def deny(self, s, now, cost):
        D = self.read(s, now)
        raised = min(self.after(D, now, cost), now + self.limit * self.T)
        if raised <= D:
            return s._replace(lost=s.lost and s.D > now)
        if self.by_low(s, now):
            return self.behind(ceil(s.D), raised)
        return Due(raised, s.lost and s.D > now, self.more_than_most(raised, now))

    def remaining(self, s, now):
        return self.room(self.read(s, now), now)

    def room(self, D, now):
        return max(0, floor(self.limit - (max(D, now) - now) / self.T))

    def reset_after(self, s, now, zero):
        if s.D <= zero.D:
            return 0
        return max(0, ceil(s.D - now))

    def waiting(self, D, now):
        """Does a reservation wait to act?"""
        return D - self.limit * self.T > now

    def refund(self, s, now, n, zero):
        s, by = self.lower(s, now, n * self.T, zero)
        return s, floor(by / self.T)

    def lower(self, s, now, by, zero):
        """Moves D back by that time at most; and by how much it did."""
        before = self.read(s, now)
        D = max(before - by, now, zero.D)
        if D >= before:
            return s, 0
        if self.by_low(s, now):
            lower = before - ceil(D)
            s = Due(s.D - lower, False, False, s.low - lower) if lower else s
        elif s.low is not None:
            s = Due(D, False)
        else:
            s = s._replace(D=D, lost=s.lost or self.waiting(s.D, now))
        return s, before - D

    def give_back(self, s, now, n, zero, lost):
        """A cancel of n events: whole ones, and no further than refund would go."""
        D = max(s.D - n * self.T, now, zero.D)
        back = floor((s.D - D) / self.T)
        return (s._replace(D=D, lost=lost), back) if back > 0 else (s, 0)

    def cancel_due(self, s, now, cost, act, zero):
        """The cancel of token-bucket and pacer."""
        if act < now or s.lost or s.low is not None:
            return s, 0
        last = s.D - self.limit * self.T
        S = max(0, ceil((last - act) / self.T), ceil((last - act + 1) / self.T) - 1)
        n = cost if S == 0 else max(0, min(cost, self.limit) - S)
        return self.give_back(s, now, n, zero, S > 0)

    def convert(self, s, old, at, old_zero):
        if s.D <= at:
            return Due(Fraction(ceil(s.D)), False)
        if s.low is not None:
            H, low = (ceil(self.carried(D, old, at)) for D in (s.D, s.low))
            return (self.behind(H, low) if self.most() is not None and H > low
                    else Due(Fraction(H), True))
        D = self.carried(s.D, old, at)
        lost = s.lost or (s.D > old_zero.D and old.waiting(s.D, at))
        return Due(D, lost, s.reserved or self.more_than_most(D, at))

    def carried(self, D, old, at):
        return D if D <= at else self.on_grid(at + (D - at) * self.T / old.T)

    def forget(self, s, zero):
        return zero if s.D <= zero.D else s

    def on_grid(self, D):
        """D is a whole number of nanoseconds and a remainder in 1/count: rounded up to that."""
        if D > TOP:
            raise OverflowError("a due time after the last time there is")
        return Fraction(ceil(D * self.count), self.count)


class TokenBucket(Bucket):
    def options(self, o):
        self.limit = self.burst = parse_count(o.get("burst", str(self.count)))
        initial = o.get("initial", "full")
        self.initial = {"full": None, "empty": 0}.get(initial) if initial in ("full", "empty") \
            else parse_count(initial)

    def zero_due(self, created):
        if self.initial in (None, self.burst):
            return Fraction(0)
        return created + (self.burst - self.initial) * self.T

    patient_behind = False

    def judge(self, s, now, cost, patience):
        if cost > self.burst:
            return refuse(TOO_BIG, NEVER)
        patience = self.patience(s.D, now, cost, patience)
        wait = max(0, ceil(self.after(s.D, now, cost) - self.burst * self.T - now))
        if wait > patience:
            return refuse(LIMITED, wait - patience)
        return grant(wait)

    cancel = Bucket.cancel_due


class LeakyBucket(Bucket):
    def options(self, o):
        self.limit = self.capacity = parse_count(o.get("capacity", str(self.count)))
        delay = o.get("delay", "none")
        self.delay = None if delay == "none" else parse_count(delay)
        if self.delay is not None:
            self.default_patience = FOREVER

    def wait(self, D, now):
        if self.delay is None:
            return 0
        return max(0, ceil(D - self.delay * self.T - now))

    def judge(self, s, now, cost, patience):
        if cost > self.capacity:
            return refuse(TOO_BIG, NEVER)
        patience = self.patience(s.D, now, cost, patience)
        over = self.after(s.D, now, cost) - (now + self.capacity * self.T)
        wait = self.wait(s.D, now)
        if over > 0 or wait > patience:
            return refuse(LIMITED, max(ceil(over), wait - patience))
        return grant(wait)

    def room(self, D, now):
        if self.delay is not None and D > now + self.delay * self.T:
            return 0
        return super().room(D, now)

    def waiting(self, D, now):
        return self.delay is not None and D - self.delay * self.T > now

    def cancel(self, s, now, cost, act, zero):
        if self.delay is None or act < now or s.lost or s.low is not None or cost > self.capacity:
            return s, 0
        own = s.D - cost * self.T - self.delay * self.T
        if act > now and (ceil(own) != act or ceil(own - self.T) >= act):
            return s, 0
        if act == now and self.waiting(s.D - self.T, now):
            return s, 0
        return self.give_back(s, now, cost, zero, False)


class Pacer(Bucket):
    default_patience = FOREVER

    def options(self, o):
        self.slack = parse_count(o.get("slack", "0"))
        self.queue = parse_count(o.get("queue", "1000"))
        longest = o.get("max-wait", "forever")
        self.max_wait = FOREVER if longest == "forever" else parse_duration(longest)
        self.limit = 1 + self.slack

    def zero_due(self, created):
        return created + self.slack * self.T if self.slack else Fraction(0)

    def tests(self, D, now, cost, patience):
        """How far each of the two tests is passed: the wait, the queue."""
        patience = self.patience(D, now, cost, patience)
        after = self.after(D, now, cost)
        wait = max(0, min(TOP, ceil(after - (1 + self.slack) * self.T)) - now)
        over = min(TOP, ceil(after - ((1 + self.slack) * self.T
                                      + min(self.queue * self.T, LONGEST)))) - now
        return wait, wait - min(patience, self.max_wait), over

    def most(self):
        if self.count > FORGIVEN:
            return None
        return min(ceil((1 + self.slack + self.queue) * self.T), LONGEST,
                   ceil(self.limit * self.T) + self.max_wait)

    def judge(self, s, now, cost, patience):
        _, too_long, too_many = self.tests(now, now, cost, patience)
        if too_long > 0 or too_many > 0:
            return refuse(TOO_BIG, NEVER)
        wait, too_long, too_many = self.tests(s.D, now, cost, patience)
        if too_long > 0:
            return refuse(LIMITED, max(too_long, too_many))
        if too_many > 0:
            return refuse(QUEUE_FULL, too_many)
        return grant(wait)

    cancel = Bucket.cancel_due


class SmoothBursty(Bucket):
    default_patience = FOREVER

    def options(self, o):
        self.max_burst = parse_duration(o.get("max-burst", "1s"))
        self.limit = max(1, floor(self.max_burst / self.T))

    def zero_due(self, created):
        return Fraction(created + self.max_burst)

    def most(self):
        return None

    def judge(self, s, now, cost, patience):
        if self.after(s.D, now, cost) >= TOP:
            return refuse(TOO_BIG, NEVER)
        wait = max(0, ceil(s.D - self.max_burst - now))
        if wait > patience:
            return refuse(LIMITED, wait - patience)
        return grant(wait)

    def deny(self, s, now, cost):
        if self.after(s.D, now, cost) >= TOP:
            return s
        return Due(max(s.D, now + self.max_burst + cost * self.T), s.lost)

    def room(self, D, now):
        return self.limit if D - self.max_burst <= now else 0

    def convert(self, s, old, at, old_zero):
        if s.D - old.max_burst > at:
            D = s.D - old.max_burst + self.max_burst
        elif old.max_burst == 0:
            D = at + self.max_burst             # nothing was stored, so nothing is
        else:
            D = at + max(0, s.D - at) * Fraction(self.max_burst, old.max_burst)
        return Due(self.on_grid(D), s.lost)


class MinInterval(Bucket):
    def waiting(self, D, now):
        return False

    def room(self, D, now):
        return 1 if D <= now else 0

    def judge(self, s, now, cost, patience):
        if cost > 1:
            return refuse(TOO_BIG, NEVER)
        if s.D > now:
            return refuse(LIMITED, ceil(s.D - now))
        return grant()


# ---------------------------------------------------------------- unlimited, 0/s

class Constant(Term):
    """Counts nothing: all passes, or nothing does. It has no state."""

    def zero(self, created):
        return None

    def decide(self, s, now, cost, patience):
        return grant() if self.count else refuse(TOO_BIG, NEVER)

    def charge(self, s, now, cost):
        return s

    deny = charge

    def remaining(self, s, now):
        return self.count

    def reset_after(self, s, now, zero):
        return 0

    def refund(self, s, now, n, zero):
        return s, 0

    def convert(self, s, old, at, old_zero):
        return None

    def carries(self, old):
        return self.count == old.count


# ---------------------------------------------------------------- fixed-window

Window = namedtuple("Window", "start end used")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def epoch_ns(local):
    return (local - EPOCH) // timedelta(seconds=1) * 10**9


class FixedWindow(Term):
    """State: a Window, or None."""

    def options(self, o):
        self.clock = o.get("align", "clock" if self.calendar else "first") == "clock"
        self.zone = ZoneInfo(o.get("tz", "UTC"))
        self.anchor = parse_anchor(o.get("anchor", "00:00"), self.calendar)
        winter = datetime(2024, 1, 1, tzinfo=self.zone)
        self.standard = (winter.utcoffset() - winter.dst()) // timedelta(seconds=1) * 10**9

    def zero(self, created):
        return None

    def edges(self, t):
        """The clock window that holds t."""
        if not self.calendar:
            start = (t + self.standard) // self.period * self.period - self.standard
            return start, start + self.period
        today = self.local(t // 10**9).date()
        starts = sorted(self.begins(self.date(today, n)) for n in range(-2, 4))
        return (max(s for s in starts if s <= t), min(s for s in starts if s > t))

    def local(self, t):
        """What the clocks of the zone show, t seconds after the epoch."""
        return (EPOCH + timedelta(seconds=t)).astimezone(self.zone).replace(tzinfo=None)

    def date(self, today, n):
        """The day on which the n-th window from that of `today` begins."""
        if self.calendar == "day":
            return today + timedelta(days=n)
        if self.calendar == "week":
            monday = today - timedelta(days=today.weekday())
            return monday + timedelta(days=7 * n + self.anchor.days)
        month = today.year * 12 + today.month - 1 + n
        first = date(month // 12, month % 12 + 1, 1)
        last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
        return min(first + self.anchor - timedelta(seconds=self.anchor.seconds), last)

    def begins(self, day):
        """When the clock first shows the anchor of that day, or a later time."""
        wanted = datetime(day.year, day.month, day.day) + timedelta(seconds=self.anchor.seconds)
        at = wanted.replace(tzinfo=self.zone, fold=0).astimezone(timezone.utc)
        high = (at - EPOCH) // timedelta(seconds=1)
        if self.local(high) == wanted:
            return high * 10**9
        low = high - 86400 * 2              # a time that was skipped: the change is between
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.local(middle) < wanted else (low, middle)
        return high * 10**9

    def open(self, s, now):
        return s if s is not None and now < s.end else None

    def used(self, s, now):
        return s.used if self.open(s, now) else 0

    def decide(self, s, now, cost, patience):
        if cost > self.count:
            return refuse(TOO_BIG, NEVER)
        if self.used(s, now) + cost > self.count:
            return refuse(LIMITED, s.end - now)
        return grant()

    def charge(self, s, now, cost):
        s = self.open(s, now)
        if s is None:
            s = Window(*(self.edges(now) if self.clock else (now, now + self.period)), 0)
        return s._replace(used=min(s.used + cost, MOST))

    deny = charge

    def remaining(self, s, now):
        return max(0, self.count - self.used(s, now))

    def reset_after(self, s, now, zero):
        s = self.open(s, now)
        return s.end - now if s else 0

    def refund(self, s, now, n, zero):
        back = min(n, self.used(s, now))
        if back == 0:
            return s, 0
        if self.clock and back == s.used:
            return None, back
        return s._replace(used=s.used - back), back

    def convert(self, s, old, at, old_zero):
        s = self.open(s, at)
        if s is None or (self.clock and s.used == 0):
            return None
        if self.clock:
            return Window(*self.edges(at), s.used)
        nominal = 31 * CALENDAR["day"] if old.period is None else old.period
        # a clock window's start is not kept: it is taken to be C
        if self.period > nominal:
            start = at if old.clock else s.start
            return Window(start, start + self.period, s.used)
        end = min(s.end, at + self.period)
        return Window(end - self.period, end, s.used)


# ---------------------------------------------------------------- sliding-window

class SlidingWindow(Term):
    """State: a dict from slot number to a sum above 0."""

    def options(self, o):
        self.slots = int(o.get("slots", "10"))
        assert self.period % self.slots == 0
        self.len = self.period // self.slots
        self.most = 2**32 - 1 if self.count < 2**32 else MOST
        per_slot = o.get("per-slot", "none")
        self.per_slot = {"none": None, "even": -(-self.count // self.slots)}[per_slot] \
            if per_slot in ("none", "even") else parse_count(per_slot)

    def zero(self, created):
        return {}

    def current(self, s, now):
        return max([now // self.len, *s])

    def window(self, s, cur):
        return {i: n for i, n in s.items() if cur - self.slots < i <= cur}

    def room(self, s, cur):
        room = self.count - sum(self.window(s, cur).values())
        if self.per_slot is not None:
            room = min(room, self.per_slot - s.get(cur, 0))
        return max(0, room)

    def decide(self, s, now, cost, patience):
        if cost > self.count or (self.per_slot is not None and cost > self.per_slot):
            return refuse(TOO_BIG, NEVER)
        cur = self.current(s, now)
        if cost <= self.room(s, cur):
            return grant()
        while cost > self.room(s, cur):
            cur += 1
        return refuse(LIMITED, cur * self.len - now)

    def charge(self, s, now, cost):
        cur = self.current(s, now)
        s = self.window(s, cur)
        add = min(cost, MOST - sum(s.values()), self.most - s.get(cur, 0))
        if add > 0:
            s[cur] = s.get(cur, 0) + add
        return s

    deny = charge

    def remaining(self, s, now):
        return self.room(s, self.current(s, now))

    def reset_after(self, s, now, zero):
        return max(0, (max(s) + self.slots) * self.len - now) if s else 0

    def refund(self, s, now, n, zero):
        cur, new, left = self.current(s, now), dict(s), n
        for i in sorted(self.window(s, cur), reverse=True):
            back = min(left, s[i])
            new[i] -= back
            left -= back
        new = {i: k for i, k in new.items() if k > 0}
        return (new if self.window(new, cur) else {}, n - left) if left < n else (s, 0)

    def carries(self, old):
        return self.slots == old.slots and self.most == old.most

    def convert(self, s, old, at, old_zero):
        new = {}
        for i, n in old.window(s, old.current(s, at)).items():
            slot = min((i + 1) * old.len - 1, at) // self.len
            new[slot] = min(new.get(slot, 0) + n, self.most)
        return new


# ---------------------------------------------------------------- sliding-counter

class SlidingCounter(Term):
    """State: the sums of windows, a dict from window number to a sum above 0."""

    def zero(self, created):
        return {}

    def window(self, s, now):
        return max([now // self.period, *s])

    def overlap(self, s, now):
        """What the window before still weighs."""
        w = self.window(s, now)
        e = max(0, now - w * self.period)
        return floor(Fraction(s.get(w - 1, 0) * (self.period - e), self.period))

    def used(self, s, now):
        return self.overlap(s, now) + s.get(self.window(s, now), 0)

    def until(self, s, now, most):
        """The least time after which `used` is at most `most`: it only ever falls, and is 0 after
        two windows."""
        low, high = 0, (self.window(s, now) + 2) * self.period - now
        while low < high:
            mid = (low + high) // 2
            if self.used(s, now + mid) <= most:
                high = mid
            else:
                low = mid + 1
        return low

    def decide(self, s, now, cost, patience):
        if cost > self.count:
            return refuse(TOO_BIG, NEVER)
        if self.used(s, now) + cost > self.count:
            return refuse(LIMITED, self.until(s, now, self.count - cost))
        return grant()

    def charge(self, s, now, cost):
        w = self.window(s, now)
        s = {i: n for i, n in s.items() if i >= w - 1}
        s[w] = min(s.get(w, 0) + cost, MOST)
        return s

    deny = charge

    def remaining(self, s, now):
        return max(0, self.count - self.used(s, now))

    def reset_after(self, s, now, zero):
        return self.until(s, now, 0)

    def refund(self, s, now, n, zero):
        w = self.window(s, now)
        from_cur = min(n, s.get(w, 0))
        from_prev = min(n - from_cur, self.overlap(s, now))
        if from_cur + from_prev == 0:
            return s, 0
        s = {w: s.get(w, 0) - from_cur, w - 1: s.get(w - 1, 0) - from_prev}
        return {i: k for i, k in s.items() if k > 0}, from_cur + from_prev

    def convert(self, s, old, at, old_zero):
        if self.period == old.period:
            return {i: n for i, n in s.items() if i >= at // self.period - 1}
        used = old.used(s, at)
        return {at // self.period: used} if used else {}


# ---------------------------------------------------------------- sliding-log

Log = namedtuple("Log", "times newest")      # oldest first; newest is None if there is none


class SlidingLog(Term):
    def options(self, o):
        self.min_interval = parse_duration(o.get("min-interval", "0"))

    def zero(self, created):
        return Log([], None)

    def live(self, s, now):
        return s.times[bisect.bisect_right(s.times, now - self.period):]

    def kept(self, s, now):
        return s.times[bisect.bisect_right(s.times, now - max(self.period, self.min_interval)):]

    def too_soon(self, s, now):
        if self.min_interval == 0 or s.newest is None:
            return 0
        return max(0, s.newest + self.min_interval - now)

    def decide(self, s, now, cost, patience):
        if cost > self.count:
            return refuse(TOO_BIG, NEVER)
        live = self.live(s, now)
        too_many = len(live) + cost - self.count
        full = live[too_many - 1] + self.period - now if too_many > 0 else 0
        wait = max(full, self.too_soon(s, now))
        return refuse(LIMITED, wait) if wait > 0 else grant()

    def charge(self, s, now, cost):
        at = now if s.newest is None else max(now, s.newest)
        return Log((self.kept(s, now) + [at] * min(cost, self.count))[-self.count:], at)

    deny = charge

    def remaining(self, s, now):
        return 0 if self.too_soon(s, now) else max(0, self.count - len(self.live(s, now)))

    def reset_after(self, s, now, zero):
        if s.newest is None:
            return 0
        return max(0, s.newest + max(self.period, self.min_interval) - now)

    def refund(self, s, now, n, zero):
        back = min(n, len(self.live(s, now)))
        if back == 0:
            return s, 0
        kept = self.kept(s, now)
        times = kept[:len(kept) - back]
        return Log(times, times[-1] if times else None), back

    def carries(self, old):
        return self.count == old.count

    def convert(self, s, old, at, old_zero):
        times = old.live(s, at)
        if times or (self.min_interval and old.too_soon(s, at)):
            return Log(times, s.newest)
        return self.zero(at)


# ---------------------------------------------------------------- smooth-warmup

Warm = namedtuple("Warm", "stored next")


class SmoothWarmup(Term):
    default_patience = FOREVER

    def options(self, o):
        self.W = parse_duration(o["warmup"])
        self.cold = Fraction(o.get("cold", "3"))
        self.threshold = self.W / (2 * self.T)
        self.max = self.threshold + 2 * self.W / (self.T * (1 + self.cold))
        self.limit = max(1, floor(self.max))

    def zero(self, created):
        return Warm(self.max, Fraction(0))

    def area(self, stored):
        x = ceil(max(0, stored - self.threshold) * self.W / self.max)
        return ceil(x**2 * (self.cold - 1) * (5 + self.cold)**2 / (16 * self.W * (1 + self.cold)))

    def at(self, s, now):
        if now > s.next:
            return Warm(min(self.max, s.stored + (now - s.next) * self.max / self.W), Fraction(now))
        return s

    def decide(self, s, now, cost, patience):
        if self.too_far(s, now, cost):
            return refuse(TOO_BIG, NEVER)
        wait = max(0, ceil(s.next - now))
        if wait > patience:
            return refuse(LIMITED, wait - patience)
        return grant(wait)

    def charge(self, s, now, cost):
        s = self.at(s, now)
        stored = max(Fraction(0), s.stored - cost)
        return Warm(stored, s.next + cost * self.T + self.area(s.stored) - self.area(stored))

    def owe(self, s, now, cost):
        before, after = self.at(s, now), self.charge(s, now, cost)
        last = min(now + LONGEST, TOP - self.W - 1)
        return after._replace(next=min(after.next, max(before.next, last)))

    def too_far(self, s, now, cost):
        return ceil(self.charge(s, now, cost).next) >= TOP - self.W

    def deny(self, s, now, cost):
        if self.too_far(s, now, cost):
            return s
        return s._replace(next=max(s.next, now + cost * self.T))

    def remaining(self, s, now):
        return self.limit if s.next <= now else 0

    def reset_after(self, s, now, zero):
        return max(0, ceil(s.next + (self.max - s.stored) * self.W / self.max - now))

    def refund(self, s, now, n, zero):
        earlier = max(Fraction(now), s.next - n * self.T)
        if earlier >= s.next:
            return s, 0
        return s._replace(next=earlier), floor((s.next - earlier) / self.T)

    def convert(self, s, old, at, old_zero):
        if s == old_zero:
            return self.zero(0)
        s = old.at(s, at)
        stored = s.stored * self.max / old.max
        unit = Fraction(1, self.count * int(5000 + 1000 * self.cold))
        stored = ceil(stored * self.W / self.max / unit) * unit * self.max / self.W
        return Warm(stored, Fraction(ceil(s.next * self.count), self.count))


ALGORITHMS = {"fixed-window": FixedWindow, "sliding-window": SlidingWindow,
              "sliding-counter": SlidingCounter,
              "sliding-log": SlidingLog, "token-bucket": TokenBucket, "leaky-bucket": LeakyBucket,
              "pacer": Pacer, "smooth-bursty": SmoothBursty, "smooth-warmup": SmoothWarmup}

# ---------------------------------------------------------------- several terms, versions, the scri

# A reservation acts at `act`, when the last of its terms lets it; `acts` has None for a term that
# refused.
Reservation = namedtuple("Reservation", "key cost act acts lineages resets")


def NOTHING(key):
    return Reservation(key, 0, 0, [], [], 0)


Verdict = namedtuple("Verdict", "allowed reason limit remaining wait retry reset warned",
                     defaults=(False,))


class Sim(Accounts):
    """A limit with its versions, the keys, and the lines of a script one by one."""

    @staticmethod
    def span(text):
        return parse_duration(text)

    def __init__(self, start_ns=DEFAULT_START, limit_text=None):
        self.start, self.now = start_ns, start_ns
        self.versions = []          # (terms, time of the change, the zero states)
        self.keys = {}              # key -> (version, states)
        self.resets = 0             # of any key: each voids the reservations made before it
        self.lineages = 0           # terms whose states carry over have the same lineage
        self.names = {}             # as=ID -> Reservation
        self.accounts = {}          # key -> its open estimates (account.py)
        self.reserved = {}          # as=ID -> (key, number)
        self.estimates = 0
        if limit_text:
            self.define(limit_text)

    # Live change

    def define(self, text):
        terms = parse_limit(text)
        older = self.versions[-1][0] if self.versions else []
        if len(terms) == len(older) and all(t.same(o) for t, o in zip(terms, older)):
            return
        for i, t in enumerate(terms):
            if i < len(older) and type(older[i]) is type(t) and t.carries(older[i]):
                t.lineage = older[i].lineage
            else:
                self.lineages += 1
                t.lineage = self.lineages
        if not self.versions:
            zeros = [t.zero(self.start) for t in terms]
        else:
            zeros = self.step(self.versions[-1], self.versions[-1][2], terms, self.now)
        self.versions.append((terms, self.now, zeros))

    def step(self, version, states, terms, at):
        """The states of one version as the next one has them."""
        new = [t.zero(at) for t in terms]
        for i, (old, zero, t) in enumerate(zip(version[0], version[2], terms)):
            if old.lineage == t.lineage:
                new[i] = t.convert(states[i], old, at, zero)
        return new

    def touch(self, key):
        """The terms, their zero states, and the key's states brought to the newest version."""
        terms, _, zeros = self.versions[-1]
        if key not in self.keys:
            return terms, zeros, zeros
        version, states = self.keys[key]
        oldest = len(self.versions) - KEPT_VERSIONS
        if version < oldest:
            states = self.as_if(version, states, oldest)
            version = oldest
        for v in range(version, len(self.versions) - 1):
            states = self.step(self.versions[v], states, *self.versions[v + 1][:2])
        states = [t.step_back(s, self.now, z) for t, s, z in zip(terms, states, zeros)]
        self.keep(key, states)
        return terms, zeros, states

    def as_if(self, version, states, oldest):
        """States that a forgotten version wrote, as if the oldest kept one had; fresh where they
        cannot be."""
        terms, _, new = self.versions[oldest]
        new = list(new)
        for i, (old, t) in enumerate(zip(self.versions[version][0], terms)):
            if old.lineage == t.lineage:
                new[i] = states[i]
        return new

    def keep(self, key, states):
        if states == self.versions[-1][2]:
            self.keys.pop(key, None)
        else:
            self.keys[key] = (len(self.versions) - 1, states)

    # The answer

    def stands(self, terms, zeros, states, reason=OK, wait=0):
        """A grant, with the limit and the remaining of the term that has the least remaining."""
        left = [t.remaining(s, self.now) for t, s in zip(terms, states)]
        least = left.index(min(left))
        return Verdict(True, reason, terms[least].limit, left[least], wait, None,
                       self.reset_after(terms, zeros, states))

    def reset_after(self, terms, zeros, states):
        return max(t.reset_after(s, self.now, z) for t, z, s in zip(terms, zeros, states))

    def decide(self, key, cost, patience):
        """What take answers, and the states after it."""
        terms, zeros, states = self.touch(key)
        if cost == 0:
            return self.stands(terms, zeros, states), states, [self.now] * len(terms)
        patiences = [t.default_patience if patience is None else patience for t in terms]
        answers = [t.decide(s, self.now, cost, p) for t, s, p in zip(terms, states, patiences)]
        refusers = [i for i, t in enumerate(terms) if answers[i][0] != OK and not t.shadow]
        after = list(states)
        for i, t in enumerate(terms):
            if answers[i][0] == OK and not refusers:
                after[i] = t.charge(states[i], self.now, cost)
            elif answers[i] == grant(0) and t.count_denied:
                after[i] = t.charge(states[i], self.now, cost)
            elif t.count_denied:
                after[i] = t.deny(states[i], self.now, cost)
            elif answers[i][0] != OK and hasattr(t, "refused"):
                after[i] = t.refused(states[i], self.now)
        if not refusers:
            would = [a[0] for a in answers if a[0] != OK]
            wait = max([a[1] for t, a in zip(terms, answers) if a[0] == OK and not t.shadow],
                       default=0)
            acts = [self.now + a[1] if a[0] == OK else None for a in answers]
            v = self.stands(terms, zeros, after, would[0] if would else OK, wait)
            return v._replace(warned=self.crossed(terms, states, after, answers)), after, acts
        first = refusers[0]
        # As things stand after the call: a refused event that counts delays the retry too.
        # So does one that a term granted, and counted for nothing.
        counted = [i for i,
                   t in enumerate(terms) if answers[i][0] == OK and t.count_denied and not t.shadow]
        # A box has counted this refusal, and would count another.
        again = [answers[i] if hasattr(terms[i], "refused")
                 else terms[i].decide(after[i], self.now, cost, patiences[i])
                 for i in refusers + counted]
        retries = [retry for _, _, retry in again if retry is not None]
        retry = (NEVER if NEVER in retries
                 else self.all_grant(terms, after, cost, patiences, max(retries)))
        left = min(t.remaining(s, self.now) for t, s in zip(terms, after))
        return Verdict(False, answers[first][0], terms[first].limit, left, None,
                       retry, self.reset_after(terms, zeros, after)), after, None

    def crossed(self, terms, before, after, answers=None):
        """Whether a term that granted has used the share that it warns of, and had not before."""
        for i, t in enumerate(terms):
            if t.warn is None or (answers and answers[i][0] != OK):
                continue
            line = floor(t.limit * (1 - t.warn))
            if t.remaining(before[i], self.now) > line >= t.remaining(after[i], self.now):
                return True
        return False

    def all_grant(self, terms, states, cost, patiences, retry):
        """A key that is behind may grant before the clock has caught up, and refuse just after: the
        first time that suits all."""
        before = None
        while retry != before:
            before = retry
            for t, s, p in zip(terms, states, patiences):
                if (getattr(getattr(s, "inner", s), "low", None) is not None and not t.shadow
                    and self.now + retry <= LONGEST):
                    retry += t.decide(s, self.now + retry, cost, p)[2] or 0
        return retry

    def give_back(self, key, method):
        """Refund or cancel on every term; what came back, and the key as it then stands."""
        terms, zeros, states = self.touch(key)
        done = [method(i, t, s, z) for i, (t, s, z) in enumerate(zip(terms, states, zeros))]
        after = [t.forget(s, z) for t, z, (s, _) in zip(terms, zeros, done)]
        self.keep(key, after)
        return max(back for _, back in done), self.stands(terms, zeros, after)

    def charge(self, key, cost):
        """Takes without asking, and shows the key as it then stands."""
        terms, zeros, states = before = self.touch(key)
        if cost > 0:
            states = [t.owe(s, self.now, cost) for t, s in zip(terms, states)]
            self.keep(key, states)
        return self.stands(terms, zeros, states)._replace(
            warned=self.crossed(terms, before[2], states))

    # The script

    def line(self, text):
        """One line of a script; its output fields, or None for a line without an event."""
        words = re.sub(r"(^|\s)#.*", "", text).split()
        if not words:
            return None
        if words[0] != "limit":
            self.now = self.start + parse_duration(words.pop(0))
        verb, rest = words[0], words[1:]
        time = str(self.now - self.start)
        if verb == "limit":
            self.define(" ".join(rest))
            return (time, verb) + ("-",) * 10
        if verb == "reset":
            self.keys.pop(rest[0], None)
            self.accounts.pop(rest[0], None)
            self.resets += 1
            return (time, verb) + ("-",) * 10
        if verb == "cancel" and rest[0] in self.reserved:
            key, cost, v = self.commit(rest[0], None)
        elif verb == "cancel":
            key, cost, v = self.cancel(rest[0])
        elif verb == "commit":
            key, cost, v = self.commit(rest[0], int(rest[1]))
        else:
            key, cost, v = self.event(verb, rest)
        return (time, verb, key, str(cost), "allow" if v.allowed else "deny", v.reason,
                str(v.limit),
                str(v.remaining),
                *("-" if x is None else str(x) for x in (v.wait, v.retry, v.reset)),
                "warned" if v.warned else "-")

    def event(self, verb, rest):
        key, rest = rest[0], rest[1:]
        cost = int(rest.pop(0)) if rest and "=" not in rest[0] else 1
        opts = dict(o.split("=", 1) for o in rest)
        if verb == "reserve":
            return self.reserve(key, cost, opts)
        if key in self.accounts:
            self.lapse(key)
        if verb == "charge":
            return key, cost, self.charge(key, cost)
        if verb == "refund":
            back, v = self.give_back(key, lambda i, t, s, z: t.refund(s, self.now, cost, z))
            return key, back, v
        patience = opts.get("wait")
        if patience is not None:
            patience = FOREVER if patience == "forever" else parse_duration(patience)
        v, after, acts = self.decide(key, cost, patience)
        if verb == "take":
            self.keep(key, after)
            if "as" in opts:
                lineages = [t.lineage for t in self.versions[-1][0]]
                self.names[opts["as"]] = NOTHING(key) if not v.allowed else Reservation(
                    key, cost, self.now + v.wait, acts, lineages, self.resets)
        return key, cost, v

    def cancel(self, name):
        """A term that is still the one that granted it gives it back, if no key was reset."""
        r = self.names[name]
        self.names[name] = NOTHING(r.key)

        def back(i, t, s, z):
            if (i >= len(r.acts) or r.acts[i] is None or r.lineages[i] != t.lineage
                or r.act < self.now or r.resets != self.resets):
                return s, 0
            return t.cancel(s, self.now, r.cost, max(r.acts[i], self.now), z)
        returned, v = self.give_back(r.key, back)
        if r.key in self.accounts:      # the key is looked at after it
            self.lapse(r.key)
            v = self.stands(*self.touch(r.key))
        return r.key, returned, v


def run(script_text, start_ns=DEFAULT_START, limit_text=None):
    sim = Sim(start_ns, limit_text)
    return [fields for fields in map(sim.line, script_text.splitlines()) if fields]
