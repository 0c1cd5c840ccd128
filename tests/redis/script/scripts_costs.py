"""What a decision costs Redis, family by family, beside the two smallest limiters one could write.

The figure is the processor time of Redis's main thread for one call, all included (reading the
request, writing the reply), from INFO cpu; the least of many rounds, for other programs only add to
it.
"""

from scripts_redis import resp, script_text
from scripts_world import FOREVER, TAKE, blob, mask_of

CALLS, ROUNDS = 500, 40

# The due time in a few lines: doubles, no remainder, no options, two numbers of answer.
SMALLEST_BUCKET = """
local t = redis.call('TIME')
local now, step, full = t[1] * 1000000 + t[2], tonumber(ARGV[1]), tonumber(ARGV[2])
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + step
if due - now > full then
  return {0, due - now - full}
end
redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', math.ceil((due - now) / 1000))
return {1, math.floor((full - (due - now)) / step)}
"""

# A counter with a lifetime, Redis keeping the window.
SMALLEST_WINDOW = """
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SET', KEYS[1], 0, 'PX', ARGV[2])
end
return {redis.call('INCRBY', KEYS[1], ARGV[1]), redis.call('PTTL', KEYS[1])}
"""

TERMS = (
    ("token-bucket, granted", (4, 1, 0, [10, 1, 10**9])),
    ("token-bucket, 3/s", (4, 1, 0, [10**6, 3, 10**7])),
    ("token-bucket, refused", (4, 1, 0, [10**9, 1, 1])),
    ("token-bucket, count-denied", (20, 1, 0, [10, 1, 10**9])),
    ("token-bucket of 10^12 an hour", (4, 1, 0, [9, 2500, 10**12])),
    ("leaky-bucket", (5, 1, 0, [10, 1, 10**9, 0, 0, -1])),
    ("pacer", (6, 1, FOREVER, [10, 1, 1, 0, 0, 10**9, FOREVER])),
    ("smooth-bursty", (7, 1, FOREVER, [10, 1, 10**5, 0, 0, 10**6])),
    ("min-interval", (9, 1, 0, [1, 1, 1])),
    ("fixed-window", (0, 1, 0, [60 * 10**6, 10**9, 0])),
    ("sliding-window, 10 slots", (1, 1, 0, [10**5, 10**9, 10, -1])),
    ("sliding-window, 1000 slots", (1, 1, 0, [10**3, 10**9, 1000, -1])),
    ("sliding-counter", (2, 1, 0, [10**6, 10**9])),
    ("sliding-log, 20 entries", (3, 1, 0, [10**3, 20, 0])),
    ("sliding-log, 65536 entries", (3, 1, 0, [10**6, 65536, 0])),
    ("smooth-warmup", (8, 1, FOREVER, [500000, 1, 8, 4 * 10**6, 3, 1])),
    ("concurrency", (10, 1, 0, [60 * 10**6, 1000])),
)
SEVERAL = (("token-bucket + fixed-window", [TERMS[0][1], TERMS[9][1]]),
           ("four token-buckets", [TERMS[0][1]] * 4))


def spent(redis):
    cpu = redis.info("cpu")
    return float(cpu["used_cpu_user_main_thread"]) + float(cpu["used_cpu_sys_main_thread"])


class Row:
    """A script with its arguments, and the least it took in any round."""

    def __init__(self, redis, name, text, keys, *arguments):
        sha = redis.call("SCRIPT", "LOAD", text)
        self.name, self.least = name, (1e9, 1e9)
        self.batch = b"".join(resp.encode("EVALSHA", sha, keys,
                                          *(f"{{{name}{i % 100}}}{k}" for k in range(keys)),
                                          *arguments) for i in range(CALLS))

    def run(self, redis):
        redis.call("CONFIG", "RESETSTAT")
        before = spent(redis)
        redis.socket.sendall(self.batch)
        for _ in range(CALLS):
            redis.read()
        processor = (spent(redis) - before) / CALLS * 10**6
        counted = redis.info("commandstats")["cmdstat_evalsha"]
        command = counted.partition("usec_per_call=")[2].split(",")[0]
        self.least = min(self.least[0], processor), min(self.least[1], float(command))


def print_costs(redis):
    rows = [Row(redis, "(the smallest bucket)", SMALLEST_BUCKET, 1, 10, 10**9),
            Row(redis, "(the smallest window)", SMALLEST_WINDOW, 1, 1, 60000)]
    for name, terms in [(name, [term]) for name, term in TERMS] + list(SEVERAL):
        rows.append(Row(redis, name, script_text(mask_of(terms)), len(terms), blob(TAKE, -1, terms),
                        "t"))
    for _ in range(ROUNDS):     # in turn: what else runs on the machine is the same for all
        for row in rows:
            row.run(redis)
    print(f"{'microseconds of Redis a call':34} {'processor':>9} {'command':>8} {'x smallest':>10}")
    for row in rows:
        print(f"{row.name:34} {row.least[0]:9.1f} {row.least[1]:8.1f} "
              f"{row.least[1] / rows[0].least[1]:10.2f}")
    return 0
