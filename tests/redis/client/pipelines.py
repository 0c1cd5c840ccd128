#!/usr/bin/env python3
"""Pipelines (src/redis/client/pipeline.h) to real Redis servers, and to servers that misbehave.

    pipelines.py PROGRAM [SCENE...]      PROGRAM is pipelines.c, whose scenes these are
    pipelines.py PROGRAM --measure       calls a second, beside redis-benchmark's of the same

A scene says `ready` where something is to happen to its server, and goes on when it has.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

from pipelines_servers import Fake, Proxy, Redis, until

PROGRAM = os.path.abspath(sys.argv[1])
PATIENCE_S = 120
PASSED, FAILED = 0, []


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {str(detail)[:3000]}", flush=True)


class Scene:
    """A run of PROGRAM. Use as a context; at its end it must have ended well."""

    def __init__(self, name, **options):
        self.name = name
        words = [f"{key}={value}" for key, value in options.items()]
        self.process = subprocess.Popen([PROGRAM, name, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.timer = threading.Timer(PATIENCE_S, self.process.kill)
        self.timer.start()

    def __enter__(self):
        return self

    def meets(self, word):
        """Waits until the scene is ready for it."""
        for line in self.process.stdout:
            if line == f"ready {word}\n":
                return
            print("  " + line.rstrip(), flush=True)
        raise AssertionError(f"{self.name} ended before it was ready to {word}")

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def __exit__(self, *failure):
        global PASSED
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        text = self.process.stdout.read()
        self.process.wait()
        self.timer.cancel()
        counted = re.search(r"^counted (\d+) (\d+)$", text, re.M)
        shown = text.replace(counted.group(0), "").strip() if counted else text
        if shown:
            print("  " + shown.replace("\n", "\n  "), flush=True)
        if counted:
            PASSED += int(counted.group(1))
        good = counted and counted.group(2) == "0" and self.process.returncode == 0
        check(f"{self.name.replace('_', ' ')}, to the end", good, f"exit {self.process.returncode}")


def play(name, **options):
    with Scene(name, **options):
        pass


# ---- Servers that are well ----------------------------------------------------------------------


def it_answers_one_after_the_other():
    with Redis() as redis:
        play("it_answers_one_after_the_other", port=redis.port)
        redis.call("FLUSHALL")
        play("it_answers_one_after_the_other", host=redis.path)
    with Redis("--bind", "::1") as redis:
        play("it_answers_one_after_the_other", host="::1", port=redis.port)


def plainly(name):
    def scene():
        with Redis() as redis:
            play(name, port=redis.port)
    scene.__name__ = name
    return scene


def a_script_that_may_not_be_loaded_is_an_error():
    with Redis() as redis:
        redis.call("ACL", "SETUSER", "weak", "on", ">word", "~*", "+@all", "-script")
        play("a_script_that_may_not_be_loaded_is_an_error", port=redis.port, user="weak",
             password="word")


def a_greeting_that_is_refused_says_why():
    name = "a_greeting_that_is_refused_says_why"
    with Redis("--requirepass", "right") as redis:
        play(name, port=redis.port, password="wrong")
        play(name, port=redis.port)
        play(name, port=redis.port, user="unknown", password="right")
        play(name, port=redis.port, password="right", db=99)
        check("nothing was asked without a greeting", redis.call("EXISTS", "leak") == 0)


def the_greeting_logs_in_and_selects():
    name = "the_greeting_logs_in_and_selects"
    with Redis("--requirepass", "right") as redis:
        redis.call("SELECT", "3")
        redis.call("SET", "where", "here")
        redis.call("ACL", "SETUSER", "some", "on", ">word", "~*", "+@all")
        play(name, port=redis.port, password="right", db=3)
        play(name, port=redis.port, user="some", password="word", db=3)
        play(name, host=redis.path, user="some", password="word", db=3)


def a_cancelled_thread_leaves_a_pipeline_that_works():
    with Redis() as redis, \
            Scene("a_cancelled_thread_leaves_a_pipeline_that_works", port=redis.port) as scene:
        scene.meets("driven")
        until(lambda: redis.info("clients")["blocked_clients"] == "1")
        scene.go()
        scene.meets("followed")
        until(lambda: re.search(rb"qbuf=[1-9]\d* .*cmd=brpoplpush", redis.call("CLIENT", "LIST")))
        scene.go()
        scene.meets("cancelled")
        redis.call("RPUSH", "never", "one")
        scene.go()
        scene.meets("one")          # the other has to read for itself
        redis.call("RPUSH", "never", "two")
        scene.go()


# ---- Servers that fail --------------------------------------------------------------------------


def the_server_is_killed_and_comes_back():
    with Redis() as redis, Scene("the_server_is_killed_and_comes_back", port=redis.port) as scene:
        scene.meets("kill")
        redis.kill()
        scene.go()
        scene.meets("start")
        redis.start()
        scene.go()


def the_server_stands_still():
    with Redis() as redis, Scene("the_server_stands_still", port=redis.port) as scene:
        scene.meets("stop")
        os.kill(redis.process.pid, signal.SIGSTOP)
        time.sleep(0.3)             # it is the time that is tested
        os.kill(redis.process.pid, signal.SIGCONT)
        scene.go()


def no_server_answers():
    """A server refuses; accepts but never speaks; does not even accept; is a path without a
    socket."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        play("no_server_answers", port=port)
        play("a_loop_hears_of_failure", port=port)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as mute:
        port = mute.getsockname()[1]
        play("no_server_answers", port=port)
        play("a_loop_hears_of_failure", port=port)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as hole, contextlib.ExitStack() as stack:
        port = hole.getsockname()[1]
        for _ in range(4):          # its queue is full, and the kernel drops further connections
            stack.enter_context(socket.socket()).setblocking(False)
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        play("no_server_answers", port=port)
        play("a_loop_hears_of_failure", port=port)
    play("no_server_answers", host="/nonexistent/socket")
    play("a_loop_hears_of_failure", host="/nonexistent/socket")


def a_sooner_deadline_is_kept():
    with Redis() as redis, Scene("a_sooner_deadline_is_kept", port=redis.port) as scene:
        scene.meets("blocked")
        until(lambda: redis.info("clients")["blocked_clients"] == "1")
        scene.go()


def there_is_room_for_so_many():
    with Fake(lambda command, state: b"") as mute:
        play("there_is_room_for_so_many", port=mute.port)


RUBBISH = [
    b"hello\r\n", b"\r\n", b"\0" * 100, b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b":12x\r\n", b":\r\n", b":99999999999999999999\r\n", b"$x\r\n", b"$-2\r\n", b"*-2\r\n",
    b"*x\r\n", b"$99999999999\r\n" + b"x" * 200000, b"$65537\r\n" + b"x" * 65537 + b"\r\n",
    b"+" + b"x" * 300000, b"-" + b"x" * 300000,
    b"*33\r\n" + b":1\r\n" * 33, b"*4294967297\r\n", b"*1\r\n*1\r\n:1\r\n", b"*2\r\n:1\r\n*0\r\n",
    b"*1\r\n$1\r\na\r\n", b"*1\r\n$-1\r\n", b"*1\r\n+OK\r\n", b"*1\r\n-ERR x\r\n",
    b"*1000000000\r\n",
    b"*1\r\n" * 20, b"%1\r\n:1\r\n:2\r\n", b"_\r\n", b"#t\r\n", b",1.5\r\n", b">1\r\n:1\r\n",
    b"(12\r\n",
]


def what_is_no_reply_breaks_the_connection():
    left = list(RUBBISH)

    def answer(command, state):
        if command[0] == b"CLIENT":
            return b"+OK\r\n"
        if command[0] == b"first":
            what = repr(left[0][:20]).replace("\\", "/") if left else "no more"
            return b"$%d\r\n%s\r\n" % (len(what), what.encode())
        return left.pop(0)

    with Fake(answer) as fake:
        play("what_is_no_reply_breaks_the_connection", port=fake.port)


def a_reply_without_a_command():
    """Such a reply breaks the connection; if it comes late, it is found before the next command."""
    def twice(command, state):
        return b"+OK\r\n" if command[0] == b"CLIENT" else b"+PONG\r\n+PONG\r\n"

    with Fake(twice) as fake, \
            Scene("a_connection_that_was_closed_while_idle_is_replaced", port=fake.port) as scene:
        scene.meets("idle")
        scene.go()
    told = threading.Event()

    def late(command, state):
        if command[0] == b"CLIENT":
            return b"+OK\r\n"
        state["later"] = None if told.is_set() else (told, b"+PONG\r\n")
        return b"+PONG\r\n"

    with Fake(late) as fake, \
            Scene("a_connection_that_was_closed_while_idle_is_replaced", port=fake.port) as scene:
        scene.meets("idle")
        told.set()
        fake.said.wait(PATIENCE_S)
        time.sleep(0.15)
        scene.go()


def it_is_cut_in_the_midst_of_a_reply():
    with Redis() as redis, Proxy(redis.port) as proxy:
        proxy.cut_after = iter(range(1, 10**6, 3)).__next__
        play("it_is_cut_in_the_midst_of_a_reply", port=proxy.port)


def it_is_cut_again_and_again():
    chance = random.Random(1)
    with Redis() as redis, Proxy(redis.port) as proxy:
        proxy.cut_after = lambda: chance.randrange(1, 2000)
        play("it_is_cut_again_and_again", port=proxy.port)


def large_commands_pass_through_a_narrow_pipe():
    with Redis() as redis, Proxy(redis.port, narrow=True) as proxy:
        play("large_commands_pass_through_a_narrow_pipe", port=proxy.port)
    with Redis() as redis:
        play("large_commands_pass_through_a_narrow_pipe", host=redis.path)


def a_connection_that_was_closed_while_idle_is_replaced():
    name = "a_connection_that_was_closed_while_idle_is_replaced"
    with Redis() as redis, Scene(name, port=redis.port) as scene:
        scene.meets("idle")
        redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.15)            # what is not idle is not looked at
        scene.go()


def a_replica_is_left():
    with Redis() as redis:
        redis.call("REPLICAOF", "127.0.0.1", "1")
        with Scene("a_replica_is_left", port=redis.port) as scene:
            scene.meets("promote")
            redis.call("REPLICAOF", "NO", "ONE")
            scene.go()


SCENES = [
    it_answers_one_after_the_other,
    plainly("it_hears_every_kind_of_reply"),
    plainly("eight_threads_each_get_their_own"),
    plainly("pipelines_of_64_keep_their_order"),
    plainly("scripts_that_are_flushed_are_loaded_again"),
    a_script_that_may_not_be_loaded_is_an_error,
    a_greeting_that_is_refused_says_why,
    the_greeting_logs_in_and_selects,
    plainly("a_loop_steps_it"),
    plainly("commands_that_are_not_awaited_finish"),
    a_cancelled_thread_leaves_a_pipeline_that_works,
    plainly("a_child_has_a_connection_of_its_own"),
    plainly("children_begin_while_others_ask"),
    plainly("signals_disturb_no_caller"),
    the_server_is_killed_and_comes_back,
    the_server_stands_still,
    no_server_answers,
    a_sooner_deadline_is_kept,
    there_is_room_for_so_many,
    what_is_no_reply_breaks_the_connection,
    a_reply_without_a_command,
    it_is_cut_in_the_midst_of_a_reply,
    it_is_cut_again_and_again,
    large_commands_pass_through_a_narrow_pipe,
    a_connection_that_was_closed_while_idle_is_replaced,
    a_replica_is_left,
]


def main():
    if "--measure" in sys.argv:
        from pipelines_pace import measure
        return measure(PROGRAM)
    chosen = sys.argv[2:]
    for scene in SCENES:
        if chosen and scene.__name__ not in chosen:
            continue
        began = time.monotonic()
        try:
            scene()
        except Exception:           # pylint: disable=broad-except
            check(f"{scene.__name__} comes to its end", False, traceback.format_exc())
        print(f"{time.monotonic() - began:6.2f} s  {scene.__name__.replace('_', ' ')}", flush=True)
    print(f"pipelines: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED or not PASSED else 0


if __name__ == "__main__":
    sys.exit(main())
