"""The scripts answer as the library does: vectors, random scripts, extremes.

The reference is the oracle in microseconds (scripts_oracle.py), for every field of every line, and
beside it `weir sim` itself where the two must agree: without live changes, which happen at other
moments here, and under a clock that does not step back.
"""

import datetime
import glob
import os
import random

import run_sim
from scripts_kit import DAY_MS, NOW, SCRIPTS, SEED, TOKEN, WEIR, check, expect, told
from scripts_oracle import Store, oracle
from scripts_random import EXACT_RATES, Script, SteadyScript, compare, whole
from scripts_redis import HERE, RedisError, script_text
from scripts_world import COUNTS, TAKE, World, blob

FIELDS = run_sim.FIELDS


def whole_event(event, verdict, last_ns):
    """An event of a vector on whole microseconds: what is refused a little earlier, what passes a
    little later."""
    first, _, rest = event.partition(" ")
    if not first[0].isdigit():
        return whole(event), last_ns
    ns = run_sim.duration(first)
    us = ns // 1000 if verdict == "deny" else -(-ns // 1000)
    if ns >= last_ns[0]:
        us = max(us, last_ns[1])
    return f"{us}us {whole(rest)}", (ns, us)


def in_range(expect_of, row):
    """The expectations of a vector that this row misses, durations rounded up to microseconds."""
    if expect_of.verdict and expect_of.verdict != row["verdict"]:
        yield f"{expect_of.verdict}, got {row['verdict']}"
    for name, low, high in expect_of.fields:
        got = row["cost" if name == "returned" else name]
        if name in run_sim.DURATIONS and low >= 0:
            low, high = -(-low // 1000), -(-high // 1000)
        if str(low) != got if high is None else not low <= int(got) <= high:
            yield f"{name} {low}..{high}, got {got}"


def start_of(case):
    if case.start is None:
        return oracle.DEFAULT_START
    at = datetime.datetime.fromisoformat(case.start.replace("Z", "+00:00"))
    at = at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc)
    return round(at.timestamp()) * 10**6


def run_case(redis, case):
    """One vector. A live change reaches every key at once, as in the library: each is looked at
    then, and a term that starts fresh has other keys."""
    start = start_of(case)
    world, store = World(redis, start, case.name), Store(start)
    last, exact, keys, checked, lines = (0, 0), True, [], 0, []
    for number, event, wanted in case.script:
        line, last = whole_event(event, wanted.verdict if wanted else None, last)
        exact = exact and "ns" not in event
        lines.append(line)
        answers = store.line(line), world.line(line)
        here = f"{os.path.basename(case.path)}:{number}: {case.name}: {event}"
        if answers[0] != answers[1]:
            check(f"{here}: as the oracle has it", False, told(lines, len(lines) - 1, *answers))
            break
        if wanted and exact:        # after an event at a fraction of a microsecond times are others
            missed = list(in_range(wanted, dict(zip(FIELDS, answers[1]))))
            check(f"{here}: as the vector has it", not missed, missed)
            checked += 1
        if answers[0][1] == "limit":
            world.forget(fresh=True)
            store.forget_strangers()
            for key in keys:
                look = f"{answers[0][0]}us peek {key} 0"
                expect(f"{here}: converts {key}", world.line(look), store.line(look))
        elif answers[0][2] != "-" and answers[0][2] not in keys:
            keys.append(answers[0][2])
    world.forget()
    return checked


def is_of_rates(case):
    """Guards are entered and left, which neither the oracle nor a World's lines know; and no script
    has block= or warn=."""
    return all("enter" not in event.split()[:2] and "block=" not in event and "warn=" not in event
               for _, event, _ in case.script)


def vectors_have_their_answers(redis):
    cases = [case for path in sorted(glob.glob(os.path.join(HERE, "..", "..", "vectors", "*.vec")))
             for case in run_sim.parse(path) if is_of_rates(case)]
    checked = sum(run_case(redis, case) for case in cases)
    print(f"  {len(cases)} vectors; {checked} of their lines by their own words, all by the oracle")


def keys_are_those_of(redis, world, store):
    """Redis keeps what the oracle keeps, and no longer than it must."""
    for key, kept in store.keys.items():
        for at in world.keys.get(key, ()):
            left = redis.call("PTTL", f"{world.scope}:{{{key}}}:{at}")
            if (left != -2) != (at in kept):
                return f"{key} {at}: PTTL {left}, where the oracle has {kept.get(at)}"
    return None


def lifetime_is_exact(redis, world, store, key, before):
    """A key that was written ends with the millisecond in which it is as good as new."""
    terms, _, zeros = store.versions[-1]
    kept = store.keys.get(key, {})
    for t, zero, at in zip(terms, zeros, store.places(terms)):
        if at in kept and before.get(at) != kept[at]:
            left = redis.call("PTTL", f"{world.scope}:{{{key}}}:{at}")
            wanted = -(-t.reset_after(kept[at][1], store.now, zero) // 1000) + DAY_MS
            if not wanted - 2000 <= left <= wanted:
                return f"{key} {at}: PTTL {left}, where {wanted} was due"
    return None


def holdings_differ(redis, world, store, line, wanted):
    """Runs the line in the oracle; what is wrong with the keys in Redis then, or None."""
    before = dict(store.keys.get(wanted[2], {}))
    store.line(line)
    return (keys_are_those_of(redis, world, store)
            or lifetime_is_exact(redis, world, store, wanted[2], before))


def run_script(redis, script, name, looks):
    """A script line by line; if it looks, what Redis holds after each line too."""
    world = World(redis, script.start_us, name, (script.seed % 5 - 2) * 1800 * 10**6)
    store = Store(script.start_us) if looks else None
    for at, (line, wanted) in enumerate(zip(script.lines, script.rows)):
        try:
            got = world.line(line)
        except RedisError as why:
            got = why
        if not check(f"{name}, line {at + 1}", wanted == got, told(script.lines, at, wanted, got)):
            return
        wrong = holdings_differ(redis, world, store, line, wanted) if looks else None
        if not check(f"{name}, line {at + 1}: what Redis holds", not wrong,
                     f"{wrong}{told(script.lines, at, wanted, got)}"):
            return
    world.forget()


def random_scripts_have_the_oracles_answers(redis):
    for seed in range(SEED, SEED + SCRIPTS):
        run_script(redis, Script(seed), f"random script {seed}", seed % 8 == 0)


# Of estimates: what once had other answers than the oracle's, and what it showed.
KEPT = {
    218: "a lapse and a reserve are one script, so the window before keeps what weighs nothing now",
    247: "a lapse and a cancel are one script: the cancel takes back events that weigh nothing",
    1492: "count-denied alone is no change",
    2672: "a lapse is settled before the take that finds it, not after",
    4630: "another per-slot alone is no change",
    10773: "a term that came and went, with no request in between",
    6001037: "across a change of the rate the remainder of a stamp means nothing",
    6001338: "another warmup= is another limit reported, so it is a change",
    6003503: "a bucket that was given back nothing still knows what its callers depend on",
    11002502: "a bucket that was given back all does not remember that callers waited",
    12674: "where all has lapsed, noting a change deletes the account: a step back finds none",
}


def random_estimates_are_settled_as_by_the_oracle(redis):
    first = SEED + compare.ACCOUNTS
    kept = [10**6 + compare.ACCOUNTS + seed for seed in KEPT]
    for seed in (*kept, *range(first, first + SCRIPTS // 2)):
        run_script(redis, Script(seed), f"estimates {seed}", seed % 8 == 0)


def many_small_estimates_are_settled_as_by_the_oracle(redis):
    for seed in range(SEED + compare.SMALL, SEED + compare.SMALL + SCRIPTS // 4):
        run_script(redis, SteadyScript(seed), f"small estimates {seed}", False)


def differs_from_sim(script):
    """Where `weir sim` says otherwise: its nanoseconds rounded up must be our microseconds."""
    rows = compare.weir_sim(WEIR, script.start, script.lines)
    for at, (ours, row) in enumerate(zip(script.rows, rows)):
        spans = tuple(str(-(-int(span) // 1000)) if span not in ("-", "-1") else span
                      for span in row[8:11])
        if ours != (str(int(row[0]) // 1000), *row[1:8], *spans, *row[11:]):
            return told(script.lines, at, row, ours)
    return None if len(rows) == len(script.rows) else rows[-1:]


def must_be_alike(script):
    """Not at the end of time, which is another; nor where a commit, as a charge may, ends 2^62 ns
    ahead, which is no whole microsecond; nor where cancel returns the least that rounding allows,
    which is less here: above one event a microsecond."""
    cancels = any(" cancel " in line for line in script.lines)
    if script.sim.store.now > 2**51 or any(row[10] == str(oracle.LONGEST) for row in script.rows):
        return False
    return (not cancels
            or all(t.T >= 1 for t in script.sim.store.versions[0][0]
                   if isinstance(t, oracle.Bucket)))


def the_library_answers_alike(redis):
    alike, estimates = 0, SEED + compare.ACCOUNTS
    for seed in (*range(SEED, SEED + SCRIPTS // 2), *range(estimates, estimates + SCRIPTS // 8)):
        script = SteadyScript(seed)
        if must_be_alike(script):
            wrong = differs_from_sim(script)
            check(f"steady script {seed}: weir sim agrees", not wrong, wrong)
            run_script(redis, script, f"steady script {seed}", False)
            alike += 1
    print(f"  {alike} scripts through weir sim too")


# Where Redis settles otherwise than the library, and may (docs/guide/fleet.md): a sentence, what is
# returned in Redis and by the library, and lines whose last one returns it.
RETURNED = (
    ("a change of no number is no change", 8, 0, (
        "limit token-bucket 9/s", "0s reserve k 8 ttl=1s as=a",
        "0s limit token-bucket 9/s shadow", "0s cancel a")),
    ("a change of a number is one", 0, 0, (
        "limit token-bucket 9/s", "0s reserve k 8 ttl=1s as=a",
        "0s limit token-bucket 10/s", "0s cancel a")),
    ("a change of a window's number is one", 0, 0, (
        "limit fixed-window 9/1h", "0s reserve k 8 ttl=1s as=a",
        "0s limit fixed-window 10/1h", "0s cancel a")),
    ("numbers that were changed back before a request came are no change", 5, 0, (
        "limit fixed-window 9/1h", "0s reserve k 5 ttl=1s as=a", "0s limit fixed-window 10/1h",
        "0s limit fixed-window 9/1h", "0s cancel a")),
    ("another algorithm in between, without a request, is no change", 5, 0, (
        "limit fixed-window 9/1h", "0s reserve k 5 ttl=1s as=a", "0s limit token-bucket 10/s",
        "0s limit fixed-window 9/1h", "0s cancel a")),
    ("a reservation under another algorithm in between is a change", 0, 0, (
        "limit fixed-window 9/1h", "0s reserve k 5 ttl=1s as=a", "0s limit token-bucket 10/s",
        "0s reserve k 5 ttl=1s as=b", "0s limit fixed-window 9/1h", "0s cancel a")),
    ("a settlement under other numbers is a change, though it finds nothing", 0, 0, (
        "limit fixed-window 9/1h", "0s reserve k 5 ttl=1s as=a", "0s reserve k 1 ttl=1s as=b",
        "0s cancel b", "0s limit fixed-window 10/1h", "0s cancel b", "0s limit fixed-window 9/1h",
        "0s cancel a")),
    ("a key that has fully recovered is gone, though its events might still be taken back", 0, 3, (
        "limit sliding-counter 20/1d", "22h reserve k 3 ttl=1h lapse=free as=a",
        "22h reserve k 3 ttl=1d as=b", "45h peek k 0", "45h cancel b")),
    ("what has lapsed is given back before a take is cancelled", 0, 2, (
        "limit token-bucket 1/s burst=10", "0s reserve k 5 ttl=1s lapse=free as=a", "0s take k 5",
        "0s take k 2 wait=forever as=b", "1500ms cancel b")),
)


def estimates_are_settled_otherwise_where_it_is_said(redis):
    for n, (sentence, in_redis, by_library, lines) in enumerate(RETURNED):
        world, store = World(redis, oracle.DEFAULT_START, f"r{n}"), Store(oracle.DEFAULT_START)
        rows = [(world.line(line), store.line(line)) for line in lines]
        expect(f"{sentence}: as the oracle", *rows[-1])
        expect(sentence, int(rows[-1][0][3]), in_redis)
        expect(f"{sentence}: the library", int(compare.weir_sim(WEIR, None, lines)[-1][3]),
               by_library)
        world.forget()


EXTREME_COUNTS = (1, 2, 3, 7919, 65536, 4294967295, 4294967296, 999999999989, 10**12)
EXTREME_PERIODS = ("1us", "2us", "7us", "999us", "s", "86399s", "366d", "31622399s999999us")
# of buckets: any nanosecond
EXTREME_RATES = ("1001ns", "1999ns", "86399s1ns", "9007199s254740991ns")
EXTREME_COSTS = (0, 1, 2, 10**12 - 1, 10**12, 10**12 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1)


def extreme_limit(rng):
    name = rng.choice(("token-bucket", "leaky-bucket", "pacer", "smooth-bursty", "smooth-warmup",
                       "min-interval",
                       "fixed-window", "sliding-window", "sliding-counter", "sliding-log"))
    count, period = rng.choice(EXTREME_COUNTS), rng.choice(EXTREME_PERIODS)
    if name in EXACT_RATES:
        period = rng.choice((*EXTREME_PERIODS, *EXTREME_RATES))
    us = oracle.UNITS[period] if period in oracle.UNITS else oracle.parse_duration(period)
    most = int(min(10**12, 2**52 * count // us))     # events that drain by the end of time
    some = rng.choice((1, most, rng.randint(1, most)))
    flag = rng.choice(("", "", " count-denied"))
    if name == "min-interval":
        return f"{name} {period if period != 's' else '1s'}{flag}"
    if name == "sliding-log":
        count = min(count, 65536)
    options = {"token-bucket": rng.choice((f" burst={some}", f" burst={most} initial={some}")),
               "leaky-bucket": rng.choice((f" capacity={some}", f" capacity={most} delay={some}")),
               "pacer": f" slack={max(0, some // 2 - 1)} queue={some - some // 2}",
               "smooth-bursty": " max-burst={}us".format(
                   int(min(10**12 * us // count, rng.choice((0, 1, us))))),
               "smooth-warmup": " warmup={}us cold={}".format(
                   int(max(1, min(366 * 86400 * 10**6, 10**11 * us // count))),
                   rng.choice(("1", "3", "1.001", "100", "99.999"))),
               "sliding-window": f" slots={1 if us % 10 else 10}"}
    return f"{name} {count}/{period}{options.get(name, '')}{flag}"


def extreme_script(rng, start, at_end):
    """Lines with the largest and smallest of everything, on one store's oracle."""
    store, lines, rows = Store(start), [], []
    now, span = 0, 1

    def put(line):
        rows.append(store.line(line))
        lines.append(line)
    put(f"limit {extreme_limit(rng)}")
    try:
        for _ in range(12):
            if not at_end:
                now += rng.choice((0, 0, 1, span, max(0, span - 1)))
            now = min(now, 2**52 - start)
            limit = store.versions[-1][0][0].limit
            cost = rng.choice((*EXTREME_COSTS, 1, limit, limit, limit + 1, max(1, limit // 2)))
            wait = rng.choice((" wait=0us", " wait=forever", " wait=1us", f" wait={2**52}us",
                               f" wait={span}us"))
            verb = rng.choice(("take", "take", "take", "peek", "refund", "charge"))
            put(f"{now}us {verb} k {cost}{wait if verb in ('take', 'peek') else ''}")
            span = max([int(f) for f in rows[-1][8:11] if f not in ("-", "-1")] or [1])
    except OverflowError:
        pass                        # the contract ends here
    return lines, rows


def the_largest_and_the_smallest_numbers_are_exact(redis):
    rng = random.Random(SEED)
    for n in range(SCRIPTS * 2):
        start = rng.choice((0, 0, NOW, 2**52 - 1, 2**52))
        lines, rows = extreme_script(rng, start, start >= 2**52 - 1)
        world = World(redis, start, f"x{n}")
        for at, (line, wanted) in enumerate(zip(lines, rows)):
            try:
                got = world.line(line)
            except RedisError as why:
                got = why
            wanted = capped(wanted)
            if (not check(f"extreme script {n}, line {at + 1}", wanted == got,
                          told(lines, at, wanted, got))):
                break
        world.forget()


def capped(row):
    """What refund returns is told up to 2^53."""
    if row[1] == "refund":
        return row[:3] + (str(min(int(row[3]), 2**53)),) + row[4:]
    return row


# Behind the prelude: what it makes of pairs of numbers in decimal. Pieces of seven digits, the
# lowest first.
INTEGERS = """
local function decimal(x)
  local out = {}
  repeat
    local digit
    x, digit = div(x, 10000000)
    out[#out + 1] = string.format(x == 0 and '%d' or '%07d', digit)
  until x == 0
  return out
end
local function read(text)
  local x = 0
  for i = 1, #text, 7 do
    local piece = string.sub(text, i, i + 6)
    x = add(mul(x, 10 ^ #piece), tonumber(piece))
  end
  return x
end
local out = {}
for i = 2, #ARGV, 2 do
  local a, b = read(ARGV[i]), read(ARGV[i + 1])
  local q, r = div(a, b)
  out[#out + 1] = {decimal(add(a, b)), decimal(mul(a, b)), decimal(q), decimal(r),
                   decimal(div_up(a, b)), less(a, b) and 1 or 0, less(b, a) and 1 or 0,
                   less(b, a) and decimal(sub(a, b)) or {}}
end
return out
"""


def integer_of(pieces):
    return int("".join(piece.decode() for piece in reversed(pieces))) if pieces else None


def exact_integers_are_exact(redis):
    rng = random.Random(7)
    text = script_text("head", "plain", "prelude") + INTEGERS
    draw = [lambda: rng.getrandbits(rng.randint(1, 170)),
            lambda: 2**rng.randint(1, 170) + rng.randint(-1, 1),
            lambda: 10**rng.randint(0, 50), lambda: rng.randint(1, 100)]
    for _ in range(200):
        pairs = [(max(1, rng.choice(draw)()), max(1, rng.choice(draw)())) for _ in range(20)]
        numbers = [str(x) for pair in pairs for x in pair]
        request = blob(TAKE, 0, [(TOKEN + COUNTS, 1, 0, [1, 1, 1])])
        replies = redis.call("EVAL", text, 1, "k", request, *numbers)
        for (a, b), got in zip(pairs, replies):
            wanted = [a + b, a * b, a // b, a % b, -(-a // b), int(a < b), int(b < a),
                      a - b if b < a else None]
            got = [integer_of(x) if isinstance(x, list) else x for x in got]
            if not expect(f"{a} and {b}", got, wanted):
                return
