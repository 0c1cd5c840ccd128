"""Commands a second through a pipeline, compared with redis-benchmark with the same command in the
same run.

Rounds alternate, so that what else the machine does falls on both; what is printed is the middle of
each, and the middle of the rounds' ratios.
"""

import re
import statistics
import subprocess

from pipelines_servers import Redis
from scripts_redis import script_text
from scripts_world import TAKE, blob

ROUNDS, ROUND_MS = 25, 250
SHAPES = [(1, 1), (8, 1), (1, 16), (1, 64), (8, 16)]    # threads, calls at once
BUCKET = (4, 1, 0, (10, 1, 10**9, 0, 0, 0, 0))          # a token bucket that never refuses: 100/ms


def peer(redis, threads, batch, words, rate):
    """redis-benchmark with as many connections as there are threads, for about a round."""
    count = max(1000, int(rate * ROUND_MS / 1000) // batch * batch)
    command = ["redis-benchmark", "-p", str(redis.port), "-n", str(count), "-c", str(threads), "-P",
               str(batch), "-q", *words]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    return float(re.findall(r"([0-9.]+) requests per second", text)[-1])


def ours(pipeline, threads, batch, words):
    encoded = (b"*%d\r\n" % len(words)
               + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
    pipeline.stdin.write(f"{threads} {batch} {ROUND_MS} {encoded.hex()}\n")
    pipeline.stdin.flush()
    return float(pipeline.stdout.readline().split()[1])


def measure(program):
    with Redis() as redis:
        # redis-benchmark cannot send a NUL: the request stands in the script.
        request = "".join(f"\\{byte}" for byte in blob(TAKE, -1, [BUCKET]))
        sha = redis.call("SCRIPT", "LOAD", f'local ARGV = {{"{request}"}} ' + script_text(1))
        take = [b"EVALSHA", sha, b"1", b"weir:1:{a:b}:0t"]
        print(f"{'':24}{'threads':>8}{'at once':>8}{'weir/s':>10}"
              f"{'redis-benchmark/s':>19}{'ratio':>7}")
        for name, words in (("INCR", [b"INCR", b"counter"]), ("token-bucket, a script", take)):
            with subprocess.Popen([program, "measure", f"port={redis.port}"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True) as pipeline:
                for threads, batch in SHAPES:
                    rate = ours(pipeline, threads, batch, words)    # to get warm
                    rounds = [(ours(pipeline, threads, batch, words),
                               peer(redis, threads, batch, words, rate))
                              for _ in range(ROUNDS)]
                    mine, theirs = (statistics.median(one) for one in zip(*rounds))
                    ratio = statistics.median(a / b for a, b in rounds)
                    print(f"{name:24}{threads:8}{batch:8}{mine:10.0f}{theirs:19.0f}{ratio:7.2f}",
                          flush=True)
                pipeline.stdin.close()
                print("  " + pipeline.stdout.read().strip())
    return 0
