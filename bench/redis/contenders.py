"""The programs that ask a Redis for decisions, and what each of them takes.

All ask one Redis, for the same keys: twelve digits below KEYS, drawn at random, all of which are
there before it counts. The library asks through remote_take. redis-benchmark sends what the library
sends, word by word as the Redis heard it (MONITOR), but for the digits. rate-limiter-flexible has
keys and a script of its own.

A sample is a dictionary:

    rate                 decisions a second
    call_us              of a script call, by Redis's own account (INFO commandstats)
    server_ns            processor time of the Redis for a decision, kernel and all
    client_ns            that of the client
    p50_us, p99_us       of a call, from asking to answer; of a pipeline, for all of it
    lost                 the part of the time in which the Redis or its caller waited for a core
"""
import os
import re
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "wire"))
import servers  # noqa: E402

KEYS = 100000
DIGITS = "0" * 12
FIRST_GUESS = 10000  # requests a second of a contender that has not run yet
CLIENTS_OF_DAEMON = 50


class Limit:
    """writes: how many keys a decision writes."""

    def __init__(self, name, text, refused=False, writes=1):
        self.name, self.text, self.refused, self.writes = name, text, refused, writes


# A key regains one event a minute, and has a million; or has none left for a day.
GRANTED = Limit("granted", "token-bucket 1/1m burst=1000000")
REFUSED = Limit("refused", "token-bucket 1/1d burst=1", refused=True, writes=0)
WINDOW = Limit("window", "fixed-window 1000000/1h")
BOTH = Limit("both", "token-bucket 1/1m burst=1000000 + fixed-window 1000000/1h", writes=2)
LIMITS = (GRANTED, REFUSED, WINDOW, BOTH)


def numbers(line):
    return {k: float(v) for k, v in (pair.split("=") for pair in line.split())}


def on_core(core, words):
    return ["taskset", "-c", str(core), *map(str, words)]


def schedule_of(pid):
    """Of its first thread, in ns: (processor time, ready while another process had the core)."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        ran, waited, _ = f.read().split()
    return int(ran), int(waited)


def run(words, **options):
    """What it said, and what its first thread used of the machine: looked at after its end, before
    it is gone."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **options) as p:
        os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
        used = schedule_of(p.pid)
        said, errors = p.communicate()
    if p.returncode != 0 or "Error from server" in errors + said:
        raise SystemExit(f"{' '.join(words)}\n{said}{errors}")
    return said, used


def monitored(line):
    """The words of a line of MONITOR, in bytes."""
    words = re.findall(rb'"((?:[^"\\]|\\.)*)"', line)
    return [w.decode("latin-1").encode().decode("unicode_escape").encode("latin-1") for w in words]


class RemoteStore:
    """A Redis that holds all keys of these limits, and the programs that ask it."""

    def __init__(self, build, cores, limits, flexible=None):
        self.server_core, self.client_core = cores
        self.take_program = os.path.join(build, "bench", "remote_take")
        self.needle = os.path.join(build, "bench", "libremote_needle.so")
        self.weir_program = os.path.join(build, "weir")
        self.packages = flexible  # the folder with flexible.mjs and what it needs
        self.redis = servers.redis([self.server_core])
        # No caller gives up: a fallback is fast, and would count.
        self.url = f"redis://{self.redis.address}?timeout=10s"
        self.guesses = {}
        self.words = {limit.name: self.learn(limit) for limit in limits}
        if flexible:
            run(self.flexible_words(64, 0, 0, True))

    def stop(self):
        self.redis.stop()

    # ---- The library ------------------------------------------------------------------------

    def take_words(self, limit, **options):
        words = [self.take_program, "--store", self.url, "--name", limit.name, "--limit",
                 limit.text, "--server", self.redis.pid, "--keys", options.pop("keys", KEYS)]
        words += ["--refused"] if limit.refused else []
        for name, value in options.items():
            words += [f"--{name}"] + ([] if value is True else [value])
        return on_core(self.client_core, words)

    def learn(self, limit):
        """Fills it with keys, and returns what the library says for one: the words of the
        command."""
        run(self.take_words(limit, each=True))
        with socket.create_connection(("127.0.0.1", self.redis.port), 10) as s, \
                s.makefile("rb") as lines:
            s.sendall(b"MONITOR\r\n")
            lines.readline()
            run(self.take_words(limit, each=True, keys=1))
            key = b":{%s:%s}:" % (limit.name.encode(), DIGITS.encode())
            return next(monitored(line) for line in lines if b'"EVALSHA"' in line and key in line)

    def library(self, limit, threads=1, batch=1, seconds=0.25, warm=0.05):
        def ask():
            said, _ = run(self.take_words(limit, threads=threads, batch=batch, seconds=seconds,
                                          warm=warm))
            return numbers(said)
        return self.watched(ask, limit)

    # ---- redis-benchmark --------------------------------------------------------------------

    def benchmark(self, limit, clients=1, depth=1, seconds=0.25):
        """The library's own words, from as many connections, `at once` in each."""
        words = self.words[limit.name]
        raw = next(i for i, w in enumerate(words) if b"\0" in w)
        path = os.path.join(self.redis.dir, f"{limit.name}.raw")
        with open(path, "wb") as f:
            f.write(words[raw])
        marked = [w.decode("latin-1").replace(DIGITS, "__rand_int__") for w in words]
        marked[raw] = "Q" * len(words[raw])
        env = os.environ | {"LD_PRELOAD": self.needle, "REMOTE_WORD": marked[raw],
                            "REMOTE_BYTES": path}
        sample = self.watched(lambda: self.run_benchmark(self.redis, marked, clients, depth,
                                                         seconds, env), limit)
        if not self.redis.ask("EXISTS", marked[3]).startswith(":0"):
            raise SystemExit("redis-benchmark asked for a key that is not random")
        return sample

    def incr(self, clients=1, depth=1, seconds=0.25):
        """The least that a Redis can be asked to count."""
        return self.watched(lambda: self.run_benchmark(self.redis, ("INCR", "bare:__rand_int__"),
                                                       clients, depth, seconds), None, "incr")

    def run_benchmark(self, to, command, clients, depth, seconds, env=None):
        who = (to.port, *command[:4], clients, depth)
        if who not in self.guesses:
            self.guesses[who] = FIRST_GUESS
            self.guesses[who] = self.run_benchmark(to, command, clients, depth, 0.1, env)["rate"]
        n = max(100, round(seconds * self.guesses[who]))
        before = (servers.cpu_ns(self.redis.pid), servers.waited_ns(self.redis.pid),
                  servers.cpu_ns(to.pid))
        said, (ran, waited) = run(on_core(self.client_core, (
            "redis-benchmark", "-p", to.port, "-c", clients, "-P", depth, "-n", n, "-r", KEYS,
            "--csv", *command)),
            env=env)
        rate, _, _, p50, _, p99, _ = (float(word.strip('"'))
                                      for word in said.splitlines()[-1].rsplit(",", 7)[1:])
        self.guesses[who] = rate
        waited = max(waited, servers.waited_ns(self.redis.pid) - before[1])
        return {"decisions": n, "rate": rate,
                "server_ns": (servers.cpu_ns(self.redis.pid) - before[0]) / n,
                "daemon_ns": (servers.cpu_ns(to.pid) - before[2]) / n, "client_ns": ran / n,
                "p50_us": 1e3 * p50, "p99_us": 1e3 * p99, "lost": waited * rate / n / 1e9}

    # ---- The daemon -------------------------------------------------------------------------

    def open_daemon(self, limit):
        """On the core of its clients."""
        return servers.Server(lambda d, port: [
            self.weir_program, "serve", "--listen", f"127.0.0.1:{port}", "--threads", "1",
            "--store", self.url, "--limit", f"{limit.name}={limit.text}"], [self.client_core])

    def daemon(self, daemon, limit, clients=CLIENTS_OF_DAEMON, depth=1, seconds=0.25):
        command = ("WEIR.TAKE", limit.name, "__rand_int__")
        return self.watched(lambda: self.run_benchmark(daemon, command, clients, depth, seconds),
                            limit)

    # ---- rate-limiter-flexible --------------------------------------------------------------

    def flexible_words(self, callers, seconds, warm, pipelining):
        return on_core(self.client_core,
                       ("node", os.path.join(self.packages, "flexible.mjs"), self.redis.port,
                        self.redis.pid, callers, seconds, warm, KEYS, int(pipelining)))

    def flexible(self, callers=1, pipelining=False, seconds=0.25, warm=0.5):
        def ask():
            return numbers(run(self.flexible_words(callers, seconds, warm, pipelining))[0])
        return self.watched(ask, None)

    # ---- What Redis says --------------------------------------------------------------------

    def watched(self, ask, limit, command="evalsha"):
        """What Redis itself counted meanwhile; that it was asked so often, and decided what the
        limit is to."""
        self.redis.ask("CONFIG", "RESETSTAT")
        sample = ask()
        said = self.redis.ask("INFO", "commandstats")
        stats = {m[1]: numbers(m[2].replace(",", " "))
                 for m in re.finditer(r"cmdstat_(\S+):(\S+)", said)}
        calls = {name: stat["calls"] for name, stat in stats.items()}
        beats = calls.get("zcard", 0)  # the node says that it is there: a script, too
        if calls[command] < sample["decisions"] or stats[command]["failed_calls"] > 0:
            raise SystemExit(f"Redis did not decide all of {sample['decisions']}: {said}")
        if limit and calls.get("set", 0) != limit.writes * (calls[command] - beats):
            raise SystemExit(f"not all of {limit.name} were: {said}")
        return sample | {"call_us": stats[command]["usec_per_call"]}
