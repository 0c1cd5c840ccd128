"""Monitors on a real Redis: which nodes count, and what makes a store down or up.

    monitors.py PATH_TO_MONITORS [SCENE...]

A scene is a function named as a sentence. Nothing sleeps: all is waited for.
"""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
from pipelines_servers import Fake, Redis, free_port, until  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
PATIENCE_S = 20
NODES, FORMAT = "weir:1:{fleet}:nodes", "weir:{fleet}:format"
SLACK_MS = 1000                     # what a busy machine may add
FAILED, PASSED = [], []


def check(sentence, good, detail=""):
    (PASSED if good else FAILED).append(sentence)
    if not good:
        print(f"FAILED: {sentence}\n  {str(detail)[:2000]}", flush=True)
    return good


class Monitor:
    """A process with one monitor; a test can wait for lines that it prints. Use as a context."""

    def __init__(self, url):
        self.process = subprocess.Popen([PROGRAM, url], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines, self.seen = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait(PATIENCE_S)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def until(self, pattern, seconds=PATIENCE_S):
        """The next line that matches; what comes before it is skipped."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.001, end - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise TimeoutError(f"no line like {pattern!r}; there were {self.seen}")
            self.seen.append(line)
            if re.search(pattern, line):
                return line

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line, pattern):
        self.say(line)
        return self.until(pattern)

    def opened(self):
        """How long it took, and whether the store is up."""
        words = self.until("^opened ").split()
        return int(words[1]), words[2] == "up"

    def close(self):
        """How long that took."""
        took = int(self.ask("close", "^closed ").split()[1])
        self.end()
        return took

    def end(self):
        """It has been closed: it ends well."""
        self.process.stdin.close()
        check("it ends well", self.process.wait(PATIENCE_S) == 0, self.process.returncode)


def url_of(redis, *options, login="", host="127.0.0.1"):
    """With more time than a busy machine needs, unless told otherwise."""
    if not any(option.startswith("timeout=") for option in options):
        options = ("timeout=2s", *options)
    return f"redis://{login}{host}:{redis.port}?" + "&".join(options)


def beats(redis, times=2):
    """Waits until all nodes that are listed and live have been heard of so often."""
    start = {name: score for name, score in scores(redis).items()}
    for _ in range(times):
        until(lambda: any(score != start.get(name) for name, score in scores(redis).items()))
        start = scores(redis)


def scores(redis):
    words = redis.call("ZRANGE", NODES, 0, -1, "WITHSCORES")
    return dict(zip(words[::2], words[1::2]))


# ---- Which nodes there are ---------------------------------------------------------------------


def three_count_each_other():
    with Redis() as redis, Monitor(url_of(redis)) as a, Monitor(url_of(redis)) as b, \
            Monitor(url_of(redis)) as c:
        for one in (a, b, c):
            ms, there = one.opened()
            check("it opens once the first heartbeat is answered", there and ms < 2000, ms)
            check("a node that opens has been counted", "nodes" in " ".join(one.seen), one.seen)
        for one in (a, b, c):
            if "nodes 3" not in one.seen:
                one.until("^nodes 3$")
        check("no node heard of more", not any("nodes 4" in one.seen for one in (a, b, c)))
        c.close()
        check("the first hears that one has left", a.until("^nodes ") == "nodes 2")
        check("the second too", b.until("^nodes ") == "nodes 2")
        b.process.kill()
        b.process.wait()
        beats(redis, 3)
        check("one that was killed is still counted", len(scores(redis)) == 2, scores(redis))
        check("and no node heard otherwise", a.lines.empty(), list(a.lines.queue))
        name = [name for name,
                score in scores(redis).items() if score == min(scores(redis).values())][0]
        redis.call("ZADD", NODES, "XX", int(time.time() * 10**6) - 601 * 10**6, name)
        check("until it has not been heard of for ten minutes", a.until("^nodes ") == "nodes 1")


def a_number_that_is_told_is_not_counted():
    with Redis() as redis, Monitor(url_of(redis, "nodes=7")) as one, \
            Monitor(url_of(redis)) as other:
        one.opened()
        check("it is on the list all the same", other.until("^nodes 2$") == "nodes 2")
        beats(redis)
        check("but is told nothing",
              not any(line.startswith("nodes") for line in one.seen) and one.lines.empty())


def a_child_is_another_node():
    with Redis() as redis, Monitor(url_of(redis)) as parent:
        parent.opened()
        parent.say("fork")
        check("a child has no thread at first", parent.until("^child runs") == "child runs 0")
        check("it is counted once it is hurried", parent.until("^child nodes") == "child nodes 2")
        check("and then it has one", parent.until("^child runs") == "child runs 1")
        parent.until("^forked")
        check("its going is heard",
              "nodes 1" in parent.seen or parent.until("^nodes 1$") == "nodes 1", parent.seen)
        parent.close()
        check("the list is empty then", redis.call("EXISTS", NODES) == 0)


def another_prefix_is_another_fleet():
    with Redis() as redis, Monitor(url_of(redis, "prefix=blue")) as blue, \
            Monitor("redis+unix:" + redis.path + "?prefix=green&timeout=2s") as green:
        check("opens", blue.opened()[1] and green.opened()[1])
        check("each is alone", "nodes 1" in blue.seen and "nodes 1" in green.seen)
        check("in a list of its own", redis.call("EXISTS", "blue:1:{fleet}:nodes",
                                                 "green:1:{fleet}:nodes") == 2)


# ---- Away and back -----------------------------------------------------------------------------


def killed_and_started_again():
    with Redis() as redis, Monitor(url_of(redis)) as a, Monitor(url_of(redis)) as b:
        for one in (a, b):
            one.until("^nodes 2$")
        redis.kill()
        for one in (a, b):
            line = one.until("^log ", 5)
            check("an idle node notices by its heartbeat, and logs its share",
                  re.fullmatch(rf"log redis://127.0.0.1:{redis.port} is down: .+; limits fall back "
                               r"\(local: 1/2 each\)",
                               line), line)
        redis.start()
        for one in (a, b):
            line = one.until("^log ", 5)
            good = re.fullmatch(r"log \S+ is up after [0-9.]+ m?s; 0 decisions fell back, 0 "
                                r"granted", line)
            check("it is back", good, line)
        beats(redis, 3)
        check("a list that was lost has them not believe that they are alone",
              a.lines.empty() and b.lines.empty(), (list(a.lines.queue), list(b.lines.queue)))
        with Monitor(url_of(redis)) as c:
            c.until("^nodes 3$")
            check("but more are believed", a.until("^nodes ") == "nodes 3")


def a_failed_call_has_it_looked_after_at_once():
    with Redis() as redis, Monitor(url_of(redis)) as one:
        one.opened()
        began = time.monotonic()
        one.say("fail no answer in 50 ms")
        line = one.until("^log .* is down")
        check("the caller that failed says why", "is down: no answer in 50 ms;" in line, line)
        one.until("^log .* is up after")
        took = time.monotonic() - began
        check("a tenth of a second later it is back", 0.09 < took < 0.9, took)


def not_there_at_first():
    port = free_port()
    with Monitor(f"redis://127.0.0.1:{port}?timeout=100ms") as one:
        ms, there = one.opened()
        check("to open is no error, and takes no time", not there and ms < SLACK_MS, ms)
        check("the log is told",
              any("is down: " in line and "refused" in line.lower() for line in one.seen), one.seen)
        check("creation times are not asked for",
              one.ask("created s", "^created ").split()[1] == "-1")
        took = one.close()
        check("it closes at once", took < SLACK_MS, took)


def one_that_stands_still():
    with Redis() as redis, Monitor(url_of(redis, "timeout=100ms")) as one:
        one.opened()
        os.kill(redis.process.pid, signal.SIGSTOP)
        try:
            line = one.until("^log ", 5)
            check("no answer is a reason", "is down: no answer" in line, line)
            with Monitor(url_of(redis, "timeout=50ms")) as other:
                ms, there = other.opened()
                check("to open waits for a timeout or so", not there and ms < 500 + SLACK_MS, ms)
                took = other.close()
                check("to close, for one at most", took <= 50 + SLACK_MS, took)
        finally:
            os.kill(redis.process.pid, signal.SIGCONT)
        one.until("^log .* is up after", 5)
        os.kill(redis.process.pid, signal.SIGSTOP)
        try:
            took = one.close()              # whether it has heard of it or not
            check("to say goodbye takes one timeout at most", took <= 100 + SLACK_MS, took)
        finally:
            os.kill(redis.process.pid, signal.SIGCONT)


def a_wrong_password_is_told_and_a_right_one_is_not():
    with Redis("--requirepass", "secret") as redis:
        with Monitor(url_of(redis, login=":sesame@")) as one:
            check("it is down", not one.opened()[1])
            line = [line for line in one.seen if line.startswith("log")][0]
            check("the log says why", "is down: WRONGPASS" in line, line)
            check("but not what was tried", "sesame" not in " ".join(one.seen), one.seen)
            redis.call("CONFIG", "SET", "requirepass", "sesame")
            one.until("^log .* is up after", 5)
            redis.call("CONFIG", "SET", "requirepass", "secret")
        with Monitor(url_of(redis, login=":secret@")) as one:
            check("with the right one it is there", one.opened()[1], one.seen)
        with Monitor(url_of(redis)) as one:
            one.opened()
            check("none at all is told too", any("is down: NOAUTH" in line for line in one.seen),
                  one.seen)


def one_that_may_only_be_read_is_down():
    with Redis() as redis, Monitor(url_of(redis)) as one:
        one.opened()
        redis.call("REPLICAOF", "127.0.0.1", free_port())
        line = one.until("^log ", 5)
        check("the log says why", "is down: READONLY" in line, line)
        with Monitor(url_of(redis)) as other:
            check("so it is for a node that opens", not other.opened()[1])
        redis.call("REPLICAOF", "NO", "ONE")
        one.until("^log .* is up after", 5)


def one_that_is_full_is_down():
    with Redis("--maxmemory-policy", "noeviction") as redis, Monitor(url_of(redis)) as one:
        one.opened()
        redis.call("CONFIG", "SET", "maxmemory", "1")
        line = one.until("^log ", 5)
        check("the log says why", "is down: OOM" in line, line)
        redis.call("CONFIG", "SET", "maxmemory", "0")
        one.until("^log .* is up after", 5)


def scripts_that_were_flushed_are_no_harm():
    with Redis() as redis, Monitor(url_of(redis)) as one:
        one.opened()
        for _ in range(2):
            redis.call("SCRIPT", "FLUSH")
            beats(redis, 1)
        check("nothing is said of it", one.lines.empty(), list(one.lines.queue))


def what_is_no_heartbeat_is_no_store():
    answers = {"an array too short": b"*1\r\n:1\r\n", "a word": b"+OK\r\n",
               "no protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
               "an error": b"-ERR unknown command\r\n", "nothing": b""}
    for name, answer in answers.items():
        with Fake(lambda words, state, answer=answer: answer) as server, \
                Monitor(url_of(server, "timeout=50ms")) as one:
            ms, there = one.opened()
            check(f"{name}: it is down", not there and ms <= 500 + SLACK_MS, (ms, one.seen))
            check(f"{name}: and the log has a reason",
                  any(" is down: " in line for line in one.seen), one.seen)
            took = one.close()
            check(f"{name}: it closes", took <= 50 + SLACK_MS, took)


# ---- Names and creation times ------------------------------------------------------------------


def a_name_is_resolved_and_all_its_places_are_tried():
    with Redis() as redis, Monitor(url_of(redis, host="localhost")) as one:
        ms, there = one.opened()
        check("it is found", there, (ms, one.seen))
        check("and shown as a number", one.ask("address", "^address") == "address 127.0.0.1")
    with Redis() as redis, Monitor(url_of(redis, host="two")) as one:
        check("if the first address does not answer, the second is used", one.opened()[1], one.seen)
        check("which is shown from then on", one.ask("address", "^address") == "address 127.0.0.1")
        redis.kill()
        line = one.until("^log ", 5)
        check("the log calls it by its name",
              line.startswith(f"log redis://two:{redis.port} is down: "), line)
        redis.start()
        one.until("^log .* is up", 5)


def an_unknown_host_name_is_reported():
    with Monitor("redis://no-such-host.invalid:6379?timeout=100ms") as one:
        ms, there = one.opened()
        check("to open is no error", not there and ms <= 1000 + SLACK_MS, ms)
        check("the log says why",
              any("is down: cannot find the host" in line or "is down: no answer" in line
                  for line in one.seen), one.seen)
        check("no caller gets that address", one.ask("address", "^address") == "address ")
        took = one.close()
        check("to close waits for no resolver", took <= 100 + SLACK_MS, took)


def no_caller_waits_for_a_slow_resolver():
    with Redis() as redis:
        with Monitor(url_of(redis, "timeout=30ms", host="slow")) as one:
            ms, there = one.opened()
            check("to open waits for ten timeouts", not there and 290 <= ms <= 300 + SLACK_MS, ms)
            check("and says so", any("is down: no answer in 300 ms" in line for line in one.seen),
                  one.seen)
            one.say("release")
            one.until("^log .* is up after", 5)
            check("then it is found", one.ask("address", "^address") == "address 127.0.0.1")
            one.close()
        with Monitor(url_of(redis, "timeout=30ms", host="slow")) as one:
            one.opened()
            took = int(one.ask("close", "^closed ").split()[1])
            check("to close does not wait for it", took <= 30 + SLACK_MS, took)
            check("and the thread inside it ends by itself",
                  one.ask("release", "^released") == "released 0", one.seen)
            one.end()


def the_first_to_ask_sets_a_limits_creation_time():
    with Redis() as redis, Monitor(url_of(redis)) as one, Monitor(url_of(redis)) as other:
        one.opened()
        other.opened()
        seconds, micros = (int(word) for word in redis.call("TIME"))
        created = int(one.ask("created api", "^created").split()[1])
        check("it is Redis's time", 0 <= created - seconds * 10**6 - micros < 10**7, created)
        check("another hears the same",
              int(other.ask("created api", "^created").split()[1]) == created)
        check("and so does the first when it asks again",
              int(one.ask("created api", "^created").split()[1]) == created)
        check("another limit has its own",
              int(other.ask("created web", "^created").split()[1]) > created)
        years = redis.call("TTL", "weir:1:{api}:created") / (366 * 86400)
        check("it is a key of the limit's scope, and stays for years after it was last asked for",
              2.9 < years <= 3, years)


def a_creation_time_is_waited_for_one_timeout_and_only_once():
    with Redis() as redis, Monitor(url_of(redis, "timeout=200ms")) as one:
        one.opened()
        os.kill(redis.process.pid, signal.SIGSTOP)
        try:
            words = one.ask("created new", "^created").split()
            check("no answer costs one timeout",
                  words[1] == "-1" and int(words[2]) <= 200 + SLACK_MS, words)
            check("which is told", any(" is down: " in line for line in one.seen), one.seen)
            words = one.ask("created new", "^created").split()
            check("and then nothing", words[1] == "-1" and int(words[2]) < 150, words)
        finally:
            os.kill(redis.process.pid, signal.SIGCONT)


SCENES = (three_count_each_other, a_number_that_is_told_is_not_counted, a_child_is_another_node,
          another_prefix_is_another_fleet, killed_and_started_again,
          a_failed_call_has_it_looked_after_at_once,
          not_there_at_first, one_that_stands_still,
          a_wrong_password_is_told_and_a_right_one_is_not,
          one_that_may_only_be_read_is_down, one_that_is_full_is_down,
          scripts_that_were_flushed_are_no_harm,
          what_is_no_heartbeat_is_no_store, a_name_is_resolved_and_all_its_places_are_tried,
          an_unknown_host_name_is_reported, no_caller_waits_for_a_slow_resolver,
          the_first_to_ask_sets_a_limits_creation_time,
          a_creation_time_is_waited_for_one_timeout_and_only_once)


def main():
    for scene in SCENES:
        if sys.argv[2:] and scene.__name__ not in sys.argv[2:]:
            continue
        began, failed = time.monotonic(), len(FAILED)
        try:
            scene()
        except Exception:                   # of this scene, not of the others
            check(scene.__name__, False, traceback.format_exc())
        verdict = "ok" if failed == len(FAILED) else "FAILED"
        print(f"{verdict:6} {scene.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"monitors: {len(PASSED)} passed, {len(FAILED)} failed")
    return 1 if FAILED or not PASSED else 0


if __name__ == "__main__":
    sys.exit(main())
