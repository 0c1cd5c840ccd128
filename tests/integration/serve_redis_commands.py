#!/usr/bin/env python3
"""What Redis's clients and tools ask of any server: `serve_redis_commands.py PATH_TO_WEIR`."""

import contextlib
import re
import sys
import threading
import time

from daemon import (ROOMY, Daemon, Error, Resp, check, encode, expect, others_are_served, play,
                    until)

# The fields of CLIENT LIST that clients parse (Redis 7.2).
FIELDS = ("id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem "
          "multi-mem rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name "
          "lib-ver").split()
SECTIONS = ("Server Clients Memory Stats Persistence Replication CPU Cluster Keyspace Store Stores "
            "Config Limits").split()


def fields(line):
    return dict(word.split("=", 1) for word in line.decode().rstrip("\n").split(" "))


def clients(line, *filters):
    """CLIENT LIST, by id."""
    text = line.ask("CLIENT", "LIST", *filters)
    return {int(one["id"]): one for one in map(fields, text.splitlines())}


def refused(sentence, line, words, part):
    reply = line.ask(*words)
    check(sentence, isinstance(reply, Error) and part in reply and line.ask("PING") == "PONG",
          reply)


# ---- INFO and CONFIG ---------------------------------------------------------------------------


def sections_of(text):
    return re.findall(r"^# (\w+)\r$", text.decode(), re.MULTILINE)


def info_has_sections():
    with Daemon("--limit", "api=10/s", "--max-memory", "200MiB") as daemon, daemon.resp() as c:
        for words, wanted in (([], SECTIONS), (["default"], SECTIONS), (["ALL"], SECTIONS),
                              (["everything"], SECTIONS), (["server"], ["Server"]),
                              (["Replication"], ["Replication"]),
                              (["limits", "REPLICATION", "server", "nosuch"],
                               ["Server", "Replication", "Limits"]),
                              (["nosuch"], []), (["nosuch", "all"], SECTIONS)):
            text = c.ask("INFO", *words)
            expect(f"INFO {words}", sections_of(text), wanted)
            check(f"INFO {words} is lines", text == b"" or text.endswith(b"\r\n")
                  and not text.startswith(b"\r\n"), text)
        told = c.info()
        for name, value in (("role", "master"), ("loading", "0"), ("redis_mode", "standalone"),
                            ("connected_slaves", "0"), ("cluster_enabled", "1"),
                            ("redis_version", "7.0.15"), ("connected_clients", "1"),
                            ("maxmemory", str(200 << 20))):
            expect(f"INFO says {name}", told.get(name), value)
        expect("the counters have Redis's names too",
               (told["total_commands_processed"], told["total_connections_received"]),
               (told["commands"], told["connections"]))
        check("no keys, no line for them", "db0" not in told)
        c.ask("WEIR.TAKE", "api", "a")
        c.ask("WEIR.TAKE", "1/h", "b")
        check("keys are a database's", until(lambda: c.info().get("db0")
                                             == "keys=2,expires=2,avg_ttl=0"), c.info())
        check("DBSIZE counts them too", until(lambda: c.ask("DBSIZE") == 2), c.ask("DBSIZE"))
        c.ask("WEIR.CLOCK", "ADVANCE", "2h")
        check("until they are as good as new", until(lambda: c.ask("DBSIZE") == 0), c.ask("DBSIZE"))


def config_says_the_same():
    for flags in (["--max-memory", "100MiB"], ["--max-keys", "5000"], []):
        with Daemon(*flags, "--idle", "77s", "--max-connections", "50") as daemon, \
                daemon.resp() as c:
            expect(f"maxmemory is INFO's: {flags}", c.ask("CONFIG", "GET", "maxmemory"),
                   [b"maxmemory", c.info()["maxmemory"].encode()])
            got = c.ask("CONFIG", "GET", "max*")
            expect("a pattern", got[::2], [b"maxmemory", b"maxmemory-policy", b"maxclients"])
            expect("several, without regard to case",
                   c.ask("CONFIG", "GET", "TIMEOUT", "data?ases", "nosuch", "maxclients"),
                   [b"databases", b"16", b"timeout", b"77", b"maxclients", b"50"])
            expect("the save of redis-benchmark", c.ask("CONFIG", "GET", "save"), [b"save", b""])
            all_of_them = c.ask("CONFIG", "GET", "*")
            check("all", len(all_of_them) == len(c.ask("CONFIG", "GET", "*", "save")) > 10,
                  all_of_them)
            expect("patterns that match nothing", c.ask("CONFIG", "GET", "*y*x*", "", "save?"), [])
            refused("nothing is set by it", c, ["CONFIG", "SET", "maxmemory", "1"], "'SET'")


# ---- CLIENT ------------------------------------------------------------------------------------


def clients_are_listed():
    with Daemon("--threads", "3", listen=("127.0.0.1:0", "[::1]:0", "unix:DIR/s")) as daemon, \
            contextlib.ExitStack() as open_ones:
        lines = [open_ones.enter_context(daemon.resp(i % 3)) for i in range(9)]
        web = open_ones.enter_context(daemon.http())
        web.ask("GET", "/healthz")
        ids = [line.ask("CLIENT", "ID") for line in lines]
        for i, line in enumerate(lines):
            line.ask("CLIENT", "SETNAME", f"name{i}")
        lines[0].ask("CLIENT", "SETINFO", "LIB-NAME", "redis-py(x)")
        lines[0].ask("CLIENT", "setinfo", "lib-ver", "5.0.1")
        lines[1].ask("HELLO", 3)
        lines[2].ask("SELECT", 7)
        lines[3].ask("MULTI")
        lines[3].ask("PING")
        lines[4].send_bytes(b"*1\r\n$4\r\nPI")
        check("the half request has come", until(lambda: clients(lines[8])[ids[4]]["qbuf"] != "0"))
        for asker in (lines[0], lines[8]):
            got = clients(asker)
            check("all of them are there", set(ids) <= set(got) and len(got) == 10, got)
            for i, line in enumerate(lines):
                expect(f"line {i} has all fields", list(got[ids[i]]), FIELDS)
            expect("with their names", [got[i]["name"] for i in ids],
                   [f"name{i}" for i in range(9)])
        port = daemon.addresses[0][1]
        expect("the ends of IPv4", (got[ids[0]]["addr"], got[ids[0]]["laddr"]),
               (f"127.0.0.1:{lines[0].socket.getsockname()[1]}", f"127.0.0.1:{port}"))
        expect("of IPv6", (got[ids[1]]["addr"], got[ids[1]]["laddr"]),
               (f"[::1]:{lines[1].socket.getsockname()[1]}", f"[::1]:{daemon.addresses[1][1]}"))
        expect("of a socket", (got[ids[2]]["addr"], got[ids[2]]["laddr"]), ("unix:0", "unix:0"))
        expect("the library", (got[ids[0]]["lib-name"], got[ids[0]]["lib-ver"]),
               ("redis-py(x)", "5.0.1"))
        expect("what each does", [(got[ids[i]]["resp"], got[ids[i]]["db"], got[ids[i]]["multi"],
                                   got[ids[i]]["cmd"]) for i in range(4)],
               [("2", "0", "-1", "client"), ("3", "0", "-1", "hello"), ("2", "7", "-1", "select"),
                ("2", "0", "1", "ping")])
        expect("HTTP too", [one["cmd"] for one in got.values()].count("http"), 1)
        expect("those of some ids", set(clients(lines[0], "ID", ids[3], ids[5], 99999)),
               {ids[3], ids[5]})
        expect("of a type", len(clients(lines[0], "TYPE", "normal")), 10)
        expect("of another", lines[0].ask("CLIENT", "LIST", "TYPE", "replica"), b"")
        for words, part in ((["LIST", "TYPE", "x"], "'x'"), (["LIST", "ID"], "syntax"),
                            (["LIST", "ID", "0"], "'0'"), (["LIST", "ID", "x"], "'x'"),
                            (["LIST", "FOO", "x"], "syntax"), (["SETINFO", "LIB-NAME"], "SETINFO"),
                            (["SETINFO", "LIB-FOO", "x"], "LIB-FOO"),
                            (["SETINFO", "LIB-NAME", "a b"], "spaces"),
                            (["SETNAME", "a b"], "spaces"), (["NO-EVICT", "x"], "NO-EVICT"),
                            (["NOSUCH"], "NOSUCH"), (["ID", "x"], "'ID'")):
            refused(f"refused: CLIENT {words}", lines[0], ["CLIENT", *words], part)
        expect("NO-EVICT, NO-TOUCH", (lines[0].ask("CLIENT", "NO-EVICT", "on"),
                                      lines[0].ask("CLIENT", "NO-TOUCH", "OFF")), ("OK", "OK"))
        one = fields(lines[0].ask("CLIENT", "INFO"))
        expect("INFO is one's own line", (int(one["id"]), one["name"], list(one)),
               (ids[0], "name0", FIELDS))
        lines[0].ask("RESET")
        expect("RESET forgets the name", lines[0].ask("CLIENT", "GETNAME"), None)
        lines[8].close()
        check("one that closes leaves", until(lambda: ids[8] not in clients(lines[0])))
        lines[0].ask("MULTI")
        for words in (["PING"], ["CLIENT", "LIST"], ["CLIENT", "ID"]):
            lines[0].ask(*words)
        got = lines[0].ask("EXEC")
        check("a list is an element too", got[0] == "PONG" and len(got[1].splitlines()) == 9
              and got[2] == ids[0], got)


def thousands_are_listed():
    n = 3000 if ROOMY == 1 else 300
    with Daemon("--threads", "2", nofile=8192) as daemon, contextlib.ExitStack() as open_ones:
        crowd = [open_ones.enter_context(daemon.resp()) for _ in range(n)]
        with daemon.resp() as c:
            check("all are listed", until(lambda: len(clients(c)) == n + 1))
            began = time.monotonic()
            for _ in range(20):
                clients(c)
            print(f"        CLIENT LIST of {n}: {(time.monotonic() - began) / 20 * 1000:.1f} ms")
            thread = c.send_behind(encode("CLIENT", "LIST") * 200)
            slowest = 0
            for _ in range(100):        # of the same worker, and of the other one
                for line in crowd[:2]:
                    began = time.monotonic()
                    line.ask("PING")
                    slowest = max(slowest, time.monotonic() - began)
            check("others are served beside lists", slowest < 0.25 * ROOMY, f"{slowest:.3f} s")
            others_are_served(daemon, "beside lists")
            check("and all lists come", all(len(c.read().splitlines()) >= n for _ in range(200)))
            thread.join()
        with daemon.resp() as c:
            c.send_bytes(encode("CLIENT", "LIST") * 100)
            c.reset()
        with daemon.resp() as c:
            check("one that leaves meanwhile leaves nothing",
                  until(lambda: c.info()["memory_output"] == "0"), c.info())


def lists_and_closing_at_once():
    """Connections come, are listed, killed and go, in several threads."""
    with Daemon("--threads", "2") as daemon:
        failures = []

        def come_and_go(turn):
            try:
                for i in range(60):
                    with daemon.resp() as c:
                        me = c.ask("CLIENT", "ID")
                        if me not in clients(c):
                            failures.append((turn, i))
                        if i % 3 == 0:
                            c.send("CLIENT", "LIST")
                            c.reset()
                        elif i % 3 == 1:
                            c.ask("CLIENT", "KILL", "ID", me - 1)
            except OSError:
                pass    # another thread has killed it

        threads = [threading.Thread(target=come_and_go, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check("each saw itself", not failures, failures)
        with daemon.resp() as c:
            check("none is left", until(lambda: len(clients(c)) == 1), clients(c))


def lists_are_bounded():
    with Daemon("--max-buffered", "1MiB", "--connection-part", "1/16", "--max-request", "4KiB",
                "--max-output", "4KiB") as daemon, contextlib.ExitStack() as open_ones:
        for _ in range(400):
            open_ones.enter_context(daemon.resp())
        with daemon.resp() as c:
            reply = c.ask("CLIENT", "LIST")
            check("a list that finds no room is an error", isinstance(reply, Error)
                  and "limit reached" in reply, reply)
            expect("and the connection goes on", c.ask("PING"), "PONG")


def clients_are_killed():
    with Daemon("--threads", "2") as daemon, daemon.resp() as c:
        def victim():
            line = daemon.resp()
            return line, line.ask("CLIENT", "ID"), "127.0.0.1:%d" % line.socket.getsockname()[1]

        line, number, _ = victim()
        expect("by id", c.ask("CLIENT", "KILL", "ID", number), 1)
        expect("it is closed", line.rest(), b"")
        check("and gone", until(lambda: number not in clients(c)))
        line, number, address = victim()
        expect("by address", c.ask("CLIENT", "KILL", address), "OK")
        expect("it is closed", line.rest(), b"")
        refused("none has that address", c, ["CLIENT", "KILL", "127.0.0.1:1"], "No such client")
        refused("no address at all", c, ["CLIENT", "KILL", "nonsense"], "No such client")
        lines = [victim() for _ in range(3)]
        expect("by filters", c.ask("CLIENT", "KILL", "ADDR", lines[1][2], "TYPE", "normal"), 1)
        expect("that do not fit", c.ask("CLIENT", "KILL", "ID", lines[0][1], "ADDR", lines[2][2]),
               0)
        expect("by age", c.ask("CLIENT", "KILL", "ID", lines[0][1], "MAXAGE", 1000), 0)
        expect("by another type", c.ask("CLIENT", "KILL", "TYPE", "pubsub"), 0)
        expect("by another user", c.ask("CLIENT", "KILL", "USER", "bob"), 0)
        local = "127.0.0.1:%d" % daemon.addresses[0][1]
        expect("all but me", c.ask("CLIENT", "KILL", "LADDR", local), 2)
        expect("they are closed", (lines[0][0].rest(), lines[2][0].rest()), (b"", b""))
        for words in (["ID", "x"], ["FOO", "x"], ["ID", 1, "ADDR"], ["SKIPME", "maybe"]):
            refused(f"refused: KILL {words}", c, ["CLIENT", "KILL", *words], "ERR")
        # One that waits for its turn gives it back.
        waits, number, _ = victim()
        c.ask("WEIR.TAKE", "1/s", "w")
        waits.send("WEIR.TAKE", "1/s", "w", 1, "WAIT", "1h")
        until(lambda: c.ask("WEIR.PEEK", "1/s", "w", 1, "PATIENCE", "1h")[5] == 2000)
        c.ask("CLIENT", "KILL", "ID", number)
        check("its turn is free again",
              until(lambda: c.ask("WEIR.PEEK", "1/s", "w", 1, "PATIENCE", "1h")[5] == 1000))
        me = c.ask("CLIENT", "ID")
        expect("me too", c.ask("CLIENT", "KILL", "ID", me, "SKIPME", "no"), 1)
        expect("I am closed", c.rest(), b"")
    with Daemon("--no-admin") as daemon, daemon.resp() as c:
        refused("not with --no-admin", c, ["CLIENT", "KILL", "ID", "1"], "NOPERM")
        check("which may look", len(clients(c)) == 1)


# ---- COMMAND -----------------------------------------------------------------------------------


def commands_are_described():
    with Daemon() as daemon, daemon.resp() as c:
        rows = c.ask("COMMAND")
        n = c.ask("COMMAND", "COUNT")
        expect("COUNT", n, len(rows))
        check("ten fields each", all(len(row) == 10 for row in rows),
              [row for row in rows if len(row) != 10])
        by_name = {row[0].decode(): row for row in rows}
        expect("LIST", [name.decode() for name in c.ask("COMMAND", "LIST")], list(by_name))
        check("names are the table's", len(by_name) == n
              and {"weir.take", "multi", "cluster", "time"} <= set(by_name), sorted(by_name))
        for name, arity, flags, keys, categories in (
                ("weir.take", -3, ["write", "fast"], [2, 2, 1], ["@fast", "@write"]),
                ("weir.peek", -3, ["readonly", "fast"], [2, 2, 1], ["@fast", "@read"]),
                ("weir.takeall", -5, ["write", "fast"], [3, -2, 3], ["@fast", "@write"]),
                ("exec", 1, ["loading", "fast"], [0, 0, 0], ["@fast", "@transaction"]),
                ("echo", 2, ["loading", "fast"], [0, 0, 0], ["@fast", "@connection"])):
            row = by_name[name]
            expect(f"the row of {name}", row[1:8],
                   [arity, flags, *keys, categories, []])
        expect("where keys are", by_name["weir.peek"][8],
               [[b"flags", ["RO", "access"], b"begin_search", [b"type", b"index", b"spec",
                                                              [b"index", 2]],
                 b"find_keys", [b"type", b"range", b"spec", [b"lastkey", 0, b"keystep", 1, b"limit",
                                                             0]]]])
        expect("INFO of names", c.ask("COMMAND", "INFO", "PING", "nosuch", "exec"),
               [by_name["ping"], None, by_name["exec"]])
        expect("INFO of all", len(c.ask("COMMAND", "INFO")), n)
        expect("DOCS of names", c.ask("COMMAND", "DOCS", "nosuch", "Weir.Cancel", "multi")[::2],
               [b"weir.cancel", b"multi"])
        expect("DOCS of all", len(c.ask("COMMAND", "DOCS")), 2 * n)
        c.ask("HELLO", 3)
        docs = c.ask("COMMAND", "DOCS")
        c.ask("HELLO", 2)
        check("each has a summary and a group", all(doc[b"summary"] and doc[b"group"]
                                                    for doc in docs.values()), docs)
        expect("a list by pattern", c.ask("COMMAND", "LIST", "FILTERBY", "PATTERN", "WEIR.*ake*"),
               [b"weir.take", b"weir.takeall"])
        expect("by category", c.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "read"),
               [b"weir.peek"])
        expect("by module", c.ask("COMMAND", "LIST", "FILTERBY", "MODULE", "x"), [])
        for words, wanted in ((["WEIR.TAKE", "api", "k"], [b"k"]),
                              (["CL.THROTTLE", "k", 1, 1, 1], [b"k"]),
                              (["WEIR.TAKEALL", 2, "a", "k", 1, "b", "j", 1], [b"k", b"j"])):
            expect(f"GETKEYS {words}", c.ask("COMMAND", "GETKEYS", *words), wanted)
        for words, part in ((["GETKEYS", "NOSUCH"], "Invalid command"),
                            (["GETKEYS", "PING"], "no key arguments"),
                            (["GETKEYS", "WEIR.TAKE", "x"], "Invalid number"),
                            (["GETKEYS"], "GETKEYS"), (["NOSUCH"], "'NOSUCH'"),
                            (["LIST", "x"], "FILTERBY"), (["COUNT", "x"], "'COUNT'")):
            refused(f"refused: COMMAND {words}", c, ["COMMAND", *words], part)


# ---- CLUSTER -----------------------------------------------------------------------------------

# (key, slot), from Redis.
SLOTS = [("", 0), ("foo", 12182), ("bar", 5061), ("user1000", 3443), ("{user1000}.following", 3443),
         ("foo{}{bar}", 8363), ("foo{{bar}}zap", 4015), ("foo{bar}{zap}", 5061), ("{", 4092),
         ("123456789", 12739)]


def a_cluster_of_one_node():
    with Daemon(listen=("127.0.0.1:0", "[::1]:0", "unix:DIR/s")) as daemon, daemon.resp() as c, \
            daemon.resp(1) as six, daemon.resp(2) as local:
        my_id = c.ask("CLUSTER", "MYID")
        check("an id", re.fullmatch(b"[0-9a-f]{40}", my_id), my_id)
        for line, host, port in ((c, "127.0.0.1", daemon.addresses[0][1]),
                                 (six, "::1", daemon.addresses[1][1]),
                                 (local, "", daemon.addresses[0][1])):
            expect(f"SLOTS on {host!r}", line.ask("CLUSTER", "SLOTS"),
                   [[0, 16383, [host.encode(), port, my_id, []]]])
            shard, = line.ask("CLUSTER", "SHARDS")
            node = dict(zip(shard[3][0][::2], shard[3][0][1::2]))
            expect(f"SHARDS on {host!r}", (shard[:3:2], shard[1], node),
                   ([b"slots", b"nodes"], [0, 16383],
                    {b"id": my_id, b"port": port, b"ip": host.encode(), b"endpoint": host.encode(),
                     b"role": b"master", b"replication-offset": 0, b"health": b"online"}))
            expect(f"NODES on {host!r}", line.ask("CLUSTER", "NODES").decode(),
                   f"{my_id.decode()} {host}:{port}@{port + 10000} myself,master - 0 0 1 connected "
                   "0-16383\n")
        check("INFO", b"cluster_state:ok\r\n" in c.ask("CLUSTER", "INFO"))
        for key, slot in SLOTS:
            expect(f"KEYSLOT {key}", c.ask("CLUSTER", "KEYSLOT", key), slot)
        expect("no keys by slot", (c.ask("CLUSTER", "COUNTKEYSINSLOT", 5),
                                   c.ask("CLUSTER", "GETKEYSINSLOT", 5, 10)), (0, []))
        expect("no replicas", c.ask("CLUSTER", "REPLICAS", my_id), [])
        expect("READONLY, READWRITE, ASKING",
               [c.ask(word) for word in ("READONLY", "READWRITE", "ASKING")], ["OK"] * 3)
        for words in (["MEET", "127.0.0.1", "1"], ["SLOTS", "x"], ["KEYSLOT"], ["NOSUCH"]):
            refused(f"refused: CLUSTER {words}", c, ["CLUSTER", *words], f"'{words[0]}'")
        six.ask("HELLO", 3)
        check("SHARDS is maps in RESP3", isinstance(six.ask("CLUSTER", "SHARDS")[0], dict))
    with Daemon("--insecure", listen=(":0",)) as daemon:
        port = daemon.addresses[0][1]
        for host in ("127.0.0.1", "127.0.0.2", "::1"):
            with Resp((host, port)) as line:
                expect(f"every address: the one that was reached, {host}, and no IPv4 in IPv6",
                       line.ask("CLUSTER", "SLOTS")[0][2][:2], [host.encode(), port])


# ---- Short answers -----------------------------------------------------------------------------


def short_answers():
    with Daemon() as daemon, daemon.resp() as c:
        c.ask("WEIR.CLOCK", "SET", "1700000000123456789")
        rows = [
            (["ROLE"], [b"master", 0, []]), (["TIME"], [b"1700000000", b"123456"]),
            (["DBSIZE"], 0), (["LATENCY", "LATEST"], []), (["LATENCY", "HISTORY", "command"], []),
            (["LATENCY", "RESET"], 0), (["LATENCY", "HISTOGRAM"], []), (["SLOWLOG", "GET"], []),
            (["SLOWLOG", "GET", "10"], []), (["slowlog", "len"], 0), (["SLOWLOG", "RESET"], "OK"),
            (["SELECT", 0], "OK"), (["SELECT", 15], "OK"), (["SELECT", 2**31 - 1], "OK"),
            (["AUTH", "default", "secret"], "OK"),
        ]
        for words, wanted in rows:
            expect(f"{words}", c.ask(*words), wanted)
        check("LATENCY DOCTOR", b"not measured" in c.ask("LATENCY", "DOCTOR"))
        for words, part in ((["SELECT", "-1"], "'-1'"), (["SELECT", "x"], "'x'"),
                            (["SELECT", 2**31], "2147483648"), (["LATENCY", "x"], "'x'"),
                            (["SLOWLOG", "x"], "'x'"), (["AUTH", "secret"], "without any password"),
                            (["AUTH", "bob", "secret"], "WRONGPASS"),
                            (["HELLO", "3", "AUTH", "bob", "secret"], "WRONGPASS"),
                            (["KEYS", "*"], "not stored"), (["SCAN", "0"], "not stored"),
                            (["MONITOR"], "not shown"), (["SUBSCRIBE", "x"], "no channels"),
                            (["GET", "x"], "stores no values"), (["EVAL", "x", "0"], "no scripts")):
            refused(f"refused: {words}", c, words, part)
        told = c.ask("HELLO", 3, "AUTH", "default", "secret", "SETNAME", "me")
        check("HELLO with the default user's password, as in Redis", told[b"proto"] == 3, told)
        # One keyspace, whatever the database.
        with daemon.resp() as other:
            other.ask("SELECT", 5)
            c.ask("WEIR.TAKE", "10/h", "k")
            expect("all databases are one", other.ask("WEIR.TAKE", "10/h", "k")[2], 8)
            expect("RESET goes back to the first", (other.ask("RESET"), fields(
                other.ask("CLIENT", "INFO"))["db"]), ("RESET", "0"))


def a_misspelt_command_gets_a_suggestion():
    with Daemon() as daemon, daemon.resp() as c, daemon.http() as h:
        for words, wanted in ((("WEIR.TOKE", "a", "b"), "did you mean 'weir.take'?"),
                              (("weir.takeal", 1), "did you mean 'weir.takeall'?"),
                              (("PIN",), "did you mean 'ping'?")):
            check(f"{words[0]}", str(c.ask(*words)).endswith(wanted), c.ask(*words))
        for word in ("xy", "completely.else", "w" * 100, ""):
            check(f"not {word[:20]!r}", "did you mean" not in str(c.ask(word)))
        reply = h.ask("GET", "/v1/take?limit=10/s+++5/m&key=k")
        check("+ is a blank in a query", reply.status == 400 and b"%2B" in reply.body, reply.body)


if __name__ == "__main__":
    sys.exit(play("what Redis's clients ask", [
        a_misspelt_command_gets_a_suggestion,
        info_has_sections, config_says_the_same, clients_are_listed, thousands_are_listed,
        lists_and_closing_at_once, lists_are_bounded, clients_are_killed, commands_are_described,
        a_cluster_of_one_node, short_answers]))
