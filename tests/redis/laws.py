"""The laws that all grants together must keep.

A grant is known by two times, before the call and after it: it happened in between. It counts in a
window only if both lie in it. So no window is charged with a grant that may not have been its own,
and a law that is broken here is broken.
"""

import bisect
import time

from fleet_kit import check

# what a machine may add to any wait; and three times what it was seen to
SLACK_US = 100_000
DRIFT = 1.001                       # between the clocks of Redis and of the test


def all_of(wholes, what=lambda grant: True):
    """The grants of all callers: (begin, end, limit, cost)."""
    return [tuple(grant) for whole in wholes for grant in whole["grants"] if what(grant)]


def most_over(grants, rate):
    """The largest of (granted - rate x length) over every window: no more than the burst. `rate` in
    events a second."""
    per_us = rate / 1e6 * DRIFT
    ends, worst = [], 0
    for begin, end, _, cost in sorted(grants, reverse=True):
        place = bisect.bisect(ends, (end,))
        ends.insert(place, (end, cost))
        total = 0
        for last, paid in ends:
            total += paid
            worst = max(worst, total - per_us * (last - begin))
    return worst


def most_within(grants, span_us):
    """The most that was granted in any window of that length."""
    ends, worst = [], 0
    for begin, end, _, cost in sorted(grants, reverse=True):
        bisect.insort(ends, (end, cost))
        worst = max(worst, sum(paid for last, paid in ends if last - begin < span_us / DRIFT))
        while ends and ends[-1][0] - begin > 2 * span_us:
            ends.pop()
    return worst


def most_in_clock_windows(grants, period_us):
    """The most in any window of the wall clock."""
    shift_us = int((time.time() - time.monotonic()) * 1e6)
    counts, near = {}, 2000         # what lies so near an edge may be either's
    for begin, end, _, cost in grants:
        first, last = (begin + shift_us - near) // period_us, (end + shift_us + near) // period_us
        if first == last:
            counts[first] = counts.get(first, 0) + cost
    return max(counts.values(), default=0)


def keeps_bucket(sentence, grants, rate, burst):
    worst = most_over(grants, rate)
    check(sentence, worst <= burst + 1e-6,
          f"{worst:.3f} beyond the rate in some window, of a burst of {burst}")
    return worst


def in_time(sentence, told, timeout_us):
    """No caller waited longer than the timeout, except for the machine's own delay."""
    worst = max(tell["worst_us"] for tell in told)
    lag = max(tell["lag_us"] for tell in told)
    check(sentence, worst <= timeout_us + SLACK_US + 3 * lag,
          f"{worst} us, where the machine was late by {lag} us")
    return worst
