#!/usr/bin/env python3
"""The commands of `weir serve` as a Redis client meets them: `serve_resp.py PATH_TO_WEIR`."""

import sys

from daemon import Daemon, Error, check, encode, expect, play

HUGE = 2**63

# (a sentence, words, a part of the error). A row's command must leave the connection in use.
BAD = [
    ("an unknown command is named", ["NOSUCH", "x"], "ERR unknown command 'NOSUCH'"),
    ("a command of another limiter's", ["WEIR.NOSUCH"], "ERR unknown command 'WEIR.NOSUCH'"),
    ("an empty command", [""], "ERR unknown command ''"),
    ("a limit that is not configured", ["WEIR.TAKE", "nosuch", "k"], "ERR no such limit: 'nosuch'"),
    ("a peek at none", ["WEIR.PEEK", "nosuch", "k"], "ERR no such limit: 'nosuch'"),
    ("a refund to none", ["WEIR.REFUND", "nosuch", "k"], "ERR no such limit: 'nosuch'"),
    ("a reset of none", ["WEIR.RESET", "nosuch", "k"], "ERR no such limit: 'nosuch'"),
    ("none among several", ["WEIR.TAKEALL", 2, "10/s", "k", 1, "nosuch", "k", 1],
     "ERR no such limit: 'nosuch'"),
    ("a literal's bad option", ["WEIR.TAKE", "token-bucket 10/s brust=2", "k"],
     "column 19: unknown option 'brust'"),
    ("a literal's bad rate", ["WEIR.TAKE", "token-bucket 0/s", "k"], "column 14"),
    ("a cost that is no number", ["WEIR.TAKE", "10/s", "k", "many"], "'many'"),
    ("a cost with a fraction", ["WEIR.TAKE", "10/s", "k", "1.5"], "'1.5'"),
    ("a cost below zero", ["WEIR.TAKE", "10/s", "k", "-1"], "'-1'"),
    ("a cost past 64 bits", ["WEIR.TAKE", "10/s", "k", str(HUGE)], str(HUGE)),
    ("a cost of blanks", ["WEIR.TAKE", "10/s", "k", " 1"], "' 1'"),
    ("a cost with a NUL", ["WEIR.TAKE", "10/s", "k", b"1\x002"], "ERR"),
    ("a word that is no option", ["WEIR.TAKE", "10/s", "k", "1", "WHEN", "1s"], "'WHEN'"),
    ("WAIT without a time", ["WEIR.TAKE", "10/s", "k", "1", "WAIT"], "WAIT"),
    ("WAIT with a bad time", ["WEIR.TAKE", "10/s", "k", "1", "WAIT", "soon"], "'soon'"),
    ("WAIT with a time below zero", ["WEIR.TAKE", "10/s", "k", "1", "WAIT", "-1"], "'-1'"),
    ("AS without a name", ["WEIR.TAKE", "10/s", "k", "1", "AS"], "AS needs a name"),
    ("AS with an empty one", ["WEIR.TAKE", "10/s", "k", "1", "AS", ""], "AS needs a name"),
    ("CHARGE without a cost", ["WEIR.CHARGE", "10/s", "k"], "wrong number"),
    ("CHARGE of less than nothing", ["WEIR.CHARGE", "10/s", "k", "-1"], "cost"),
    ("CHARGE with patience", ["WEIR.CHARGE", "10/s", "k", "1", "WAIT"], "'WAIT'"),
    ("PATIENCE with a bad unit", ["WEIR.TAKE", "10/s", "k", "1", "PATIENCE", "1w"], "'1w'"),
    ("PATIENCE without a time", ["WEIR.TAKE", "10/s", "k", "PATIENCE"], "PATIENCE"),
    ("WAIT and PATIENCE at once", ["WEIR.TAKE", "10/s", "k", "WAIT", "1", "PATIENCE", "1"], "ERR"),
    ("AS without a name", ["WEIR.TAKE", "10/s", "k", "1", "AS"], "AS"),
    ("a peek cannot WAIT", ["WEIR.PEEK", "10/s", "k", "1", "WAIT", "1s"], "'WAIT'"),
    ("a refund below zero", ["WEIR.REFUND", "10/s", "k", "-1"], "'-1'"),
    ("a reservation that was not made", ["WEIR.CANCEL", "nosuch"], "'nosuch'"),
    ("several, of a bad number", ["WEIR.TAKEALL", "x", "10/s", "k", 1], "'x'"),
    ("several, none", ["WEIR.TAKEALL", 0], "ERR"),
    ("several, fewer than told", ["WEIR.TAKEALL", 2, "10/s", "k", 1], "ERR"),
    ("several, more than told", ["WEIR.TAKEALL", 1, "10/s", "k", 1, "10/s", "j", 1], "ERR"),
    ("several, too many", ["WEIR.TAKEALL", 17] + ["10/s", "k", 1] * 17, "ERR"),
    ("several, with a bad cost", ["WEIR.TAKEALL", 1, "10/s", "k", "x"], "'x'"),
    ("several, with a cost below zero", ["WEIR.TAKEALL", 1, "10/s", "k", "-1"], "'-1'"),
    ("WEIR.LIMIT of no such word", ["WEIR.LIMIT", "PUT", "a", "10/s"], "'PUT'"),
    ("a limit that does not parse", ["WEIR.LIMIT", "SET", "a", "10/parsec"], "column"),
    ("a limit with a bad option", ["WEIR.LIMIT", "SET", "a", "token-bucket 10/s brust=20"],
     "did you mean 'burst'"),
    ("a limit without a name", ["WEIR.LIMIT", "SET", "", "10/s"], "ERR"),
    ("a limit named with a blank", ["WEIR.LIMIT", "SET", "a b", "10/s"], "'a b'"),
    ("a limit named with a NUL", ["WEIR.LIMIT", "SET", b"a\0b", "10/s"], "ERR"),
    ("a limit named as a rate", ["WEIR.LIMIT", "SET", "10/s", "10/s"], "'10/s'"),
    ("a limit with a name of 128 bytes", ["WEIR.LIMIT", "SET", "n" * 128, "10/s"], "ERR"),
    ("a text with a NUL", ["WEIR.LIMIT", "SET", "a", b"10/s\0"], "ERR"),
    ("a text of 64 KiB", ["WEIR.LIMIT", "SET", "a", "10/s " + "x" * 65536], "ERR"),
    ("WEIR.CLOCK of no such word", ["WEIR.CLOCK", "STOP"], "'STOP'"),
    ("a clock advanced by nonsense", ["WEIR.CLOCK", "ADVANCE", "much"], "'much'"),
    ("a clock set to nonsense", ["WEIR.CLOCK", "SET", "noon"], "'noon'"),
    ("a clock set before 1970", ["WEIR.CLOCK", "SET", "-1"], "'-1'"),
    ("a clock set past its end", ["WEIR.CLOCK", "SET", str(2**62 + 1)], str(2**62 + 1)),
    ("a burst that is no number", ["CL.THROTTLE", "k", "x", 1, 1], "'x'"),
    ("a count that is no number", ["CL.THROTTLE", "k", 1, "x", 1], "'x'"),
    ("a period that is no number", ["CL.THROTTLE", "k", 1, 1, "x"], "'x'"),
    ("a quantity that is no number", ["CL.THROTTLE", "k", 1, 1, 1, "x"], "'x'"),
    ("a burst below zero", ["CL.THROTTLE", "k", -1, 1, 1], "-1"),
    ("a count of zero", ["CL.THROTTLE", "k", 1, 0, 1], "count"),
    ("a period of zero", ["CL.THROTTLE", "k", 1, 1, 0], "period"),
    ("a count below zero", ["CL.THROTTLE", "k", 1, -5, 1], "count"),
    ("a period below zero", ["CL.THROTTLE", "k", 1, 1, -60], "period"),
    ("a period past 64 bits", ["CL.THROTTLE", "k", 1, 1, str(HUGE)], str(HUGE)),
    ("a burst at the end of 64 bits", ["CL.THROTTLE", "k", HUGE - 1, 1, 1], "burst"),
    ("a burst that takes for ever to refill", ["CL.THROTTLE", "k", 10**12 - 1, 1, 86400], "ERR"),
    ("a burst of none", ["THROTTLE", "k", 0, 1, 1], "burst"),
    ("a quantity below zero", ["THROTTLE", "k", 1, 1, 1, -1], "-1"),
    ("a count of none", ["THROTTLE", "k", 1, 0, 1], "count"),
    ("a protocol that is not spoken", ["HELLO", "4"], "NOPROTO"),
    ("a protocol that is no number", ["HELLO", "three"], "NOPROTO"),
]

# Commands, and how many words each may have beside its name: fewer and more are refused.
ARITIES = [("CL.THROTTLE", 4, 5), ("THROTTLE", 4, 5), ("WEIR.TAKE", 2, None),
           ("WEIR.PEEK", 2, None),
           ("WEIR.REFUND", 2, 3), ("WEIR.CANCEL", 1, 1), ("WEIR.RESET", 2, 2),
           ("WEIR.TAKEALL", 4, None),
           ("WEIR.LIMIT", 1, None), ("WEIR.CLOCK", 1, None), ("ECHO", 1, 1), ("PING", 0, 1),
           ("SELECT", 1, 1)]


# ---- What is refused ---------------------------------------------------------------------------


def what_is_wrong_is_named():
    with Daemon() as daemon, daemon.resp() as c:
        for sentence, words, part in BAD:
            reply = c.ask(*words)
            check(f"refused: {sentence}",
                  isinstance(reply, Error) and part in reply and c.ask("PING") == "PONG", reply)
        for words in (["a\r\n+OK\r\n"], ["WEIR.TAKE", "a\r\n+OK\r\n", "k"],
                      ["WEIR.LIMIT", "SET", "a\r\n+OK\r\n", "10/s"], ["HELLO", "3", "a\r\n+OK\r\n"],
                      ["WEIR.TAKE", "10/s \r\n+OK\r\n", "k"], ["WEIR.CANCEL", "\r\n+OK\r\n"],
                      ["CLIENT", "SETNAME", "\r\n+OK\r\n"]):
            reply = c.ask(*words)
            check(f"an error is one line, whatever it quotes: {words}", isinstance(reply, Error)
                  and c.ask("PING") == "PONG", reply)
        expect("nothing that was refused left a trace", c.ask("WEIR.LIMIT", "LIST"), [])


def words_are_counted():
    with Daemon() as daemon, daemon.resp() as c:
        for name, least, most in ARITIES:
            wanted = f"ERR wrong number of arguments for '{name.lower()}' command"
            counts = ([least - 1] if least else []) + ([most + 1] if most is not None else [])
            for n in counts:
                reply = c.ask(name, *(["1"] * n))
                check(f"{name} with {n} words",
                      isinstance(reply, Error) and reply.startswith(wanted), reply)
        for words in (["SET", "a"], ["SET", "a", "10/s", "x"], ["GET"], ["GET", "a", "b"],
                      ["LIST", "x"], ["DEL"]):
            reply = c.ask("WEIR.LIMIT", *words)
            check(f"WEIR.LIMIT {words}", isinstance(reply, Error), reply)
        for words in (["GET", "x"], ["ADVANCE"], ["ADVANCE", "1s", "1s"], ["SET"]):
            reply = c.ask("WEIR.CLOCK", *words)
            check(f"WEIR.CLOCK {words}", isinstance(reply, Error), reply)
        reply = c.ask("WEIR.TAKE", *["k"] * 1023)
        check("a command of 1,024 words is answered", isinstance(reply, Error), reply)


def the_clock_is_not_for_everyone():
    with Daemon(manual=False) as daemon, daemon.resp() as c:
        for words in (["ADVANCE", "250ms"], ["SET", "0"]):
            reply = c.ask("WEIR.CLOCK", *words)
            check(f"WEIR.CLOCK {words[0]} needs --clock manual", isinstance(reply, Error)
                  and "--clock manual" in reply, reply)
        reply = c.ask("WEIR.CLOCK", "GET")
        check("WEIR.CLOCK GET too", isinstance(reply, Error), reply)


# ---- Connections -------------------------------------------------------------------------------


def what_clients_say_first():
    with Daemon() as daemon, daemon.resp() as c:
        expect("PING", c.ask("PING"), "PONG")
        expect("PING with a word", c.ask("ping", "hello"), b"hello")
        expect("ECHO any bytes", c.ask("Echo", b"\0\xff\r\n"), b"\0\xff\r\n")
        expect("SELECT 0", c.ask("SELECT", "0"), "OK")
        expect("CLIENT SETNAME", c.ask("CLIENT", "SETNAME", "me"), "OK")
        expect("CLIENT GETNAME", c.ask("CLIENT", "GETNAME"), b"me")
        expect("CLIENT SETINFO", c.ask("CLIENT", "SETINFO", "LIB-NAME", "test"), "OK")
        check("CLIENT ID", isinstance(c.ask("CLIENT", "ID"), int))
        check("COMMAND", isinstance(c.ask("COMMAND"), list))
        check("COMMAND COUNT", c.ask("COMMAND", "COUNT") >= 20)
        check("COMMAND DOCS", isinstance(c.ask("COMMAND", "DOCS"), list))
        check("CONFIG GET", isinstance(c.ask("CONFIG", "GET", "save"), list))
        check("INFO tells of itself",
              b"weir" in c.ask("INFO") and b"weir" in c.ask("INFO", "server"))
        check("AUTH is refused: there is no password", isinstance(c.ask("AUTH", "secret"), Error))
        expect("QUIT", c.ask("QUIT"), "OK")
        expect("and the connection ends", c.rest(), b"")
        with daemon.resp() as other:
            other.send("QUIT")
            other.send_bytes(encode("PING") * 3)
            expect("nothing behind QUIT is answered", other.rest(), b"+OK\r\n")


def resp3_is_spoken():
    with Daemon("--limit", "api=10/s") as daemon, daemon.resp() as c:
        flat = c.ask("HELLO")
        check("HELLO is flat in RESP2",
              isinstance(flat, list) and flat[flat.index(b"proto") + 1] == 2, flat)
        told = c.ask("HELLO", "3", "SETNAME", "me")
        check("HELLO 3 is a map",
              isinstance(told, dict) and told.get(b"proto") == 3 and b"version" in told, told)
        expect("the name is set", c.ask("CLIENT", "GETNAME"), b"me")
        c.send("WEIR.LIMIT", "GET", "nosuch")
        expect("nothing is _", c.take_line(), b"_")
        expect("a list of limits is a map", c.ask("WEIR.LIMIT", "LIST"),
               {b"api": b"token-bucket 10/s"})
        expect("an answer is an array still", c.ask("CL.THROTTLE", "k", 9, 10, 1),
               [0, 10, 9, -1, 1])
        check("COMMAND DOCS is a map", isinstance(c.ask("COMMAND", "DOCS"), dict))
        check("CONFIG GET is a map", isinstance(c.ask("CONFIG", "GET", "maxmemory"), dict))
        expect("RESET", c.ask("RESET"), "RESET")
        c.send("WEIR.LIMIT", "GET", "nosuch")
        expect("and it is RESP2 again", c.take_line(), b"$-1")
        expect("the limits are flat again", c.ask("WEIR.LIMIT", "LIST"),
               [b"api", b"token-bucket 10/s"])
        check("HELLO 2 goes back too", isinstance(c.ask("HELLO", "3"), dict)
              and isinstance(c.ask("HELLO", "2"), list))


def a_line_is_a_command_too():
    with Daemon() as daemon, daemon.resp() as c:
        rows = [(b"PING\r\n", "PONG"), (b"ping\n", "PONG"), (b"  PING   hello  \r\n", b"hello"),
                (b"CL.THROTTLE k 9 10 1\r\n", [0, 10, 9, -1, 1]),
                (b'WEIR.TAKE "token-bucket 10/s burst=2" k\r\n', [1, 2, 1, 0, 100, 0]),
                (b"WEIR.TAKE 'token-bucket 10/s burst=2' k\r\n", [1, 2, 0, 0, 200, 0]),
                (b'ECHO "a\\x00\\n\\"b"\r\n', b'a\0\n"b')]
        for line, wanted in rows:
            c.send_bytes(line)
            expect(f"inline {line!r}", c.read(), wanted)
        c.send_bytes(b"\r\n\r\n*0\r\n*-1\r\nPING\r\n")
        expect("empty lines and arrays are not answered", c.read(), "PONG")
        c.send_bytes(b"*5\r\n$11\r\nCL.THROTTLE\r\n$6\r\nnumber\r\n:9\r\n:10\r\n:1\r\n")
        expect("words may be sent as numbers", c.read(), [0, 10, 9, -1, 1])
        c.send_bytes(b"GET / HTTP/9\r\n")
        check("a line that is almost HTTP is a command", isinstance(c.read(), Error))
        with daemon.resp() as other:
            other.send_bytes(b'ECHO "open\r\n')
            check("an open quote is an error", (other.rest() or b"").startswith(b"-ERR"))


def keys_are_bytes():
    with Daemon() as daemon, daemon.resp() as c:
        keys = [b"", b"\0", b"\0\0", b"a\0b", b"a\0c", b"a", b"\xff\xfe\x80", b"\xc3\xa9", b"\r\n",
                b"*1\r\n$4\r\nPING\r\n",
                b"k" * 65536, b"k" * 65535 + b"l"]
        for key in keys:
            expect(f"a key of its own: {key[:12]!r}", c.ask("CL.THROTTLE", key, 1, 10, 1),
                   [0, 2, 1, -1, 1])
        for key in keys:
            expect(f"and once more: {key[:12]!r}", c.ask("CL.THROTTLE", key, 1, 10, 1),
                   [0, 2, 0, -1, 1])
            expect(f"under a limit it is another: {key[:12]!r}", c.ask("WEIR.TAKE", "10/s", key),
                   [1, 10, 9, 0, 100, 0])
        for words in (["CL.THROTTLE", b"k" * 65537, 1, 10, 1], ["WEIR.TAKE", "10/s", b"k" * 65537],
                      ["THROTTLE", b"k" * 65537, 1, 10, 1], ["WEIR.PEEK", "10/s", b"k" * 65537],
                      ["WEIR.REFUND", "10/s", b"k" * 65537], ["WEIR.RESET", "10/s", b"k" * 65537],
                      ["WEIR.TAKEALL", 1, "10/s", b"k" * 65537, 1]):
            reply = c.ask(*words)
            check(f"a key of 64 KiB and one byte is refused by {words[0]}",
                  isinstance(reply, Error) and "65536" in reply and c.ask("PING") == "PONG", reply)


# ---- Answers in order --------------------------------------------------------------------------


def a_hundred_thousand_at_once():
    with Daemon() as daemon, daemon.resp() as c:
        n = 100000
        thread = c.send_behind(encode("CL.THROTTLE", "k", 49999, 50000, 3600) * n)
        granted = b"".join(b"*5\r\n:0\r\n:50000\r\n:%d\r\n:-1\r\n:%d\r\n"
                           % (50000 - i, -(-i * 72 // 1000))
                           for i in range(1, 50001))
        wanted = granted + b"*5\r\n:1\r\n:50000\r\n:0\r\n:1\r\n:3600\r\n" * (n - 50000)
        got = c.take_bytes(len(wanted))
        check("a pipeline of 100,000 is answered in order", got == wanted,
              first_difference(got, wanted))
        thread.join()
        check("and nothing else comes", c.is_silent())


def first_difference(got, wanted):
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), None)
    return (at if at is None
            else f"at {at}: {got[at - 40:at + 40]!r}, expected {wanted[at - 40:at + 40]!r}")


def answers_keep_their_order():
    """Takes are decided together; a command between them is answered in its place."""
    with Daemon("--threads", "2", "--limit", "api=token-bucket 1000/s") as daemon, \
            daemon.resp() as c:
        asked, wanted = [], []
        for i in range(2000):
            asked += [("WEIR.TAKE", "api", f"a{i}"), ("ECHO", f"{i}"),
                      ("CL.THROTTLE", f"t{i}", 0, 1, 1),
                      ("WEIR.TAKE", "nosuch", "x"), ("WEIR.PEEK", "api", f"a{i}", 0),
                      ("WEIR.REFUND", "api", f"a{i}"), ("THROTTLE", f"t{i}", 1, 1, 1)]
            wanted += [[1, 1000, 999, 0, 1, 0], b"%d" % i, [0, 1, 0, -1, 1], Error,
                       [1, 1000, 999, 0, 1, 0], 1, [0, 1, 0, 1, 1]]
        thread = c.send_behind(b"".join(encode(*words) for words in asked))
        wrong = [(words, got) for words, want in zip(asked, wanted)
                 if (got := c.read()) != want and not (want is Error and isinstance(got, Error))]
        thread.join()
        check("a mixed pipeline of 14,000 is answered in order", not wrong, wrong[:3])


def the_clock_moves_within_a_pipeline():
    with Daemon() as daemon, daemon.resp() as c:
        for _ in range(50):
            c.send("WEIR.TAKE", "1/s", "k")
            c.send("WEIR.CLOCK", "ADVANCE", "1s")
        replies = [(c.read(), c.read()) for _ in range(50)]
        check("each second has one",
              all(r == [1, 1, 0, 0, 1000, 0] and ok == "OK" for r, ok in replies), replies[:3])


# ---- Limits ------------------------------------------------------------------------------------


def limits_are_set_and_changed():
    with Daemon("--threads", "2", "--limit", "api=100/s", "--limit",
                "slow=fixed-window 5/1m") as daemon, daemon.resp() as c:
        expect("those of the command line are there", c.ask("WEIR.LIMIT", "LIST"),
               [b"api", b"token-bucket 100/s", b"slow", b"fixed-window 5/m"])
        expect("SET", c.ask("WEIR.LIMIT", "SET", "a.b:c-d_e", "10/s burst=20"), "OK")
        expect("GET is canonical", c.ask("weir.limit", "get", "a.b:c-d_e"),
               b"token-bucket 10/s burst=20")
        expect("GET of none", c.ask("WEIR.LIMIT", "GET", "nosuch"), None)
        expect("a name of 127 bytes", c.ask("WEIR.LIMIT", "SET", "n" * 127, "10/s"), "OK")
        expect("DEL", c.ask("WEIR.LIMIT", "DEL", "n" * 127), 1)
        expect("DEL of none", c.ask("WEIR.LIMIT", "DEL", "n" * 127), 0)
        expect("a take under it", c.ask("WEIR.TAKE", "a.b:c-d_e", "k", 15), [1, 20, 5, 0, 1500, 0])
        with daemon.resp() as other:
            expect("a change", other.ask("WEIR.LIMIT", "SET", "a.b:c-d_e", "20/s burst=20"), "OK")
        expect("what was used stays used", c.ask("WEIR.PEEK", "a.b:c-d_e", "k", 0),
               [1, 20, 5, 0, 750, 0])
        c.ask("WEIR.LIMIT", "DEL", "a.b:c-d_e")
        reply = c.ask("WEIR.TAKE", "a.b:c-d_e", "k")
        check("what is deleted is gone", isinstance(reply, Error) and "no such limit" in reply,
              reply)
        c.ask("WEIR.LIMIT", "SET", "a.b:c-d_e", "20/s burst=20")
        expect("and its keys with it", c.ask("WEIR.PEEK", "a.b:c-d_e", "k", 0),
               [1, 20, 20, 0, 0, 0])
        expect("a bad change changes nothing", str(c.ask("WEIR.LIMIT", "SET", "api", "x"))[:3],
               "ERR")
        expect("as was said", c.ask("WEIR.LIMIT", "GET", "api"), b"token-bucket 100/s")


def many_limits_have_an_end():
    with Daemon("--max-memory", "24MiB") as daemon, daemon.resp() as c:
        replies = []
        for i in range(2000):
            replies.append(c.ask("WEIR.LIMIT", "SET", f"l{i}", "10/s"))
            if replies[-1] != "OK":
                break
        check("as many limits as there may be, then an error",
              len(replies) > 100 and isinstance(replies[-1], Error), replies[-1])
        expect("those there are work", c.ask("WEIR.TAKE", "l7", "k"), [1, 10, 9, 0, 100, 0])
        expect("literals work too", c.ask("WEIR.TAKE", "7/s", "k"), [1, 7, 6, 0, 143, 0])
        expect("throttles work too", c.ask("CL.THROTTLE", "k", 1, 1, 1), [0, 2, 1, -1, 1])
        c.ask("WEIR.LIMIT", "DEL", "l0")
        expect("one that goes makes place", c.ask("WEIR.LIMIT", "SET", "other", "10/s"), "OK")


def a_literal_is_its_meaning():
    with Daemon("--limit", "api=10/s") as daemon, daemon.resp() as c:
        for i, text in enumerate(["10/s", "token-bucket 10/s", "token-bucket 10/1s burst=10",
                                  "10/1000ms", " 10/s"],
                                 1):
            expect(f"{text!r} is 10/s", c.ask("WEIR.TAKE", text, "k"),
                   [1, 10, 10 - i, 0, 100 * i, 0])
        expect("another limit has other keys", c.ask("WEIR.TAKE", "10/s burst=11", "k"),
               [1, 11, 10, 0, 100, 0])
        expect("a name has its own, whatever its text", c.ask("WEIR.TAKE", "api", "k"),
               [1, 10, 9, 0, 100, 0])
        expect("throttles too", c.ask("CL.THROTTLE", "k", 9, 10, 1), [0, 10, 9, -1, 1])
        expect("terms joined", c.ask("WEIR.TAKE", "10/s + fixed-window 3/1m", "k", 2),
               [1, 3, 1, 0, 60000, 0])


def literals_are_bounded_and_not_forgotten():
    """Parsed literals are cached within bounds; falling out of the cache costs no state."""
    with Daemon() as daemon, daemon.resp() as c:
        n = 5000
        texts = [f"{i}/1h" for i in range(2, n + 2)]
        thread = c.send_behind(b"".join(encode("WEIR.TAKE", t, "k") for t in texts * 2))
        first = [c.read() for _ in texts]
        second = [c.read() for _ in texts]
        thread.join()
        bad = [(t, r) for t, r, i in zip(texts, first, range(2, n + 2)) if r[:3] != [1, i, i - 1]]
        check(f"{n} different literals", not bad, bad[:3])
        bad = [(t, r) for t, r, i in zip(texts, second, range(2, n + 2)) if r[:3] != [1, i, i - 2]]
        check("each with its keys, the second time too", not bad, f"{len(bad)}: {bad[:3]}")


def throttles_of_any_parameters():
    """Throttles are cached within bounds too; a pipeline may have more of them than the cache has
    places."""
    with Daemon() as daemon, daemon.resp() as c:
        n = 5000
        thread = c.send_behind(b"".join(encode("CL.THROTTLE", f"k{i}", i, 1 + i % 7, 1 + i % 11)
                                        for i in range(n)) * 2)
        first, second = [c.read() for _ in range(n)], [c.read() for _ in range(n)]
        thread.join()
        bad = [(i, r) for i, r in enumerate(first) if r[:3] != [0, i + 1, i]]
        check(f"{n} different throttles", not bad, bad[:3])
        bad = [(i, r) for i,
               r in enumerate(second) if r[:3] != ([0, i + 1, i - 1] if i else [1, 1, 0])]
        check("and once more", not bad, bad[:3])


# ---- Verbs -------------------------------------------------------------------------------------


def takes_peeks_refunds_resets():
    with Daemon("--limit", "b=token-bucket 10/s burst=5", "--limit", "w=fixed-window 3/1m",
                "--limit", "p=pacer 10/s") as daemon, \
            daemon.resp() as c:
        rows = [
            ("a take", ["WEIR.TAKE", "b", "k"], [1, 5, 4, 0, 100, 0]),
            ("a take of three", ["WEIR.TAKE", "b", "k", 3], [1, 5, 1, 0, 400, 0]),
            ("a take too many", ["WEIR.TAKE", "b", "k", 3], [0, 5, 1, 200, 400, 0]),
            ("a take that never fits", ["WEIR.TAKE", "b", "k", 6], [0, 5, 1, -1, 400, 0]),
            ("a take of nothing", ["WEIR.TAKE", "b", "k", 0], [1, 5, 1, 0, 400, 0]),
            ("a peek", ["WEIR.PEEK", "b", "k"], [1, 5, 0, 0, 500, 0]),
            ("a peek charges nothing", ["WEIR.PEEK", "b", "k", 0], [1, 5, 1, 0, 400, 0]),
            ("a patient peek", ["WEIR.PEEK", "b", "k", 3, "PATIENCE", "1s"],
             [1, 5, 0, 0, 700, 200]),
            ("a refund", ["WEIR.REFUND", "b", "k", 2], 2),
            ("a refund of one", ["WEIR.REFUND", "b", "k"], 1),
            ("a refund of more than is charged", ["WEIR.REFUND", "b", "k", 100], 1),
            ("a reservation", ["WEIR.TAKE", "b", "k", 5, "PATIENCE", "0"], [1, 5, 0, 0, 500, 0]),
            ("a reservation that waits", ["WEIR.TAKE", "b", "k", 2, "patience", "200ms", "as", "r"],
             [1, 5, 0, 0, 700, 200]),
            ("milliseconds are bare", ["WEIR.TAKE", "b", "k", 1, "PATIENCE", "299"],
             [0, 5, 0, 1, 700, 0]),
            ("no unit, no need", ["WEIR.TAKE", "b", "k", 1, "AS", "s", "PATIENCE", "300"],
             [1, 5, 0, 0, 800, 300]),
            ("forever", ["WEIR.TAKE", "b", "k", 1, "PATIENCE", "forever", "AS", "s2"],
             [1, 5, 0, 0, 900, 400]),
            ("cancelled", ["WEIR.CANCEL", "s2"], 1),
            ("one with another behind it", ["WEIR.CANCEL", "r"], 1),
            ("a window", ["WEIR.TAKE", "w", "k", 3], [1, 3, 0, 0, 60000, 0]),
            ("windows promise nothing", ["WEIR.TAKE", "w", "k", 1, "PATIENCE", "forever"],
             [0, 3, 0, 60000, 60000, 0]),
            ("reset", ["WEIR.RESET", "w", "k"], "OK"),
            ("fresh", ["WEIR.PEEK", "w", "k", 0], [1, 3, 3, 0, 0, 0]),
            ("reset of a key never seen", ["WEIR.RESET", "w", "never"], "OK"),
            ("a pacer's own patience", ["WEIR.TAKE", "p", "k"], [1, 1, 0, 0, 100, 0]),
            ("its wait shows", ["WEIR.TAKE", "p", "k"], [1, 1, 0, 0, 200, 100]),
            ("an impatient one is refused", ["WEIR.TAKE", "p", "k", 1, "PATIENCE", "0"],
             [0, 1, 0, 200, 200, 0]),
            ("the cost may be left out", ["WEIR.TAKE", "p", "k", "PATIENCE", "0"],
             [0, 1, 0, 200, 200, 0]),
        ]
        for sentence, words, wanted in rows:
            expect(sentence, c.ask(*words), wanted)
        reply = c.ask("WEIR.CANCEL", "s2")
        check("a reservation is cancelled once", isinstance(reply, Error) and "'s2'" in reply,
              reply)
        with daemon.resp() as other:
            reply = other.ask("WEIR.CANCEL", "s")
            check("a reservation is its connection's", isinstance(reply, Error), reply)


def names_of_reservations_do_not_run_out():
    """A long-lived connection names thousands; reservations that have acted are not kept."""
    with Daemon() as daemon, daemon.resp() as c:
        bad = []
        for i in range(5000):
            c.send("WEIR.TAKE", "1k/s burst=1", "k", 1, "PATIENCE", "forever", "AS", f"r{i}")
            c.send("WEIR.CLOCK", "ADVANCE", "2ms")
        for i in range(5000):
            reply = c.read(), c.read()
            bad += [(i, reply)] if not isinstance(reply[0], list) or reply[0][0] != 1 else []
        check("5,000 names, one after the other", not bad, bad[:1])
        replies = [c.ask("WEIR.TAKE", "1/s burst=1", "k", 1, "PATIENCE", "forever", "AS", f"s{i}")
                   for i in range(3000)]
        refused = next((i for i, r in enumerate(replies) if isinstance(r, Error)), None)
        check("a connection may have 1024 at once, and then there is an error",
              refused is None or refused >= 1000, (refused, replies[refused or 0]))
        if refused is not None:
            check("which names the bound",
                  "limit reached: 1024 named reservations" in replies[refused], replies[refused])


def reservations_end_with_their_connection():
    with Daemon() as daemon, daemon.resp() as c:
        with daemon.resp() as other:
            other.ask("WEIR.TAKE", "1/s", "k")
            expect("one reserves",
                   other.ask("WEIR.TAKE", "1/s", "k", 1, "PATIENCE", "forever", "AS", "r"),
                   [1, 1, 0, 0, 2000, 1000])
            expect("the next is behind it",
                   c.ask("WEIR.PEEK", "1/s", "k", 1, "PATIENCE", "forever"),
                   [1, 1, 0, 0, 3000, 2000])
            other.send("QUIT")
            other.rest()
        expect("it leaves, and gives its turn back",
               c.ask("WEIR.PEEK", "1/s", "k", 1, "PATIENCE", "forever"), [1, 1, 0, 0, 2000, 1000])
        with daemon.resp() as other:
            other.ask("WEIR.TAKE", "1/s", "k", 1, "PATIENCE", "forever", "AS", "r")
            c.ask("WEIR.CLOCK", "ADVANCE", "1001ms")
            other.send("QUIT")
            other.rest()
        expect("but not when it has acted", c.ask("WEIR.PEEK", "1/s", "k", 0), [1, 1, 0, 0, 999, 0])


def several_are_all_or_nothing():
    with Daemon("--limit", "a=10/s", "--limit", "b=fixed-window 3/1m") as daemon, \
            daemon.resp() as c:
        rows = [
            ("both grant", ["WEIR.TAKEALL", 2, "a", "k", 2, "b", "k", 1],
             [1, 3, 2, 0, 60000, 0, -1]),
            ("the second refuses", ["WEIR.TAKEALL", 2, "a", "k", 2, "b", "k", 3],
             [0, 3, 2, 60000, 60000, 0, 1]),
            ("the first refuses", ["WEIR.TAKEALL", 2, "a", "k", 9, "b", "k", 1],
             [0, 10, 2, 100, 60000, 0, 0]),
            ("a literal among them", ["WEIR.TAKEALL", 3, "a", "k", 1, "b", "k", 1, "1/h", "k", 2],
             [0, 1, 1, -1, 60000, 0, 2]),
            ("a key named twice sees its first charge",
             ["WEIR.TAKEALL", 2, "b", "k", 1, "b", "k", 2], [0, 3, 1, 60000, 60000, 0, 1]),
        ]
        for sentence, words, wanted in rows:
            got = c.ask(*words)
            check(sentence, isinstance(got, list) and [got[0], got[3], got[5],
                                                       got[6]] == [wanted[0], wanted[3], wanted[5],
                                                                   wanted[6]],
                  f"expected {wanted}, got {got}")
        expect("nothing was charged that was refused: a", c.ask("WEIR.PEEK", "a", "k", 0),
               [1, 10, 8, 0, 200, 0])
        expect("nothing was charged that was refused: b", c.ask("WEIR.PEEK", "b", "k", 0),
               [1, 3, 2, 0, 60000, 0])
        got = c.ask("WEIR.TAKEALL", 16, *["1k/s", "k", 1] * 16)
        check("sixteen", isinstance(got, list) and got[0] == 1 and got[6] == -1, got)
        expect("each was charged", c.ask("WEIR.PEEK", "1k/s", "k", 0), [1, 1000, 984, 0, 16, 0])


# ---- The throttles -----------------------------------------------------------------------------


def throttles_are_one_namespace():
    with Daemon() as daemon, daemon.resp() as c:
        rows = [
            ("the example of redis-cell's manual", ["CL.THROTTLE", "user123", 15, 30, 60],
             [0, 16, 15, -1, 2]),
            ("with a cost", ["CL.THROTTLE", "user123", 15, 30, 60, 5], [0, 16, 10, -1, 12]),
            ("cost 0 looks", ["CL.THROTTLE", "user123", 15, 30, 60, 0], [0, 16, 10, -1, 12]),
            ("a cost that never fits", ["CL.THROTTLE", "user123", 15, 30, 60, 17],
             [1, 16, 10, -1, 12]),
            ("throttlecrab's word, the same key", ["THROTTLE", "user123", 16, 30, 60],
             [1, 16, 9, 14, 0]),
            ("and back", ["CL.THROTTLE", "user123", 15, 30, 60], [0, 16, 8, -1, 16]),
            ("a negative cost gives back", ["CL.THROTTLE", "user123", 15, 30, 60, -3],
             [0, 16, 11, -1, 10]),
            ("but no more than is charged", ["CL.THROTTLE", "user123", 15, 30, 60, -100],
             [0, 16, 16, -1, 0]),
            ("throttlecrab refuses", ["THROTTLE", "other", 2, 1, 10, 2], [1, 2, 0, 20, 0]),
            ("and says when", ["THROTTLE", "other", 2, 1, 10], [0, 2, 0, 20, 10]),
            ("a look in its words", ["THROTTLE", "other", 2, 1, 10, 0], [1, 2, 0, 20, 0]),
            ("burst 0 of redis-cell is one", ["CL.THROTTLE", "one", 0, 1, 60], [0, 1, 0, -1, 60]),
            ("and then none", ["CL.THROTTLE", "one", 0, 1, 60], [1, 1, 0, 60, 60]),
        ]
        for sentence, words, wanted in rows:
            expect(sentence, c.ask(*words), wanted)


def throttles_change_live():
    """A change may count one event in 2^14 too many as owed, never one too few: `remaining` may be
    one less."""
    with Daemon() as daemon, daemon.resp() as c:
        def used(sentence, key, rate, cost, events):
            got = c.ask("CL.THROTTLE", key, rate - 1, rate, 1, cost)
            check(sentence, got[:2] == [0, rate] and rate - events - 1 <= got[2] <= rate - events,
                  got)

        expect("500 of a thousand a second are used", c.ask("CL.THROTTLE", "k", 999, 1000, 1, 500),
               [0, 1000, 500, -1, 1])
        used("of two thousand a second 500 are used", "k", 2000, 0, 500)
        used("and a hundred more", "k", 2000, 100, 600)
        used("of a thousand, 600 are used", "k", 1000, 0, 600)
        got = c.ask("THROTTLE", "k", 1000, 1000, 1, 0)
        check("and as a throttle of throttlecrab's", got[:2] == [1, 1000] and got[2] in (399, 400)
              and got[3:] == [1, 0], got)
        c.ask("CL.THROTTLE", "to and fro", 999, 1000, 1, 600)
        for rate in (2000, 4000, 700, 1000) * 10:
            c.ask("CL.THROTTLE", "to and fro", rate - 1, rate, 1, 0)
        got = c.ask("CL.THROTTLE", "to and fro", 999, 1000, 1, 0)
        check("forty changes neither forget nor add much", 396 <= got[2] <= 400, got)
        c.ask("CL.THROTTLE", "a", 9, 10, 1, 10)
        c.ask("CL.THROTTLE", "b", 99, 100, 1, 1)
        c.ask("CL.THROTTLE", "c", 4, 5, 60, 1)
        expect("others with other parameters change nothing for a",
               c.ask("CL.THROTTLE", "a", 9, 10, 1), [1, 10, 0, 1, 1])
        c.ask("CL.THROTTLE", "d", 0, 1, 10)
        c.ask("WEIR.CLOCK", "ADVANCE", "5s")
        got = c.ask("CL.THROTTLE", "d", 0, 1, 100, 0)
        check("half of what was owed is paid, the rest is owed at the new rate",
              got[:4] == [0, 1, 0, -1]
              and got[4] in (50, 51), got)


def seconds_round_up():
    with Daemon() as daemon, daemon.resp() as c:
        expect("1.5 s are 2", c.ask("CL.THROTTLE", "k", 0, 2, 3), [0, 1, 0, -1, 2])
        for after, retry in (("0ms", 2), ("499ms", 2), ("1ms", 1), ("1ms", 1), ("998ms", 1),
                             ("999999ns", 1)):
            c.ask("WEIR.CLOCK", "ADVANCE", after)
            expect(f"{after} later", c.ask("CL.THROTTLE", "k", 0, 2, 3), [1, 1, 0, retry, retry])
            expect(f"{after} later, throttlecrab", c.ask("THROTTLE", "k", 1, 2, 3),
                   [0, 1, 0, retry, retry])
        c.ask("WEIR.CLOCK", "ADVANCE", "1ns")
        expect("a client that obeys is served", c.ask("CL.THROTTLE", "k", 0, 2, 3),
               [0, 1, 0, -1, 2])


def the_clock_is_ours():
    with Daemon("--threads", "2") as daemon, daemon.resp() as c, daemon.resp() as other:
        now = c.ask("WEIR.CLOCK", "GET")
        check("GET is nanoseconds", isinstance(now, int) and now >= 0, now)
        expect("SET", c.ask("WEIR.CLOCK", "SET", "1700000000000000000"), "OK")
        expect("another connection sees it", other.ask("WEIR.CLOCK", "GET"), 1700000000000000000)
        expect("ADVANCE", c.ask("WEIR.CLOCK", "advance", "1.5s"), "OK")
        expect("and again", other.ask("WEIR.CLOCK", "GET"), 1700000001500000000)
        expect("back", c.ask("WEIR.CLOCK", "ADVANCE", "-500ms"), "OK")
        expect("it went back", other.ask("WEIR.CLOCK", "GET"), 1700000001000000000)
        c.ask("WEIR.TAKE", "1/s", "k")
        c.ask("WEIR.CLOCK", "ADVANCE", "-10s")
        expect("a clock that goes back mints nothing", c.ask("WEIR.TAKE", "1/s", "k"),
               [0, 1, 0, 11000, 11000, 0])


def workers_share_what_they_know():
    with Daemon("--threads", "4", "--limit", "api=100/h") as daemon:
        lines = [daemon.resp() for _ in range(16)]
        for line in lines:
            line.send_bytes(encode("WEIR.TAKE", "api", "k") * 20)
        granted = sum(line.read()[0] for line in lines for _ in range(20))
        expect("sixteen connections, four workers, one limit", granted, 100)
        for line in lines:
            line.send_bytes(encode("CL.THROTTLE", "k", 49, 50, 3600) * 20)
        expect("and one throttle", sum(1 - line.read()[0] for line in lines for _ in range(20)), 50)
        for line in lines:
            line.send_bytes(encode("WEIR.TAKE", "60/1h", "k") * 20)
        expect("and one literal", sum(line.read()[0] for line in lines for _ in range(20)), 60)
        for line in lines:
            line.close()


if __name__ == "__main__":
    sys.exit(play("commands over RESP", [
        what_is_wrong_is_named, words_are_counted, the_clock_is_not_for_everyone,
        what_clients_say_first,
        resp3_is_spoken, a_line_is_a_command_too, keys_are_bytes, a_hundred_thousand_at_once,
        answers_keep_their_order, the_clock_moves_within_a_pipeline, limits_are_set_and_changed,
        many_limits_have_an_end, a_literal_is_its_meaning, literals_are_bounded_and_not_forgotten,
        throttles_of_any_parameters,
        takes_peeks_refunds_resets, names_of_reservations_do_not_run_out,
        reservations_end_with_their_connection, several_are_all_or_nothing,
        throttles_are_one_namespace, throttles_change_live, seconds_round_up, the_clock_is_ours,
        workers_share_what_they_know]))
