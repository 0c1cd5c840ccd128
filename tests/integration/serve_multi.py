#!/usr/bin/env python3
"""Transactions over RESP, and what may go wrong in them: `serve_multi.py PATH_TO_WEIR`."""

import os
import signal
import sys
import time

from daemon import (ROOMY, Daemon, Error, check, encode, expect, others_are_served, play, until)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
from fleet_kit import Redis  # noqa: E402  pylint: disable=wrong-import-position

ABORTED = "EXECABORT Transaction discarded because of previous errors."
MOST = 65536            # commands of a transaction
LIMITS = ("--limit", "b=token-bucket 10/s burst=5", "--limit", "w=fixed-window 3/1m")


def queued(line, *commands):
    """Sends MULTI and the commands; the replies to the commands."""
    expect("MULTI", line.ask("MULTI"), "OK")
    return [line.ask(*words) for words in commands]


def left(line, limit, key):
    return line.ask("WEIR.PEEK", limit, key, 0)[2]


def kept(line):
    return int(line.info()["memory_multi"])


# ---- What a transaction is ---------------------------------------------------------------------


def commands_are_queued_and_run_in_order():
    rows = [
        (["WEIR.TAKE", "b", "k"], [1, 5, 4, 0, 100, 0]), (["ECHO", b"\0\r\n"], b"\0\r\n"),
        (["WEIR.TAKE", "b", "k", 3], [1, 5, 1, 0, 400, 0]),
        (["WEIR.PEEK", "b", "k", 0], [1, 5, 1, 0, 400, 0]), (["WEIR.REFUND", "b", "k"], 1),
        (["CL.THROTTLE", "k", 15, 30, 60], [0, 16, 15, -1, 2]),
        (["THROTTLE", "k", 16, 30, 60], [1, 16, 14, 4, 0]),
        (["WEIR.TAKEALL", 2, "b", "a", 1, "w", "a", 1], [1, 3, 2, 0, 60000, 0, -1]),
        (["WEIR.TAKE", "b", "r", 6, "PATIENCE", "1s"], [0, 5, 5, -1, 0, 0]),
        (["WEIR.TAKE", "b", "r", 5], [1, 5, 0, 0, 500, 0]),
        (["WEIR.TAKE", "b", "r", 1, "PATIENCE", "1s", "AS", "id"], [1, 5, 0, 0, 600, 100]),
        (["WEIR.CANCEL", "id"], 1), (["WEIR.RESET", "w", "a"], "OK"),
        (["WEIR.LIMIT", "SET", "new", "2/s"], "OK"), (["WEIR.TAKE", "new", "k"],
                                                      [1, 2, 1, 0, 500, 0]),
        (["WEIR.CLOCK", "ADVANCE", "1s"], "OK"), (["WEIR.TAKE", "new", "k"], [1, 2, 1, 0, 500, 0]),
        (["UNWATCH"], "OK"), (["PING"], "PONG"), (["SELECT", 3], "OK"),
        (["CLIENT", "GETNAME"], None),
    ]
    with Daemon(*LIMITS) as daemon, daemon.resp() as c:
        expect("WATCH answers", c.ask("WATCH", "a", "b"), "OK")
        expect("all are queued", queued(c, *[words for words, _ in rows]), ["QUEUED"] * len(rows))
        with daemon.resp() as other:
            expect("nothing has run yet", left(other, "b", "k"), 5)
            check("and what is queued is counted", kept(other) > 1000, kept(other))
        got = c.ask("EXEC")
        expect("as many as were queued", len(got), len(rows))
        for (words, wanted), reply in zip(rows, got):
            expect(f"in its place: {words}", reply, wanted)
        expect("what was taken is taken", left(c, "b", "r"), 5)
        expect("nothing is kept behind it", kept(c), 0)
        expect("an empty one", (c.ask("MULTI"), c.ask("EXEC")), ("OK", []))
        expect("and one after another", (queued(c, ["PING"]), c.ask("EXEC")), (["QUEUED"],
                                                                              ["PONG"]))


def errors_while_it_runs_are_elements():
    with Daemon(*LIMITS) as daemon, daemon.resp() as c:
        bad = [["WEIR.TAKE", "nosuch", "k"], ["WEIR.TAKE", "b", "k", "many"],
               ["WEIR.CANCEL", "none"], ["WEIR.LIMIT", "SET", "x", "10/parsec"], ["AUTH", "x"],
               ["CLIENT", "NOSUCH"], ["HELLO", "9"], ["CL.THROTTLE", "k", "x", 1, 1]]
        commands = [words for one in bad for words in (["WEIR.TAKE", "b", "k"], one)]
        expect("all are queued", queued(c, *commands), ["QUEUED"] * len(commands))
        got = c.ask("EXEC")
        check("each error is in its place", all(isinstance(reply, Error) for reply in got[1::2]),
              got[1::2])
        expect("and what is around it runs", [reply[0] for reply in got[::2]],
               [1, 1, 1, 1, 1, 0, 0, 0])
    with Daemon("--no-admin", *LIMITS) as daemon, daemon.resp() as c:
        queued(c, ["WEIR.TAKE", "b", "k"], ["WEIR.LIMIT", "SET", "x", "1/s"], ["PING"])
        got = c.ask("EXEC")
        check("--no-admin refuses an element", got[0][0] == 1 and got[1].startswith("NOPERM")
              and got[2] == "PONG", got)
        c.ask("MULTI")
        check("a command that is not allowed in any form aborts it",
              c.ask("WEIR.RESET", "b", "k").startswith("NOPERM")
              and c.ask("EXEC").startswith("EXECABORT"))


def errors_while_it_is_queued_abort_it():
    with Daemon(*LIMITS) as daemon, daemon.resp() as c:
        for wrong in (["NOSUCH"], ["WEIR.TAKE", "b"], ["KEYS", "*"], ["SUBSCRIBE", "x"], [""],
                      ["EXEC", "x"], ["DISCARD", "x"], ["PING", "1", "2"]):
            replies = queued(c, ["WEIR.TAKE", "b", "k"], wrong, ["WEIR.TAKE", "b", "k"])
            check(f"{wrong} is refused at once", replies[0] == "QUEUED"
                  and isinstance(replies[1], Error) and replies[2] == "QUEUED", replies)
            expect(f"nothing is kept after {wrong}", kept_of_others(daemon), True)
            expect(f"EXEC runs nothing after {wrong}", c.ask("EXEC"), ABORTED)
            expect("and it is over", c.ask("EXEC"), "ERR EXEC without MULTI")
        expect("nothing was charged", left(c, "b", "k"), 5)
        queued(c, ["NOSUCH"])
        expect("one that was aborted can be discarded", c.ask("DISCARD"), "OK")
        expect("and the next one runs", (queued(c, ["PING"]), c.ask("EXEC")), (["QUEUED"],
                                                                              ["PONG"]))


def kept_of_others(daemon):
    """True once no transaction keeps more than its own few bytes."""
    with daemon.resp() as other:
        return until(lambda: kept(other) < 100)


def it_can_be_dropped():
    with Daemon(*LIMITS) as daemon, daemon.resp() as c:
        expect("EXEC alone", c.ask("EXEC"), "ERR EXEC without MULTI")
        expect("DISCARD alone", c.ask("DISCARD"), "ERR DISCARD without MULTI")
        queued(c, ["WEIR.TAKE", "b", "k"])
        expect("DISCARD", c.ask("DISCARD"), "OK")
        expect("then there is none", c.ask("EXEC"), "ERR EXEC without MULTI")
        queued(c, ["WEIR.TAKE", "b", "k"])
        expect("MULTI within one", c.ask("MULTI"), "ERR MULTI calls can not be nested")
        expect("WATCH within one", c.ask("WATCH", "x"), "ERR WATCH inside MULTI is not allowed")
        expect("as in Redis it goes on", c.ask("EXEC"), [[1, 5, 4, 0, 100, 0]])
        queued(c, ["WEIR.TAKE", "b", "k"])
        expect("RESET drops it", c.ask("RESET"), "RESET")
        expect("then there is none", c.ask("EXEC"), "ERR EXEC without MULTI")
        queued(c, ["WEIR.TAKE", "b", "k"])
        with daemon.resp() as other:
            check("one is kept", kept(other) > 0)
            c.close()
            check("a connection that closes drops it", until(lambda: kept(other) == 0))
            expect("and only what EXEC ran was charged", left(other, "b", "k"), 4)
        with daemon.resp() as c2:
            c2.ask("MULTI")
            c2.send("PING")
            c2.send("QUIT")
            expect("QUIT is not queued", c2.rest(), b"+QUEUED\r\n+OK\r\n")


def nothing_waits_in_it():
    """As Redis does with commands that block: queued, and not waited for."""
    with Daemon(*LIMITS) as daemon, daemon.resp() as c:
        queued(c, ["WEIR.TAKE", "b", "k"], ["WEIR.TAKE", "b", "k", 1, "WAIT", "1s"],
               ["WEIR.TAKE", "b", "k", 1, "PATIENCE", "1s"])
        got = c.ask("EXEC")
        check("WAIT is an error in its place", isinstance(got[1], Error) and "WAIT" in got[1], got)
        expect("and charges nothing", [got[0], got[2]], [[1, 5, 4, 0, 100, 0],
                                                         [1, 5, 3, 0, 200, 0]])
        expect("outside it waits", c.ask("WEIR.TAKE", "b", "k", 1, "WAIT", "1s")[0], 1)


def it_speaks_resp3():
    with Daemon("--limit", "api=10/s") as daemon, daemon.resp() as c:
        c.ask("HELLO", 3)
        queued(c, ["WEIR.LIMIT", "LIST"], ["WEIR.LIMIT", "GET", "nosuch"], ["HELLO", 2],
               ["WEIR.LIMIT", "LIST"])
        got = c.ask("EXEC")
        check("maps and nulls are RESP3's", got[:2] == [{b"api": b"token-bucket 10/s"}, None], got)
        expect("until it changes", got[3], [b"api", b"token-bucket 10/s"])


# ---- Bytes -------------------------------------------------------------------------------------


def it_is_cut_at_every_byte():
    """A pipeline of several transactions in two pieces, wherever it is cut."""
    def talk(key):
        return (encode("WEIR.TAKE", "1k/h", key) + encode("MULTI")
                + encode("WEIR.TAKE", "1k/h", key) + b'weir.take "1k/h" "' + key.encode() + b'"\r\n'
                + encode("CL.THROTTLE", key, 15, 30, 60)
                + encode("ECHO", "\r\n*1\r\n") + encode("WEIR.TAKE", "1k/h", key) + b"EXEC\r\n"
                + encode("WEIR.TAKE", "1k/h", key) + encode("MULTI") + encode("NO")
                + encode("WEIR.TAKE", "1k/h", key) + encode("EXEC") + encode("PING"))

    with Daemon() as daemon, daemon.resp() as c:
        # Six commands queue; the aborted transaction charges nothing.
        wanted = [[1, 1000, 999, 0, 3600, 0], "OK"] + ["QUEUED"] * 5 + [
            [[1, 1000, 998, 0, 7200, 0], [1, 1000, 997, 0, 10800, 0], [0, 16, 15, -1, 2],
             b"\r\n*1\r\n", [1, 1000, 996, 0, 14400, 0]], [1, 1000, 995, 0, 18000, 0], "OK",
            "ERR unknown command 'NO'", "QUEUED", ABORTED, "PONG"]
        wrong = []
        for cut in range(len(talk("k0000"))):
            data = talk(f"k{cut:04}")
            c.send_bytes(data[:cut])
            if cut % 8 == 0:
                time.sleep(0.001)       # now and then the first piece surely comes alone
            c.send_bytes(data[cut:])
            got = [c.read() for _ in wanted]
            wrong += [(cut, got)] if got != wanted else []
        check("the replies are the same wherever it is cut", not wrong, wrong[:1])


def words_are_kept_as_they_came():
    """The numbers of CL.THROTTLE are compared with the bytes that they came in."""
    with Daemon() as daemon, daemon.resp() as c:
        for words in (["15", "30", "60"], ["1", "530", "60"], ["15", "3", "060"],
                      ["1", "5", "3060"]):
            alone = c.ask("CL.THROTTLE", "a" + "".join(words) + words[0], *words)
            queued(c, ["CL.THROTTLE", "b" + "".join(words) + words[0], *words])
            expect(f"{words} mean the same", c.ask("EXEC"), [alone])
        for words in (["15", "\r30", "60"], ["15", "", "60"], ["", "", ""]):
            queued(c, ["CL.THROTTLE", "k", *words])
            got = c.ask("EXEC")
            check(f"{words} are refused", isinstance(got[0], Error), got)
        keys = [b"", b"\0", b"k" * 65536, b"\r\n" * 100]
        queued(c, *[["WEIR.TAKE", "10/s", key] for key in keys + keys])
        expect("keys are bytes", [reply[2] for reply in c.ask("EXEC")], [9] * 4 + [8] * 4)
        # Takes are decided together, up to 64 of them: their keys last until then.
        keys = [f"{i}" * 100 for i in range(60)]
        queued(c, *[["WEIR.TAKE", "10/s", key] for key in keys])
        expect("keys of takes at the end", [reply[2] for reply in c.ask("EXEC")], [9] * 60)
        expect("are theirs", [left(c, "10/s", key) for key in keys], [9] * 60)


# ---- Bounds ------------------------------------------------------------------------------------


def a_queue_has_an_end():
    """A million commands: the queue ends, then nothing of it is kept."""
    n = 1000000 if ROOMY == 1 else 100000
    with Daemon("--threads", "2") as daemon, daemon.resp() as c, daemon.resp() as other:
        c.ask("MULTI")
        thread = c.send_behind(encode("PING") * n)
        replies = {}
        for i in range(n):
            line = c.take_line()
            replies.setdefault(line, i)
        thread.join()
        check("65,536 are queued, the next is refused",
              [at for line, at in replies.items() if line.startswith(b"-ERR limit reached")]
              == [MOST], replies)
        expect("nothing else is said", len(replies), 2)
        check("and nothing is kept", kept(other) < 100, kept(other))
        others_are_served(daemon, "beside a million commands in MULTI")
        expect("EXEC", c.ask("EXEC"), ABORTED)
        expect("it is over", kept(other), 0)
        check("the daemon is no larger than that", daemon.rss_mib() < 60, daemon.rss_mib())


def what_is_queued_counts_as_kept():
    """One connection has its part, one address, and all together; others are served."""
    big = "x" * 500000
    with Daemon("--max-buffered", "64MiB", "--connection-part", "1/8", "--peer-part", "1/2") as d:
        lines = [d.resp() for _ in range(12)]
        counts = []
        for line in lines:
            line.ask("MULTI")
            n = 0
            while (reply := line.ask("ECHO", big)) == "QUEUED" and n < 1000:
                n += 1
            counts.append(n)
            check("the refusal says why", isinstance(reply, Error) and "limit reached" in reply,
                  reply)
            line.ask("DISCARD")
            line.ask("MULTI")
            for _ in range(n):
                line.ask("ECHO", big)
        check("a connection has three quarters of 8 MiB", 9 <= counts[0] <= 13, counts)
        check("an address three quarters of 32 MiB", 40 <= sum(counts) <= 52, counts)
        check("the last ones nothing", counts[-1] == 0, counts)
        others_are_served(d, "beside full queues")
        with d.resp() as other:
            total = kept(other)
            check("INFO says how much", 20 << 20 < total <= 24 << 20, total)
            for line in lines:
                line.close()
            check("all of it goes with the connections", until(lambda: kept(other) == 0),
                  kept(other))


def a_long_exec_lets_others_in():
    """One worker; another client sees a key in the middle of the transaction. It may miss it on a
    busy machine, but not each time."""
    n = 50000
    with Daemon("--threads", "1", "--limit", "big=1M/1h", "--max-output", "16MiB") as daemon, \
            daemon.resp() as c, daemon.resp() as other:
        for turn in range(10):
            c.ask("MULTI")
            thread = c.send_behind(encode("WEIR.TAKE", "big", turn) * n)
            expect("all are queued", {c.take_line() for _ in range(n)}, {b"+QUEUED"})
            thread.join()
            c.send("EXEC")
            seen = set()
            check("EXEC ends",
                  until(lambda: seen.add(left(other, "big", turn)) or 10**6 - n in seen))
            got = c.read()
            expect("all have run in order", [reply[2] for reply in got],
                   list(range(10**6 - 1, 10**6 - 1 - n, -1)))
            if seen - {10**6, 10**6 - n}:
                break
        check("others are served meanwhile", seen - {10**6, 10**6 - n}, seen)
        expect("and what follows is answered", c.ask("PING"), "PONG")


def a_client_that_does_not_read():
    """EXEC stops when its replies find no room, and goes on where it stopped."""
    with not_reading() as daemon, daemon.resp() as other:
        for i, behind in enumerate((True, False)):
            with daemon.resp() as c:
                stops_in_the_middle(c, other, f"k{i}")
                if behind:
                    c.send("WEIR.TAKE", "big", f"k{i}")
                check("and keeps little", int(other.info()["memory_output"]) < 1 << 20,
                      other.info())
                comes_whole(c.read())
                if not behind:
                    c.send("WEIR.TAKE", "big", f"k{i}")
                expect("and then the command behind it", c.read()[2], 10**6 - 1 - LONG)


LONG = 400


def not_reading():
    """A daemon with little room for replies: a Unix socket's own room is small."""
    return Daemon("--threads", "1", "--max-output", "64KiB", "--limit", "big=1M/1h", "--drain",
                  "20s", listen=("unix:DIR/weir.sock",))


def stops_in_the_middle(c, other, key):
    """Sends a transaction that is small to queue and large to reply."""
    queued(c, ["PING"])
    for _ in range(LONG):
        expect("queued", c.ask("COMMAND", "DOCS"), "QUEUED")
        expect("queued", c.ask("WEIR.TAKE", "big", key), "QUEUED")
    c.send("EXEC")
    check("EXEC has begun", until(lambda: left(other, "big", key) < 10**6))
    time.sleep(0.2)
    ran = 10**6 - left(other, "big", key)
    check("EXEC stops in the middle", 0 < ran < LONG, ran)


def comes_whole(got):
    expect("all of it comes when it is read", len(got), 2 * LONG + 1)
    expect("in order", [reply[2] for reply in got[2::2]],
           list(range(10**6 - 1, 10**6 - 1 - LONG, -1)))


def it_is_answered_before_the_daemon_ends():
    with not_reading() as daemon, daemon.resp() as c:
        with daemon.resp() as other:
            stops_in_the_middle(c, other, "k")
        daemon.signal(signal.SIGTERM)
        time.sleep(0.6)     # longer than a tick of the worker
        comes_whole(c.read())
        expect("then the connection ends", c.rest(), b"")
        expect("and the daemon", daemon.wait(), 0)
    n = 60000
    with Daemon("--threads", "1", "--limit", "big=1M/1h", "--drain", "20s") as daemon, \
            daemon.resp() as c:
        c.ask("MULTI")
        thread = c.send_behind(encode("WEIR.PEEK", "big", "k") * n)
        for _ in range(n):
            c.take_line()
        thread.join()
        c.send("EXEC")
        expect("EXEC has begun", c.take_line(), b"*%d" % n)
        daemon.signal(signal.SIGTERM)
        got = [c.read() for _ in range(n)]
        check("every element comes", all(reply == [1, 10**6, 10**6 - 1, 0, 4, 0] for reply in got),
              got[-1])
        expect("then the connection ends", c.rest(), b"")
        expect("and the daemon", daemon.wait(), 0)


def a_client_that_leaves_in_the_middle():
    with Daemon("--threads", "1", "--limit", "big=1M/1h") as daemon, daemon.resp() as other:
        for _ in range(10):
            with daemon.resp() as c:
                c.ask("MULTI")
                c.send_bytes(encode("WEIR.TAKE", "big", "k") * 5000 + encode("EXEC"))
                c.take_bytes(9 * 5000)
                c.reset()
        check("nothing is kept", until(lambda: kept(other) == 0), kept(other))
        expect("and the daemon goes on", other.ask("PING"), "PONG")


# ---- A Redis store -----------------------------------------------------------------------------


def elements_that_come_later():
    """Takes from a Redis are answered later; the array is right all the same."""
    n = 5000
    with Redis() as redis, \
            Daemon("--limit", "here=fixed-window 1M/10h", "--threads", "1", "--limit",
                   f"far=fixed-window 1M/10h store={redis.url(timeout='30s')}",
                   manual=False) as daemon, daemon.resp() as c:
        queued(c, ["WEIR.TAKE", "far", "k"], ["ECHO", "1"], ["WEIR.TAKE", "here", "k"],
               ["WEIR.PEEK", "far", "k", 0], ["WEIR.TAKE", "far", "k"],
               ["WEIR.TAKE", "nosuch", "k"], ["WEIR.REFUND", "far", "k"], ["WEIR.TAKE", "far", "k"])
        c.send("EXEC")
        c.send("PING")
        got = c.read()
        expect("each in its place", [reply[2] if isinstance(reply, list) else reply
                                     for reply in got[:5]], [999999, b"1", 999999, 999999, 999998])
        check("errors too", isinstance(got[5], Error) and got[6] == 1 and got[7][2] == 999998, got)
        expect("and what comes behind", c.read(), "PONG")
        commands = b"".join(encode("WEIR.TAKE", "far" if i % 3 else "here", "many")
                            for i in range(n))
        thread = c.send_behind(encode("MULTI") + commands + encode("EXEC") + encode("PING"))
        expect("more than may be under way are queued", {c.take_line() for _ in range(n + 1)},
               {b"+OK", b"+QUEUED"})
        got = c.read()
        far = [reply[2] for i, reply in enumerate(got) if i % 3]
        here = [reply[2] for i, reply in enumerate(got) if not i % 3]
        expect("all are answered in order", (far, here),
               (list(range(999999, 999999 - len(far), -1)),
                list(range(999999, 999999 - len(here), -1))))
        expect("and what comes behind", c.read(), "PONG")
        thread.join()
        with daemon.resp() as gone:
            gone.ask("MULTI")
            gone.send_bytes(commands + encode("EXEC"))
            gone.take_bytes(9 * n)
            gone.reset()
        check("one that leaves in the middle leaves nothing", until(lambda: kept(c) == 0), kept(c))


if __name__ == "__main__":
    sys.exit(play("transactions", [
        commands_are_queued_and_run_in_order, errors_while_it_runs_are_elements,
        errors_while_it_is_queued_abort_it, it_can_be_dropped, nothing_waits_in_it, it_speaks_resp3,
        it_is_cut_at_every_byte, words_are_kept_as_they_came, a_queue_has_an_end,
        what_is_queued_counts_as_kept, a_long_exec_lets_others_in, a_client_that_does_not_read,
        it_is_answered_before_the_daemon_ends, a_client_that_leaves_in_the_middle,
        elements_that_come_later]))
