"""What callers are answered when their Redis fails: faults.py --hammer=PROGRAM [SCENE...].

Every scene is a fault trial (fault_trial.py), or much like one. What callers saw is printed.
"""

import contextlib
import os
import sys

from fleet_kit import Client, Hammer, Proxy, Redis, check, expect, now_us, play, say, until
from laws import SLACK_US, in_time
from fault_trial import (BUCKET, BURST, NODES, PAUSE_US, TIMEOUT, TIMEOUT_US, FaultTrial,
                         fault_trial, survives)


# ---- The server --------------------------------------------------------------------------------


def it_is_killed_and_started_again():
    with fault_trial("killed", "--appendonly", "yes") as o:
        survives(o, o.redis.kill, o.redis.start)


def it_is_killed_and_has_forgotten_all():
    with fault_trial("killed, forgetful") as o:
        o.extra = BURST
        survives(o, o.redis.kill, o.redis.start)


def it_is_paused_for_five_seconds():
    with fault_trial("paused 5 s") as o:
        survives(o, o.redis.pause, o.redis.resume, seconds=5)


def it_is_full():
    with fault_trial("full") as o:
        survives(o, lambda: o.redis.call("CONFIG", "SET", "maxmemory", "1"),
                lambda: o.redis.call("CONFIG", "SET", "maxmemory", "0"))


def it_is_full_to_the_brim():
    """It has room for a few keys whenever some have ended, and none a moment later. It does not
    come and go with that: the times that it is left alone add up to more than 8 s after four
    outages."""
    with Redis() as redis, \
            Hammer(redis.url(timeout="2s"), "token-bucket 5/s burst=5", threads=4, keys=200_000,
                   pause=100) as node:
        memory = dict(line.split(":") for line in redis.call("INFO", "memory").decode().split()
                      if ":" in line)
        redis.call("CONFIG", "SET", "maxmemory", int(memory["used_memory"]) + 300_000)
        until(lambda: node.look()["outages"] > 0, "it is full")
        until(lambda: node.look()["recoveries"] > 0, "some have ended")
        end = now_us() + 8_000_000
        until(lambda: now_us() > end, "time passes")
        told = [line for line in node.log() if "is down" in line]
        check("it refuses as one that is full", all("OOM" in line for line in told), told)
        check("a store that is full to the brim does not come and go", len(told) <= 5,
              (len(told), node.look()))
        redis.call("CONFIG", "SET", "maxmemory", 0)
        began = now_us()
        until(lambda: not node.look()["down"], "it is back")
        took = now_us() - began
        check("it is back in 10 s", took <= 10_000_000 + SLACK_US, took)
        say(f"        full to the brim: {len(told)} outages, up after {took / 1e6:.1f} s")
        expect("no caller is left without an answer: full to the brim", node.finish()["errors"], {})


def it_becomes_a_replica():
    with fault_trial("read-only") as o:
        survives(o, lambda: o.redis.call("REPLICAOF", "127.0.0.1", "1"),
                lambda: o.redis.call("REPLICAOF", "NO", "ONE"))


def its_password_is_changed():
    def change(o, password):
        o.redis.call("CONFIG", "SET", "requirepass", password)
        o.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    with fault_trial("password changed") as o:
        survives(o, lambda: change(o, "other"), lambda: change(o, ""))


def its_password_is_wrong_from_the_start():
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis())
        redis.call("CONFIG", "SET", "requirepass", "right")
        o = FaultTrial(stack, redis, "wrong password", password="wrong%40")
        until(lambda: all(node.look()["down"] for node in o.nodes), "all have noticed")
        o.down_us = now_us()
        lines = " ".join(o.sharers[0].log())
        check("the log says why", "WRONGPASS" in lines or "password" in lines.lower(), lines)
        check("but not the password", "wrong@" not in lines and "wrong%40" not in lines, lines)
        o.falls_back()
        o.ends_phase("broken")
        redis.call("CONFIG", "SET", "requirepass", "wrong@")
        o.comes_up()
        o.ends_phase("mending")
        o.works()
        o.ends_phase("after")
        o.table()
        o.holds()


def its_scripts_are_flushed():
    """Once, and all the time: a flush costs a repetition, and no more."""
    with fault_trial("scripts flushed") as o:
        o.works()
        o.ends_phase("before")
        o.redis.call("SCRIPT", "FLUSH")
        o.works()
        o.ends_phase("flushed")
        lines = " ".join(line for node in o.nodes for line in node.log())
        check("one flush makes no store down", "NOSCRIPT" not in lines, lines)
        end = now_us() + 500_000
        flushes = 0
        while now_us() < end:
            o.redis.call("SCRIPT", "FLUSH")
            flushes += 1
        told = o.ends_phase("storm")
        o.works()
        o.ends_phase("after")
        o.table()
        say(f"        scripts flushed: {flushes} times in the storm")
        check("in a storm of flushes callers are answered",
              all(tell["calls"] > 20 for tell in told), told)
        o.holds(goes_down=False)


def it_is_busy():
    """Another client's script does not end."""
    with fault_trial("busy", "--busy-reply-threshold", "10") as o:
        other = Client(o.redis.port)
        survives(o, lambda: other.send("EVAL", "while true do end", 0),
                lambda: o.redis.call("SCRIPT", "KILL"))
        other.close()


def it_forbids():
    with fault_trial("forbidden") as o:
        survives(o, lambda: o.redis.call("ACL", "SETUSER", "default", "-evalsha"),
                lambda: o.redis.call("ACL", "SETUSER", "default", "+evalsha"))


def it_takes_no_more_connections():
    def crowd(o):
        o.redis.call("CONFIG", "SET", "maxclients", 1)
        o.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    with fault_trial("crowded") as o:
        survives(o, lambda: crowd(o), lambda: o.redis.call("CONFIG", "SET", "maxclients", 100))


def its_connections_are_killed_all_the_time():
    with fault_trial("killing storm") as o:
        o.works()
        o.ends_phase("before")
        end = now_us() + 500_000
        kills = 0
        while now_us() < end:
            kills += o.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        o.ends_phase("storm")
        o.comes_up()
        o.works()
        o.ends_phase("after")
        o.table()
        say(f"        killing storm: {kills} connections killed")
        o.holds()


def it_is_not_there_at_the_start():
    """To open takes no longer than ten timeouts, whatever the other side does."""
    with Redis() as redis, Proxy(redis.port) as proxy:
        for mode in ("hole", "reset", "trickle", "rubbish", "unasked"):
            proxy.turn(mode)
            for limit in (BUCKET, BUCKET + " initial=empty"):
                with Hammer(redis.url(proxy.port, timeout=TIMEOUT), limit, pause=PAUSE_US) as node:
                    took = node.ready()["took_us"]
                    check(f"to open takes no longer than ten timeouts: {mode}",
                          took <= 10 * TIMEOUT_US + SLACK_US, took)
                    until(lambda: node.look()["fell_back"] > 20, "it falls back")
                    proxy.turn("forward")
                    until(lambda: node.look()["asked"] > 20, "it is there")
                    in_time(f"no caller waits longer than the timeout: {mode} at the start",
                            [node.finish()], TIMEOUT_US)
                    proxy.turn(mode)
            proxy.turn("forward")


# ---- The network -------------------------------------------------------------------------------


def cut(mode):
    with fault_trial(mode, proxied=True) as o:
        survives(o, lambda: o.proxy.turn(mode), lambda: o.proxy.turn("forward"))


def the_way_is_a_black_hole():
    cut("hole")


def connections_are_reset():
    cut("reset")


def answers_are_rubbish():
    cut("rubbish")


def answers_are_broken_off():
    cut("broken")


def answers_come_twice():
    """The second may be taken for the answer to the next question: what is believed then is not
    bounded."""
    with fault_trial("double", proxied=True) as o:
        o.believed = False
        survives(o, lambda: o.proxy.turn("double"), lambda: o.proxy.turn("forward"))


def answers_come_unasked():
    cut("unasked")


def answers_trickle():
    cut("trickle")


def answers_announce_too_much():
    cut("huge")


def answers_are_deep():
    cut("deep")


def answers_are_to_another_question():
    cut("other")


# ---- Other verbs -------------------------------------------------------------------------------


def every_verb_while_it_comes_and_goes():
    """Only what gives back may fail, and then it can be tried again. Of the permits there are never
    more than the bound, and none is lost for longer than its lease."""
    name, permits = "every verb", 4
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(Redis())
        proxy = stack.enter_context(Proxy(redis.port))
        url = redis.url(proxy.port, nodes=NODES, timeout=TIMEOUT)
        inside = os.path.join(redis.folder, "inside")

        def node(limit, verb, **more):
            return stack.enter_context(Hammer(url, limit, verb=verb, name=verb, threads=3,
                                              pause=PAUSE_US, **more))

        enterers = [node(f"concurrency {permits} lease=1s", "enter", hold=2000, inside=inside)
                    for _ in range(NODES)]
        others = [node(BUCKET, "many", batch=20), node(BUCKET + " + sliding-log 100/1s", "all"),
                  node("pacer 50/s queue=3", "wait"), node("leaky-bucket 50/s delay=0", "reserve"),
                  node(BUCKET, "take", keys=500)]
        nodes = enterers + others
        for mode in ("reset", "hole", "rubbish", "reset", "broken", "hole"):
            proxy.turn(mode)
            until(lambda: all(n.look()["down"] for n in nodes), f"all have noticed: {mode}")
            proxy.turn("forward")
            until(lambda: not any(n.look()["down"] for n in nodes), f"all are back: {mode}")
        for n in enterers:
            n.phase("storm")
        end = now_us() + 1_200_000  # the lease of permits whose reply was lost
        until(lambda: now_us() > end, "time passes")
        for n in enterers:
            check("permits are given again", n.phase("after")["grants_by"].get("OK", 0) > 20,
                  n.lines[-1])
        wholes = [n.finish() for n in nodes]
    say("\n".join(f"        {name}: {n.command[3][5:]:8} {w['granted']:6} granted {w['denied']:6} "
                  "denied  "
                  f"worst {w['worst_us'] / 1000:6.1f} ms  {w['errors']}" for n,
                  w in zip(nodes, wholes)))
    in_time(f"no caller waits longer than the timeout: {name}", wholes, TIMEOUT_US)
    most = max(w["inside_most"] for w in wholes[:NODES])
    check(f"of the permits there are no more than the bound: {name}",
          permits <= most <= permits * 2, most)
    for n, whole in zip(nodes, wholes):
        gives_back = any(word in n.command for word in ("verb=enter", "verb=reserve"))
        allowed = {"WEIR_EDOWN"} if gives_back else set()
        check(f"only what gives back may fail: {name}", set(whole["errors"]) <= allowed,
              (n.command, whole["errors"]))


SCENES = [it_is_paused_for_five_seconds, it_is_killed_and_started_again,
          it_is_killed_and_has_forgotten_all, it_is_full,
          it_is_full_to_the_brim, it_becomes_a_replica, its_password_is_changed,
          its_password_is_wrong_from_the_start, its_scripts_are_flushed,
          it_is_busy, it_forbids, it_takes_no_more_connections,
          its_connections_are_killed_all_the_time, it_is_not_there_at_the_start,
          the_way_is_a_black_hole, connections_are_reset, answers_are_rubbish,
          answers_are_broken_off,
          answers_come_twice, answers_come_unasked, answers_trickle, answers_announce_too_much,
          answers_are_deep, answers_are_to_another_question, every_verb_while_it_comes_and_goes]

if __name__ == "__main__":
    sys.exit(play("faults", SCENES, together=3))
