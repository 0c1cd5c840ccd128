"""The oracle is checked before anything is checked against it.

Each case is a script with the facts that another limiter's test suite states about it: Guava (GU),
golang x/time/rate (XT), redis-cell (RC), RussellLuo/slidingwindow (SW), rolling-rate-limiter (RR).
The rows are (script line, {field: value}); fields have the names of the output.
"""

import sys

sys.dont_write_bytecode = True
import oracle  # noqa: E402

FIELDS = "time verb key cost verdict reason limit remaining wait retry reset state".split()
MS = 10**6


def acquire(rows):
    """Guava's acquire(1): a reservation made at t_us waits wait_us."""
    return [(f"{t}us take k 1 wait=forever", {"verdict": "allow", "wait": 1000 * wait}) for t,
            wait in rows]


WARM_UP = [(0, 0), (0, 1375000), (1375000, 1125000), (2500000, 875000), (3375000, 625000),
           (4000000, 500000), (4500000, 500000), (5000000, 500000)]
AGAIN = [(10000000, 0), (10000000, 1375000), (11375000, 1125000)]

CASES = [
    ("GU01 smooth-bursty pays for the one before", "smooth-bursty 5/s",
     acquire([(0, 0), (0, 200000), (200000, 200000)])),
    ("GU05 smooth-warmup warms up, cools down, and stays warm", "smooth-warmup 2/s warmup=4s",
     acquire(WARM_UP + AGAIN + [(12500000, 875000), (13375000, 625000), (14000000, 500000),
                                (14500000, 500000), (15000000, 500000), (18000000, 0)]
             + [(t, 500000) for t in range(18000000, 21500000, 500000)])),
    ("GU08 smooth-warmup whose rate doubles", "smooth-warmup 2/s warmup=4s",
     acquire(WARM_UP + AGAIN) + [("12.5s limit smooth-warmup 4/s warmup=4s", {})]
     + acquire([(12500000, 875000), (13375000, 343750), (13718750, 281250), (14000000, 250000),
                (14250000, 250000), (18750000, 0), (18750000, 718750), (19468750, 656250),
                (20125000, 593750), (20718750, 531250), (21250000, 468750), (21718750, 406250),
                (22125000, 343750), (22468750, 281250), (22750000, 250000), (23000000, 250000)])),
    ("XT04 reservations act in turn", "token-bucket 10/s burst=2", [
        ("0 take k 2 wait=forever", {"wait": 0}),
        ("0 take k 2 wait=forever", {"wait": 200 * MS}),
        ("300ms take k 2 wait=forever", {"wait": 100 * MS})]),
    ("XT07 the last reservation is cancelled whole", "token-bucket 10/s burst=2", [
        ("0 take k 2 wait=forever as=a", {"wait": 0}),
        ("0 take k 2 wait=forever as=b", {"wait": 200 * MS}),
        ("100ms cancel b", {"cost": 2, "remaining": 1}),
        ("100ms take k 2 wait=forever as=c", {"wait": 100 * MS})]),
    ("XT09 nothing comes back that a later reservation needs", "token-bucket 10/s burst=2", [
        ("0 take k 2 wait=forever as=a", {"wait": 0}),
        ("0 take k 1 wait=forever as=b", {"wait": 100 * MS}),
        ("0 take k 1 wait=forever as=c", {"wait": 200 * MS}),
        ("0 cancel b", {"cost": 0}),
        ("0 take k 1 wait=forever as=e", {"wait": 300 * MS})]),
    ("the end of time is no reason for never", "pacer 1/366d queue=1000", [
        ("0 take k 140 wait=forever", {"verdict": "allow"}),
        ("0 take k 140 wait=forever", {"verdict": "deny", "reason": "LIMITED"}),
        ("0 take k 150 wait=forever", {"verdict": "deny", "reason": "TOO_BIG", "retry": -1})]),
    ("RC2 burst 1 limits", "token-bucket 1/2s", [
        ("0 take k", {"verdict": "allow", "limit": 1, "remaining": 0, "reset": 2000 * MS}),
        ("0 take k",
         {"verdict": "deny", "limit": 1, "remaining": 0, "retry": 2000 * MS, "reset": 2000 * MS}),
        ("2s take k", {"verdict": "allow", "remaining": 0, "reset": 2000 * MS})]),
    ("SW01 sliding-counter weighs the window before", "sliding-counter 10/s", [
        ("0 take k 1", {"verdict": "allow"}),
        ("100ms take k 2", {"verdict": "allow"}),
        ("200ms take k 3", {"verdict": "allow"}),
        ("500ms take k 5", {"verdict": "deny"}),
        ("1s take k 2", {"verdict": "allow"}),
        ("1.2s take k 5", {"verdict": "deny"}),
        ("1.5s take k 5", {"verdict": "allow"}),
        ("3s take k 10", {"verdict": "allow"})]),
    ("RR04a sliding-log that counts the refused", "sliding-log 3/10ms count-denied", [
        ("0 take k", {"verdict": "allow", "remaining": 2}),
        ("4ms take k", {"verdict": "allow", "remaining": 1}),
        ("5ms take k", {"verdict": "allow", "remaining": 0}),
        ("8ms take k", {"verdict": "deny", "remaining": 0, "retry": 6 * MS}),
        ("11ms peek k", {"verdict": "deny", "remaining": 0, "retry": 4 * MS}),
        ("17ms peek k", {"verdict": "allow", "remaining": 1})]),
]


def check(limit, rows):
    got = oracle.run("\n".join(line for line, _ in rows), limit_text=limit)
    assert len(got) == len(rows)
    for (line, expected), fields in zip(rows, got):
        named = dict(zip(FIELDS, fields))
        for name, value in expected.items():
            assert named[name] == str(value), f"{line}: {name} is {named[name]}, not {value}"


def main():
    failed = 0
    for name, limit, rows in CASES:
        try:
            check(limit, rows)
        except AssertionError as why:
            failed += 1
            print(f"{name}: {why}")
    print(f"oracle self-test: {len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
