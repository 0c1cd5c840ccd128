#!/usr/bin/env python3
"""What the client in C sends, held against the contract (src/redis/script/README.md).

    plan.py PATH_TO_PLAN_HEX [SCENE...] [--limits=N] [--seed=S]

The reference is written twice: in `Numbers` below, straight from the contract, in fractions of
nanoseconds; and, for limits of whole microseconds, by the client of the scripts' own tests
(scripts_world.encode). A scene is a function named as a sentence.
"""

import glob
import hashlib
import os
import random
import struct
import subprocess
import sys
import traceback
from fractions import Fraction
from math import ceil

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "oracle"),
                os.path.join(HERE, "..", "..", "vectors")]
import run_sim  # noqa: E402
from scripts_kit import FAILED, OPTIONS, WEIR as PLAN_HEX, check, expect, tally  # noqa: E402
from scripts_oracle import Store, load_copy, oracle as in_us  # noqa: E402
from scripts_random import compare, whole_but_rates  # noqa: E402
from scripts_redis import REMOTE, Redis, RedisError, embed  # noqa: E402
from scripts_world import (CANCEL, CHARGE, COUNTS, FOREVER, PEEK, REFUND, SHADOW,  # noqa: E402
                           TAKE, blob, encode, mask_of)

exact = load_copy("oracle")         # in nanoseconds, as limits are written
LIMITS, SEED = int(OPTIONS.get("limits", 4000)), int(OPTIONS.get("seed", 1))
LUA = REMOTE
END = 2**53
LETTERS = "fwcltbpsui"
ORDER = (exact.FixedWindow, exact.SlidingWindow, exact.SlidingCounter, exact.SlidingLog,
         exact.TokenBucket,
         exact.LeakyBucket, exact.Pacer, exact.SmoothBursty, exact.SmoothWarmup, exact.MinInterval)
US, DAY = 1000, 86400 * 10**9
S = 10**9
TIMES = [0, 1, DAY - 1, DAY, 1_700_000_000 * S, 1711839600 * S, 1711846799 * S, 1711846800 * S,
           1729987200 * S + 1, 1730031359 * S, 1709164800 * S - 1, 4_500_000_000 * S, 2**62]
HARD = [
    "token-bucket 1/366d", "token-bucket 1000000000000/1us",
    "token-bucket 999999999989/366d burst=1000000000000",
    "token-bucket 7/31622399s999999999ns",
    "token-bucket 1/31622399s999999999ns burst=145 initial=empty",
    "token-bucket 3/9007199254740993ns initial=0", "token-bucket 1/9007199254740991ns initial=0",
    "token-bucket 1000/9007199254740993ns",
    "token-bucket 1000000000000/31622399s999999999ns initial=empty",
    "token-bucket 1/1001ns burst=1000000000000 initial=1",
    "leaky-bucket 1/366d capacity=145 delay=145",
    "pacer 1/366d slack=144 queue=1000000000000",
    "pacer 7/1001ns slack=999999999999 queue=0 max-wait=1ns",
    "pacer 3/s slack=2 max-wait=1999ns", "smooth-bursty 7/s max-burst=1999ns",
    "smooth-bursty 1/366d max-burst=366d",
    "smooth-bursty 3/s max-burst=0", "smooth-warmup 999999999989/366d warmup=200d cold=1.001",
    "smooth-warmup 1/1001ns warmup=1001ns cold=100", "min-interval 31622399s999999999ns",
    "min-interval 1001ns", "unlimited", "0/s", "0/s + unlimited + 10/s",
    "fixed-window 1000000000000/31622399s999999999ns align=clock tz=Asia/Kathmandu",
    "fixed-window 1/1001ns",
    "fixed-window 5/day", "fixed-window 5/week", "fixed-window 5/month",
    "fixed-window 5/day tz=Europe/Berlin",
    "fixed-window 5/month tz=Pacific/Apia", "fixed-window 5/day tz=America/Sao_Paulo",
    "fixed-window 1/24h align=clock tz=America/New_York",
    "fixed-window 1/7s align=clock tz=Asia/Tokyo",
    "sliding-window 4294967295/1000us slots=1000",
    "sliding-window 4294967296/1003ns slots=17 per-slot=even",
    "sliding-window 1000000000000/366d slots=1",
    "sliding-counter 1000000000000/31622399s999999999ns",
    "sliding-log 65536/1001ns min-interval=1ns", "sliding-log 1/366d min-interval=366d",
    " + ".join(["pacer 3/s slack=4 queue=7 max-wait=1h shadow count-denied"] * 8)]


class Numbers:
    """A term as a request carries it."""

    def __init__(self, t, created_us, wall_ns):
        self.t, self.created, self.wall = t, created_us, wall_ns
        constant = type(t).__name__ == "Constant"
        self.algorithm = (11 if t.count else 12) if constant else ORDER.index(type(t))
        self.kind = self.algorithm + COUNTS * t.count_denied + SHADOW * t.shadow
        values = getattr(self, type(t).__name__)(t)
        self.values = [*values, *[0] * (7 - len(values))]

    def rate(self, t):
        T = Fraction(t.period, 1000 * t.count)
        if T.numerator >= END:
            T = Fraction(ceil(Fraction(t.period, US)), t.count)
        return T

    def due(self, t, ahead_of=None):
        """P, C, the limit, and `zero`, so many events after creation."""
        T = self.rate(t)
        D = self.created + ahead_of * T if ahead_of else 0
        zero = ceil(D) if D < END - 1 else END - 1
        return [T.numerator, T.denominator, t.limit, zero, max(0, int((zero - D) * T.denominator))]

    def TokenBucket(self, t):
        return self.due(t, t.burst - t.initial if t.initial is not None else 0)

    def LeakyBucket(self, t):
        return self.due(t) + [-1 if t.delay is None else t.delay]

    def Pacer(self, t):
        return (self.due(t, t.slack)
                + [t.queue, min(FOREVER, t.max_wait // US if t.max_wait < FOREVER else FOREVER)])

    def SmoothBursty(self, t):
        zero = min(self.created + t.max_burst // US, END - 1)
        return self.due(t)[:3] + [zero, 0, t.max_burst // US]

    def MinInterval(self, t):
        return self.due(t)

    def SmoothWarmup(self, t):
        return self.due(t)[:3] + [-(-t.W // US), t.cold.numerator, t.cold.denominator]

    def FixedWindow(self, t):
        period = -(-(t.period or 31 * DAY) // US)
        if not t.clock:
            return [period, t.count, 0]
        if not t.calendar:
            return [period, t.count, 1, -(t.standard // US) % period, 0, 0, (0, str(t.zone))]
        start, end = t.edges(self.wall)
        edges = [max(0, start) // US, end // US, t.edges(end)[1] // US]
        return [period, t.count, 2, *edges, (t.calendar, str(t.zone), t.anchor)]

    def SlidingWindow(self, t):
        return [-(-t.len // US), t.count, t.slots, -1 if t.per_slot is None else t.per_slot]

    def SlidingCounter(self, t):
        return [-(-t.period // US), t.count]

    def Constant(self, t):
        return [1000000, t.count]

    def SlidingLog(self, t):
        return [-(-t.period // US), t.count, -(-t.min_interval // US)]

    def shape(self, place):
        t = self.t
        letter = {11: "a", 12: "z"}.get(self.algorithm) or LETTERS[self.algorithm]
        more = {"l": t.count}.get(letter, "")
        if letter == "w":
            letter, more = "W" if t.count >= 2**32 else "w", t.slots
        return f"{place}{letter}{more}"


CALENDARS = {}                      # (kind, zone) -> the number that stands for it


def same_calendar(named, number):
    """One number for one calendar, another for another."""
    if not isinstance(named, tuple):
        return named == number
    good = 0 <= number < 2**52 and CALENDARS.setdefault(named, number) == number
    return good and list(CALENDARS.values()).count(number) == 1


class Sent:
    """A command of the client's, taken apart."""

    def __init__(self, line):
        self.error = line[6:] if line.startswith("error") else None
        if self.error is not None:
            return
        mask, terms, text = line.split()
        self.mask, self.n, self.bytes = int(mask), int(terms), bytes.fromhex(text)
        self.words = self.parsed(self.bytes)
        self.keys = self.words[3:3 + self.n]
        self.blob = self.words[3 + self.n]
        numbers = struct.unpack(f"<{len(self.blob) // 8}q", self.blob)
        self.header = numbers[:3]
        self.terms = [numbers[i:i + 10] for i in range(3, len(numbers), 10)]

    @staticmethod
    def parsed(data):
        count, _, rest = data.partition(b"\r\n")
        words = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            assert size[:1] == b"$" and rest[int(size[1:]):][:2] == b"\r\n", data
            words.append(rest[:int(size[1:])])
            rest = rest[int(size[1:]) + 2:]
        assert count == b"*%d" % len(words), data
        return words


class Asked:
    """A line for plan_hex."""

    def __init__(self, limit, created=1_600_000_000_000_000, wall=1_700_000_000 * 10**9, now=-1,
                 verb=TAKE, cost=1,
                 patience=-1, act=0, acts="-", only=0, ticket="-", scope="api", key="alice"):
        self.limit, self.created, self.wall, self.now, self.verb = limit, created, wall, now, verb
        self.cost, self.patience, self.act, self.acts, self.only = cost, patience, act, acts, only
        self.ticket, self.scope, self.key = ticket, scope, key

    def line(self):
        acts = self.acts if self.acts == "-" else ",".join(map(str, self.acts))
        fields = (self.created, self.wall, self.now, self.verb, self.cost, self.patience, self.act,
                  acts, self.only, self.ticket, self.scope, self.key, self.limit)
        return "\t".join(map(str, fields))


def written(asked):
    lines = subprocess.run([PLAN_HEX], input="\n".join(a.line() for a in asked) + "\n",
                           capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(asked), (len(lines), len(asked))
    return [Sent(line) for line in lines]


def patience_of(asked, i, default_ns):
    if asked.verb == CANCEL:
        return asked.acts[i]
    if asked.verb in (REFUND, CHARGE):
        return 0
    ns = default_ns if asked.patience == -1 else asked.patience
    return FOREVER if ns >= FOREVER else ns // US


def compare_numbers(asked, sent):
    """By the contract, in nanoseconds."""
    terms = exact.parse_limit(asked.limit)
    named = [i for i in range(len(terms)) if asked.only == 0 or asked.only >> i & 1]
    here = f"{asked.limit} ({asked.line()})"
    if not expect(here, sent.error, None):
        return
    expect(f"{here}: the header", sent.header, (256 + asked.verb, asked.now, asked.act))
    expect(f"{here}: how many", (sent.n, len(sent.terms)), (len(named), len(named)))
    for i, got in zip(named, sent.terms):
        wanted = Numbers(terms[i], asked.created, asked.wall)
        head = (wanted.kind, asked.cost, patience_of(asked, i, terms[i].default_patience))
        expect(f"{here}: kind, cost and patience of term {i}", got[:3], head)
        good = all(map(same_calendar, wanted.values, got[3:]))
        check(f"{here}: the numbers of term {i}", good,
              f"expected {wanted.values}\n  got      {list(got[3:])}")
        check(f"{here}: all are below 2^53", all(-1 <= x < END or x == FOREVER for x in got[3:]),
              got)
    expect(f"{here}: the keys", sent.keys,
           [f"weir:1:{{{asked.scope}:{asked.key}}}:{Numbers(terms[i], 0, 0).shape(i)}".encode()
            for i in named])
    expect(f"{here}: the mask", sent.mask, mask_of(sent.terms))
    expect(f"{here}: the script", sent.words[:3],
           [b"EVALSHA", hashlib.sha1(embed.script(LUA, sent.mask).encode()).hexdigest().encode(),
            b"%d" % sent.n])
    expect(f"{here}: the ticket", sent.words[4 + sent.n:],
           [] if asked.ticket == "-" else [asked.ticket.encode()])


def compare_worlds(asked, sent):
    """By the scripts' own client, in microseconds. False: it cannot say it."""
    try:
        store = Store(asked.created)
        store.define(asked.limit)
    except OverflowError:
        return False
    terms, _, zeros = store.versions[-1]
    for i, (t, zero, got) in enumerate(zip(terms, zeros, sent.terms)):
        kind, values = encode(t, zero, asked.wall // US)
        values = [*values, *[0] * (7 - len(values))]
        if isinstance(t, in_us.FixedWindow):
            values[6] = got[9]
            values[3] = max(0, values[3])
        expect(f"{asked.limit}: term {i} as the scripts' own client has it", list(got),
               [kind, *got[1:3], *values])
    return True


def limits_of_vectors():
    cases = [case for path in sorted(glob.glob(os.path.join(HERE, "..", "..", "vectors", "*.vec")))
             for case in run_sim.parse(path)]
    texts = {event.partition("limit ")[2] for case in cases for _, event,
             _ in case.script if "limit " in event}
    return sorted(text for text in texts if all(word not in text for word in NOT_SHARED))


NOT_SHARED = ("concurrency", "system", "breaker", "bbr", "vegas", "gradient", "aimd",
              "adaptive-rate", " warn=", " block=")


def random_limit(rng):
    limits = compare.Limits(rng)
    terms = [limits.term() for _ in range(1 if rng.random() < 0.7 else rng.randint(2, 6))]
    return compare.limit_text(terms)


def random_question(rng, limit):
    verb, n = rng.choice([TAKE, TAKE, PEEK, REFUND, CANCEL, CHARGE]), limit.count(" + ") + 1
    return Asked(limit, verb=verb,
                 created=rng.choice([0, 1, 1_600_000_000_000_000, rng.randrange(2**52),
                                     2**62 // US]),
                 wall=rng.choice([rng.choice(TIMES), rng.randrange(2**62)]),
                 now=rng.choice([-1, 0, rng.randrange(END)]),
                 cost=rng.choice([0, 1, rng.randrange(10**13), FOREVER]),
                 patience=rng.choice([-1, -1, 0, 999, 1000, rng.randrange(2**62), FOREVER]),
                 act=rng.randrange(END) if verb == CANCEL else 0,
                 acts=[rng.choice([-1, rng.randrange(END)]) for _ in range(n)] if verb == CANCEL
                 else "-",
                 only=rng.choice([0, 0, 0, 1, 2 ** (n - 1), 2**n - 1]),
                 ticket=rng.choice(["-", "-", "node-7/1"]),
                 scope=rng.choice(["api", "", "a b", "é"]),
                 key=rng.choice(["alice", "a}:0t{b", ":", "k" * 300]))


# ---------------------------------------------------------------- scenes

def scripts_are_embedded_as_they_are_tested():
    lines = subprocess.run([PLAN_HEX, "--scripts"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    with Redis() as redis:
        for line in lines:
            number, sha, size, text = line.split(" ")
            text = bytes.fromhex(text)
            expect(f"script {number}: its text", text.decode(), embed.script(LUA, int(number)))
            expect(f"script {number}: its length", int(size), len(text))
            expect(f"script {number}: Redis calls it so", redis.call("SCRIPT", "LOAD", text),
                   sha.encode())
    expect("all masks, and the scripts that stand alone", [int(line.split()[0]) for line in lines],
           [*embed.MASKS, *embed.ALONE])


def what_is_stripped_is_nothing_that_runs():
    for text, wanted in [("a = 1 -- one\n\n  b = '--' -- two\n", "a = 1\nb = '--'\n"),
                         ("-- all\n--\n", ""),
                         ("x = \"it's\" -- '\ny = 'a\\'--b'\n", "x = \"it's\"\ny = 'a\\'--b'\n"),
                         ("z = -1 - -2\n", "z = -1 - -2\n")]:
        expect(f"{text!r} stripped", embed.stripped(text), wanted)
    for text in ("x = [[a]]\n", "x = [==[a]==]\n", "--[[ a\nb ]]\n", "--[=[ a\nb ]=]\n"):
        try:
            check(f"{text!r} is refused", False, embed.stripped(text))
        except SystemExit:
            pass


def the_limits_of_all_vectors_are_sent_by_the_contract():
    texts = limits_of_vectors()
    asked = [Asked(text, verb=verb) for text in texts for verb in (TAKE, PEEK)]
    told = 0
    for a, sent in zip(asked, written(asked)):
        compare_numbers(a, sent)
        told += (whole_but_rates("limit " + a.limit) == "limit " + a.limit
                 and compare_worlds(a, sent))
    check("most are compared twice", told > len(asked) * 0.8, f"{told} of {len(asked)}")
    print(f"  {len(texts)} limits")


def hard_limits_are_sent_by_the_contract():
    asked = [Asked(text, created=created, wall=wall) for text in HARD
             for created in (0, 1_600_000_000_000_000, 2**62 // US)
             for wall in TIMES]
    for a, sent in zip(asked, written(asked)):
        compare_numbers(a, sent)


def random_limits_are_sent_by_the_contract():
    rng, asked = random.Random(SEED), []
    for i in range(LIMITS):
        text = random_limit(rng)
        asked.append(random_question(rng, whole_but_rates("limit " + text)[6:] if i % 2 else text))
    told, refused = 0, 0
    for i, (a, sent) in enumerate(zip(asked, written(asked))):
        # cut to microseconds some are no limits any more
        if sent.error and "column" in sent.error:
            refused += 1
            continue
        compare_numbers(a, sent)
        told += i % 2 and a.only == 0 and compare_worlds(a, sent)
    check("nearly all are limits, and many are compared twice",
          refused < LIMITS * 0.05 and told > LIMITS * 0.2, f"{refused} refused, {told} twice")
    print(f"  {LIMITS - refused} limits, {told} of them twice; {len(CALENDARS)} calendars")


def redis_answers_the_client_as_it_answers_the_tests():
    rng, asked = random.Random(SEED + 1), []
    for i in range(LIMITS // 4):
        asked.append(random_question(rng, whole_but_rates("limit " + random_limit(rng))[6:]))
        asked[-1].key, asked[-1].ticket = f"k{i}", "-"
    with Redis() as redis:
        for mask in embed.MASKS:
            redis.call("SCRIPT", "LOAD", embed.script(LUA, mask))
        for a, sent in zip(asked, written(asked)):
            if sent.error:
                continue
            a.now = sent.header[1]
            redis.socket.sendall(sent.bytes)
            got = redis.read()
            redis.call("FLUSHALL")
            terms = [(t[0], *t[1:3], t[3:]) for t in sent.terms]
            wanted = redis.script(sent.mask, sent.keys, blob(a.verb, a.now, terms, a.act))
            redis.call("FLUSHALL")
            if a.now < 0 and not isinstance(got, RedisError):
                got, wanted = [*got[:3], len(got)], [*wanted[:3], len(wanted)]
            expect(f"{a.limit}: the reply", got, wanted)


def what_no_script_decides_is_refused_by_name():
    rows = [("concurrency 5", "term 1: concurrency needs a lease"),
            ("10/s + 20/s warn=80%", "term 2: warn= cannot be in a shared store"),
            ("bbr + concurrency 5", "term 2: concurrency needs a lease"),
            ("5/m block=1m..1h after=10", "term 1: block= cannot be in a shared store")]
    for (text, words), sent in zip(rows, written([Asked(text) for text, _ in rows])):
        check(f"{text} is refused", words in (sent.error or ""), sent.error)
    for guards in ("{} + breaker", "system cpu=80% + {}", "bbr + {} + vegas",
                   "gradient + aimd + {}", "adaptive-rate 1k/s min=100 max=10k + {}"):
        with_guards, alone = written([Asked(guards.format("10/s")), Asked("10/s")])
        expect(f"{guards}: as without", (with_guards.error, with_guards.keys, with_guards.terms),
               (None, alone.keys, alone.terms))
    sent, = written([Asked("concurrency 5 lease=1500ns + 10/s", ticket="t")])
    expect("concurrency with a lease", (sent.mask, sent.terms[0][3:5], sent.keys[0]),
           (17, (2, 5), b"weir:1:{api:alice}:0n"))


SCENES = (scripts_are_embedded_as_they_are_tested, what_is_stripped_is_nothing_that_runs,
          the_limits_of_all_vectors_are_sent_by_the_contract, hard_limits_are_sent_by_the_contract,
          random_limits_are_sent_by_the_contract, redis_answers_the_client_as_it_answers_the_tests,
          what_no_script_decides_is_refused_by_name)


def main():
    chosen = [word for word in sys.argv[2:] if not word.startswith("-")]
    for scene in SCENES:
        if chosen and scene.__name__ not in chosen:
            continue
        failed = len(FAILED)
        try:
            scene()
        except Exception:           # of this scene, not of the others
            check(scene.__name__, False, traceback.format_exc())
        print(f"{'ok' if failed == len(FAILED) else 'FAILED':6} {scene.__name__}", flush=True)
    return tally("requests of the client")


if __name__ == "__main__":
    sys.exit(main())
