#!/usr/bin/env python3
"""What one connection, and one address, may have of what all share: `serve_parts.py PATH_TO_WEIR`.

Each scene was an attack once: it kept what it should not, or closed a client that did nothing
wrong.
"""

import contextlib
import json
import socket
import sys
import threading
import time

from daemon import ROOMY, Daemon, Error, Resp, check, encode, expect, http_request, play, until

FOREVER = ("WAIT", "forever")


# ---- Idle --------------------------------------------------------------------------------------


def busy_for(seconds, one_turn):
    """Calls `one_turn` until the time is over or the daemon has closed the connection: how
    often."""
    end, n = time.monotonic() + seconds, 0
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            one_turn()
            n += 1
        return n
    return -n


def a_client_that_is_served_is_not_idle():
    """A pipeline may never be at the end of a request when it is read: that is no silence."""
    with Daemon("--idle", "1s", "--threads", "2") as daemon:
        turns = {}
        http = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        said = {"RESP": (encode("PING"), b"+PONG\r\n"), "HTTP": (http, None)}

        def halves(name):
            data, reply = said[name]
            with daemon.http() as c:
                half = len(data) // 2
                c.send_bytes(data[:half])

                def turn():
                    c.send_bytes(data[half:] + data[:half])
                    expect("the answer", c.take_bytes(len(reply)), reply) if reply else c.read()
                    time.sleep(0.01)
                turns[name] = busy_for(2.5, turn)

        def unbroken():
            data = encode("CL.THROTTLE", "k", 1000000, 1000000, 1) * 3000
            with daemon.resp() as c:
                def read_all():
                    with contextlib.suppress(OSError):
                        while c.socket.recv(1 << 18):
                            pass
                reader = threading.Thread(target=read_all, daemon=True)
                reader.start()
                turns["an unbroken pipeline"] = busy_for(2.5, lambda: c.send_bytes(data))
                with contextlib.suppress(OSError):
                    c.socket.shutdown(socket.SHUT_RDWR)
                reader.join(5)

        threads = [threading.Thread(target=halves, args=(name,)) for name in said]
        threads.append(threading.Thread(target=unbroken))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, n in turns.items():
            check(f"{name} goes on past --idle", n > 0, f"cut off after {-n}")


def an_unfinished_request_ends_whatever_is_held():
    with Daemon("--idle", "500ms") as daemon, daemon.resp() as clock, daemon.resp() as waits:
        clock.ask("WEIR.TAKE", "1/s", "k")
        waits.send("WEIR.TAKE", "1/s", "k", 1, *FOREVER)
        until(lambda: int(clock.info()["delayed_replies"]) == 1)
        crowd = [daemon.resp() for _ in range(5)]
        for c in crowd:
            c.send_bytes(encode("WEIR.TAKE", "1/s", "k", 1, *FOREVER)
                         + b"*2\r\n$4\r\nECHO\r\n$99\r\nhalf of")
        check("all wait", until(lambda: int(clock.info()["delayed_replies"]) == 6))
        check("a client that left a request unfinished is closed",
              until(lambda: int(clock.info()["delayed_replies"]) == 1, 5),
              clock.info()["delayed_replies"])
        for c in crowd:
            c.socket.settimeout(1)
            expect("and told nothing", c.rest(), b"")
            c.close()
        expect("a client that only waits is not", waits.is_silent(), True)
        clock.ask("WEIR.CLOCK", "ADVANCE", "10s")
        expect("and its turn comes", waits.read()[0], 1)


def requests_that_wait_for_room_are_not_unfinished():
    """A connection at its bound of delayed replies is not read: requests behind that are not the
    client's fault."""
    with Daemon("--idle", "500ms", "--max-delayed", "32") as daemon, daemon.resp() as clock, \
            daemon.resp() as c:
        c.send_bytes(encode("WEIR.TAKE", "1k/s burst=1", "k", 1, *FOREVER) * 40)
        until(lambda: int(clock.info()["delayed_replies"]) > 0)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            clock.ask("PING")
            time.sleep(0.05)
        got = 0
        for _ in range(40):
            clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
            got += c.read()[0]
        expect("all have their turn", got, 40)


# ---- Small things stay small -------------------------------------------------------------------


def a_small_request_may_come_in_pieces():
    """Others have used up --max-buffered; a client that keeps little is served all the same."""
    with Daemon("--max-buffered", "1MiB", "--threads", "1") as daemon:
        crowd = [daemon.resp() for _ in range(90)]
        for c in crowd:
            with contextlib.suppress(OSError):
                c.send_bytes(b"*2\r\n$4\r\nECHO\r\n$900000\r\n" + b"x" * 15000)
        data = encode("ECHO", "y" * 1000)
        for _ in range(5):
            with daemon.resp() as c:
                for piece in (data[:400], data[400:700], data[700:]):
                    c.send_bytes(piece)
                    time.sleep(0.02)
                c.socket.settimeout(5)
                expect("an ECHO in pieces", len(c.read()), 1000)
        for c in crowd:
            c.close()


def what_stands_between_delayed_replies_is_small():
    """500 PINGs between as many waits are 3.5 KB: they must not count as 8 MB."""
    with Daemon("--max-buffered", "4MiB", "--threads", "1",
                "--limit", "p=1k/s burst=1") as daemon, \
            daemon.resp() as clock, daemon.resp() as c:
        n = 500
        c.send_bytes((encode("WEIR.TAKE", "p", "k", 1, *FOREVER) + encode("PING")) * n)
        check("they wait", until(lambda: int(clock.info()["delayed_replies"]) >= n - 1, 5),
              clock.info()["delayed_replies"])
        clock.ask("WEIR.CLOCK", "ADVANCE", "10s")
        got = [c.read() for _ in range(2 * n)]
        check("and all are answered",
              all(r[0] == 1 for r in got[::2]) and set(got[1::2]) == {"PONG"})


# ---- Parts -------------------------------------------------------------------------------------


def a_connection_has_its_part_of_delayed_replies():
    with Daemon("--max-delayed", "160", "--limit", "p=1k/s burst=1") as daemon, \
            daemon.resp() as clock, daemon.resp() as greedy, daemon.resp() as other:
        greedy.send_bytes(encode("WEIR.TAKE", "p", "k", 1, *FOREVER) * 200)
        check("it holds", until(lambda: int(clock.info()["delayed_replies"]) >= 10),
              clock.info()["delayed_replies"])
        check("a sixteenth and no more",
              not until(lambda: int(clock.info()["delayed_replies"]) > 10, 0.2),
              clock.info()["delayed_replies"])
        other.send("WEIR.TAKE", "p", "k", 1, *FOREVER)
        check("another waits too", until(lambda: int(clock.info()["delayed_replies"]) == 11),
              clock.info()["delayed_replies"])
        got = 0
        for _ in range(200):
            clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
            got += greedy.read()[0]
        expect("all of the pipeline have their turn", got, 200)
        expect("and so has the other", other.read()[0], 1)


def a_peer_has_its_part_of_delayed_replies():
    with Daemon("--max-delayed", "16", "--peer-part", "1/4",
                "--limit", "p=1k/s burst=1") as daemon, \
            daemon.resp() as clock:
        crowd = [daemon.resp(source="127.0.0.2") for _ in range(6)]
        clock.ask("WEIR.TAKE", "p", "k")
        for i, c in enumerate(crowd):
            c.send("WEIR.TAKE", "p", "k", 1, *FOREVER)
            until(lambda i=i: int(clock.info()["delayed_replies"]) == min(i + 1, 4), 2)
        said = [c.read() for c in crowd[4:]]
        check("the fifth of one address is an error", all(isinstance(r, Error) for r in said), said)
        with daemon.resp(source="127.0.0.3") as other:
            other.send("WEIR.TAKE", "p", "k", 1, *FOREVER)
            check("one of another address waits",
                  until(lambda: int(clock.info()["delayed_replies"]) == 5),
                  clock.info()["delayed_replies"])
            clock.ask("WEIR.CLOCK", "ADVANCE", "1s")
            expect("and has its turn", other.read()[0], 1)
        for c in crowd:
            c.close()


def a_peer_has_its_part_of_connections():
    with Daemon("--max-connections", "16", "--peer-part", "1/4") as daemon:
        crowd = [daemon.resp(source="127.0.0.2") for _ in range(4)]
        check("a quarter is served", all(c.ask("PING") == "PONG" for c in crowd))
        with daemon.resp(source="127.0.0.2") as extra:
            expect("one more is sent away", extra.rest(), b"")
        with daemon.resp(source="127.0.0.3") as other:
            expect("another address is served", other.ask("PING"), "PONG")
        crowd.pop().close()

        def is_served():
            with contextlib.suppress(OSError), daemon.resp(source="127.0.0.2") as c:
                return c.ask("PING") == "PONG"
            return False
        check("when one leaves, there is place", until(is_served, 5))
        for c in crowd:
            c.close()


def the_loopback_has_all_unless_it_is_told():
    """Behind a proxy on the same machine all clients have one address: they share the whole."""
    with Daemon("--max-delayed", "16", "--max-connections", "16",
                listen=("127.0.0.1:0", "unix:DIR/socket")) as daemon:
        for which in (0, 1):
            crowd = [daemon.resp(which) for _ in range(15)]
            crowd[0].ask("WEIR.TAKE", "1/s", f"k{which}")
            for c in crowd[1:]:
                c.send("WEIR.TAKE", "1/s", f"k{which}", 1, *FOREVER)
            check("all wait", until(lambda: int(crowd[0].info()["delayed_replies"]) == 14),
                  crowd[0].info()["delayed_replies"])
            for c in crowd:
                c.close()
            with daemon.resp() as c:
                check("and leave", until(lambda: int(c.info()["connected_clients"]) == 1))


def a_peer_has_its_part_of_bytes():
    big = b"*2\r\n$4\r\nECHO\r\n$900000\r\n" + b"x" * 800000
    with Daemon("--max-buffered", "16MiB", "--peer-part", "1/4", "--threads", "1") as daemon:
        crowd = [daemon.resp(source="127.0.0.2") for _ in range(20)]
        for c in crowd:
            with contextlib.suppress(OSError):
                c.send_bytes(big)
        with daemon.resp(source="127.0.0.3") as other:
            other.send_bytes(big)
            kept = int(other_info(daemon)["memory_input"])
            check("a peer keeps a quarter", kept < 6 << 20, kept)
            other.send_bytes(b"x" * 100000 + b"\r\n")
            expect("another's large request is served", len(other.read()), 900000)
        for c in crowd:
            c.close()


def other_info(daemon):
    with daemon.resp() as c:
        return c.info()


# ---- Waiting -----------------------------------------------------------------------------------


def no_reply_is_delayed_longer_than_max_wait():
    with Daemon("--max-wait", "10s", "--limit", "p=pacer 1/s", "--limit",
                "w=fixed-window 1/1m") as daemon, \
            daemon.resp() as clock, daemon.resp() as c, daemon.http() as h:
        got = [clock.ask("WEIR.TAKE", "p", "k", 1, "PATIENCE", "forever")[0] for _ in range(13)]
        expect("what is reserved is not further ahead than that", got, [1] * 11 + [0] * 2)
        expect("a wait that would be longer is refused at once",
               c.ask("WEIR.TAKE", "p", "k", 1, *FOREVER)[0], 0)
        expect("over HTTP too", h.ask("GET", "/v1/take?limit=p&key=k&wait=1h").status, 429)
        expect("and where the limit says how long", h.ask("GET", "/v1/auth/p?key=k").status, 429)
        expect("which takes nothing", clock.ask("WEIR.PEEK", "p", "k", 1, "PATIENCE", "forever")[3],
               1000)
        clock.ask("WEIR.TAKE", "w", "k")
        expect("nor for a window", c.ask("WEIR.TAKE", "w", "k", 1, *FOREVER)[0], 0)
        clock.ask("WEIR.CLOCK", "ADVANCE", "2s")
        c.send("WEIR.TAKE", "p", "k", 1, *FOREVER)
        check("forever is as long as that",
              until(lambda: int(clock.info()["delayed_replies"]) == 1))
        clock.ask("WEIR.CLOCK", "ADVANCE", "10s")
        expect("and granted", c.read()[0], 1)
    with Daemon() as daemon, daemon.resp() as c:
        c.ask("WEIR.TAKE", "pacer 1/59m", "k")
        expect("by default an hour",
               c.ask("WEIR.TAKE", "pacer 1/59m", "k", 1, "PATIENCE", "forever")[0], 1)
        expect("and no more",
               c.ask("WEIR.TAKE", "pacer 1/59m", "k", 1, "PATIENCE", "forever")[0], 0)


# ---- Memory ------------------------------------------------------------------------------------


def named_reservations_are_counted():
    """300 connections with 1,000 names each kept 355 MiB, whatever --max-buffered said."""
    with Daemon("--max-buffered", "8MiB", "--limit", "p=pacer 1k/s queue=1M") as daemon:
        before, told = daemon.rss_mib(), 0
        crowd = [daemon.resp() for _ in range(60)]
        for i, c in enumerate(crowd):
            c.send_behind(b"".join(encode("WEIR.TAKE", "p", "k", 1, "PATIENCE", "forever", "AS",
                                          f"{n:0200d}")
                                   for n in range(1000)))
        for c in crowd:
            told += sum(isinstance(c.read(), Error) for _ in range(1000))
        check("memory is bounded", daemon.status("VmHWM") / 1024 / ROOMY - before < 16,
              f"{before:.0f} -> {daemon.status('VmHWM') / 1024:.0f} MiB")
        check("what is over is an error", told > 50000, told)
        kept = int(other_info(daemon)["memory_reservations"])
        check("INFO says how much", 4 << 20 < kept <= 8 << 20, kept)
        for c in crowd:
            c.close()
        check("and when they leave, all is given back",
              until(lambda: int(other_info(daemon)["memory_reservations"]) == 0, 10))


def keys_of_delayed_replies_are_counted():
    """2,000 waits with keys of 64 KiB kept 134 MiB."""
    with Daemon("--max-buffered", "8MiB", "--limit", "p=pacer 1/1s", "--threads", "1") as daemon:
        before = daemon.rss_mib()
        crowd = [daemon.resp() for _ in range(8)]
        for i, c in enumerate(crowd):
            key = f"{i}" + "k" * 65000
            c.send_behind(encode("WEIR.TAKE", "p", key)
                          + encode("WEIR.TAKE", "p", key, 1, *FOREVER) * 80)
        until(lambda: int(other_info(daemon)["delayed_replies"]) >= 90, 3)
        time.sleep(0.3)
        info = other_info(daemon)
        check("memory is bounded", daemon.status("VmHWM") / 1024 / ROOMY - before < 20,
              f"{before:.0f} -> {daemon.status('VmHWM') / 1024:.0f} MiB, {info['delayed_replies']} "
              "held")
        check("INFO says how much", 1 << 20 < int(info["memory_delayed"]) <= 8 << 20,
              info["memory_delayed"])
        for c in crowd:
            c.reset()
        check("and all is given back",
              until(lambda: int(other_info(daemon)["memory_delayed"]) == 0, 10))


def info_adds_up_to_what_the_system_says():
    with Daemon("--limit", "p=pacer 1k/s queue=1M", "--threads", "2") as daemon:
        crowd = [daemon.resp() for _ in range(200)]
        for i, c in enumerate(crowd):
            c.send_behind(
                b"".join(encode("WEIR.TAKE", "p", f"{i}-{n}", 1, "PATIENCE", "forever", "AS",
                                f"{n:050d}")
                         for n in range(20))
                + b"".join(encode("CL.THROTTLE", f"{i}-{n}", 10, 1 + n, 1000) for n in range(500))
                + b"".join(encode("WEIR.TAKE", "p", "k" * 500, 1, *FOREVER) for n in range(40))
                + b"*2\r\n$4\r\nECHO\r\n$300000\r\n" + b"x" * 30000)
        check("all has come",
              until(lambda: int(other_info(daemon)["delayed_replies"]) == 200 * 40 - 1, 20),
              other_info(daemon)["delayed_replies"])
        until(lambda: int(other_info(daemon)["memory_input"]) >= 200 * 30000, 10)
        info = {name: int(value) for name, value in other_info(daemon).items() if "memory" in name}
        total = sum(value for name, value in info.items() if name.startswith("memory_"))
        rss = info["used_memory_rss"]
        expect("used_memory is the sum", info["used_memory"], total)
        check("which is what the process has, within a tenth",
              ROOMY > 1 or abs(total - rss) < rss / 10, f"{total} of {rss}: {info}")
        for c in crowd:
            c.reset()
        check("nothing is left when all have left", until(lambda: all(
            int(value) == 0 for name, value in other_info(daemon).items()
            if name in ("memory_input", "memory_output", "memory_delayed", "memory_reservations")),
                                                          10),
              other_info(daemon))
        check("and the memory is given back", ROOMY > 1 or until(
            lambda: int(other_info(daemon)["used_memory_rss"]) < rss / 2, 10),
              other_info(daemon)["used_memory_rss"])


def sixteen_terms(i):
    return " + ".join([f"{i + 1}/h"] + [f"{i % 9 + 1}/{hours}h" for hours in range(2, 17)])


def a_batch_of_literals_takes_turns():
    """7,437 limits of sixteen terms are 1 MB: they took 140 MiB, and no other client was served
    for 0.6 s."""
    n = 7437 if ROOMY == 1 else 2500
    body = json.dumps([{"limit": sixteen_terms(i), "key": "k"} for i in range(n)],
                      separators=(",", ":"))
    with Daemon("--threads", "1") as daemon, daemon.http() as h, daemon.resp() as c:
        before, worst, said = daemon.rss_mib(), 0, []
        h.socket.settimeout(100)
        began = time.monotonic()
        h.send_behind(http_request("POST", "/v1/take", body))
        reader = threading.Thread(target=lambda: said.append(h.read()))
        reader.start()
        while reader.is_alive():
            asked = time.monotonic()
            c.ask("PING")
            worst = max(worst, time.monotonic() - asked)
        took = time.monotonic() - began
        verdicts = json.loads(said[0].body)
        check("all are decided, in order",
              [v["limit"] for v in verdicts[:9]] == list(range(1, 10)) and
              len(verdicts) == n and all(v["allowed"] for v in verdicts[:9]), said[0].body[:300])
        check("others are served in between", worst < took / 2, f"{worst:.2f} s of {took:.2f} s")
        check("memory is bounded", daemon.status("VmHWM") / 1024 / ROOMY - before < 40,
              f"{before:.0f} -> {daemon.status('VmHWM') / 1024:.0f} MiB")
        expect("and nothing is kept", other_info(daemon)["memory_batches"], "0")


def a_client_that_leaves_amid_a_batch_harms_no_other():
    body = json.dumps([{"limit": sixteen_terms(i), "key": "k"} for i in range(2000)],
                      separators=(",", ":"))
    with Daemon("--threads", "1") as daemon, daemon.resp() as c:
        for way in (lambda h: h.reset(), lambda h: h.socket.shutdown(socket.SHUT_WR)):
            h = daemon.http(timeout=100)
            h.send_bytes(http_request("POST", "/v1/take", body) + http_request("GET", "/healthz"))
            c.ask("PING")
            way(h)
        answer = h.read()
        expect("a client that has closed its side reads all replies",
               (answer.status, len(json.loads(answer.body))), (200, 2000))
        expect("in order, and what it asked behind it", h.read().body, b"ok\n")
        h.close()
        check("all is forgotten", until(lambda: c.info()["connected_clients"] == "1"), c.info())
        expect("and nothing is kept", c.info()["memory_batches"], "0")


def a_batch_for_which_there_is_no_room_is_refused():
    body = json.dumps([{"limit": "10/s", "key": f"{i}"} for i in range(5000)])
    with Daemon("--max-buffered", "256KiB", "--max-request", "256KiB", "--max-output",
                "64KiB") as daemon, \
            daemon.http() as h:
        expect("it is told so", h.ask("POST", "/v1/take", body).status, 503)
        expect("and nothing was taken",
               json.loads(h.ask("GET", "/v1/peek?limit=10/s&key=1").body)["remaining"], 9)
        expect("a smaller one is served",
               len(json.loads(h.ask("POST", "/v1/take", json.dumps(json.loads(body)[:100])).body)),
               100)


def max_memory_bounds_all_of_it():
    big = b"*2\r\n$4\r\nECHO\r\n$900000\r\n" + b"x" * 800000
    with Daemon("--max-memory", "64MiB", "--max-keys", "10k", "--threads", "2") as daemon:
        crowd = [daemon.resp() for _ in range(150)]
        for i, c in enumerate(crowd):
            with contextlib.suppress(OSError):
                c.send_bytes(encode("CL.THROTTLE", f"{i}", 10, i + 1, 60) * 100 + big)
        info = other_info(daemon)
        expect("INFO says so", int(info["maxmemory"]), 64 << 20)
        check("a part of a quarter is for clients", int(info["memory_input"]) < 16 << 20,
              info["memory_input"])
        check("memory is bounded", daemon.status("VmHWM") / 1024 / ROOMY < 64,
              daemon.status("VmHWM"))
        for c in crowd:
            c.close()


if __name__ == "__main__":
    sys.exit(play("parts", [
        a_client_that_is_served_is_not_idle, an_unfinished_request_ends_whatever_is_held,
        requests_that_wait_for_room_are_not_unfinished, a_small_request_may_come_in_pieces,
        what_stands_between_delayed_replies_is_small, a_connection_has_its_part_of_delayed_replies,
        a_peer_has_its_part_of_delayed_replies, a_peer_has_its_part_of_connections,
        the_loopback_has_all_unless_it_is_told, a_peer_has_its_part_of_bytes,
        no_reply_is_delayed_longer_than_max_wait,
        named_reservations_are_counted, keys_of_delayed_replies_are_counted,
        info_adds_up_to_what_the_system_says, a_batch_of_literals_takes_turns,
        a_client_that_leaves_amid_a_batch_harms_no_other,
        a_batch_for_which_there_is_no_room_is_refused, max_memory_bounds_all_of_it]))
