#!/usr/bin/env python3
"""The commands of others that limit rates, on `weir serve`: `serve_dialects.py PATH_TO_WEIR`.

INCREX and GCRA as Redis 8.8 has them (its documentation, and its source), RL.THROTTLE as
CL.THROTTLE. serve_resp.py has CL.THROTTLE and THROTTLE.
"""

import sys

from daemon import Daemon, Error, check, expect, play

FORM = "INCREX key [BYINT n] UBOUND m EX seconds|PX milliseconds ENX"


def increx(c, key, most, *time, by=None):
    return c.ask("INCREX", key, *(["BYINT", by] if by is not None else []), "UBOUND", most, *time,
                 "ENX")


def increx_counts_in_a_window():
    with Daemon("--literals", "off") as daemon, daemon.resp() as c:
        expect("the first", increx(c, "k", 3, "EX", 10), [1, 1])
        expect("the second", increx(c, "k", 3, "EX", 10), [2, 1])
        c.ask("WEIR.CLOCK", "ADVANCE", "9s")
        expect("the third, in the same window", increx(c, "k", 3, "EX", 10), [3, 1])
        expect("then it is refused, and keeps its value", increx(c, "k", 3, "EX", 10), [3, 0])
        expect("another key", increx(c, "other", 3, "EX", 10), [1, 1])
        c.ask("WEIR.CLOCK", "ADVANCE", "999ms")
        expect("a millisecond before its end", increx(c, "k", 3, "EX", 10), [3, 0])
        c.ask("WEIR.CLOCK", "ADVANCE", "1ms")
        expect("ENX: the window ends ten seconds after its first event",
               increx(c, "k", 3, "EX", 10), [1, 1])
        expect("by more", increx(c, "by", 10, "PX", 1500, by=7), [7, 7])
        expect("all or nothing", increx(c, "by", 10, "PX", 1500, by=4), [7, 0])
        expect("what fits", increx(c, "by", 10, "PX", 1500, by=3), [10, 3])
        expect("above the bound", increx(c, "by", 10, "PX", 1500, by=11), [10, 0])
        expect("by nothing", increx(c, "by", 10, "PX", 1500, by=0), [10, 0])
        expect("above the bound, of a new key", increx(c, "new", 5, "PX", 1500, by=6), [0, 0])
        expect("a second is 1000 ms", increx(c, "by", 10, "PX", 10000), [1, 1])
        expect("the same counter", increx(c, "by", 10, "EX", 10), [2, 1])
        expect("another bound is another counter", increx(c, "by", 11, "EX", 10), [1, 1])
        expect("in any order", c.ask("increx", "by", "ENX", "px", 1500, "ubound", 10, "byint", 1),
               [10, 0])
        expect("the largest", increx(c, "big", 10**12, "EX", 31622400, by=10**12),
               [10**12, 10**12])
    with Daemon() as daemon, daemon.resp() as c:
        increx(c, "k", 3, "EX", 60)
        expect("it is fixed-window m/t", c.ask("WEIR.PEEK", "fixed-window 3/1m", "k", 0)[2], 2)


def increx_in_other_forms_is_an_error():
    with Daemon() as daemon, daemon.resp() as c:
        for words, told in (
                ([], "missing UBOUND"), (["UBOUND", 5], "missing EX or PX"),
                (["UBOUND", 5, "EX", 1], "missing ENX"), (["EX", 1, "ENX"], "missing UBOUND"),
                (["BYFLOAT", "1.5", "UBOUND", 5, "EX", 1, "ENX"], "'BYFLOAT'"),
                (["LBOUND", 0, "UBOUND", 5, "EX", 1, "ENX"], "'LBOUND'"),
                (["UBOUND", 5, "SATURATE", "EX", 1, "ENX"], "'SATURATE'"),
                (["UBOUND", 5, "EXAT", 99, "ENX"], "'EXAT'"),
                (["UBOUND", 5, "PXAT", 99, "ENX"], "'PXAT'"),
                (["UBOUND", 5, "PERSIST"], "'PERSIST'"),
                (["UBOUND", 5, "EX", 1, "PX", 1, "ENX"], "'PX'"),
                (["UBOUND", 5, "EX", 1, "ENX", "UBOUND", 9], "'UBOUND' is given twice"),
                (["BYINT", 0, "byint", 2, "UBOUND", 5, "EX", 1, "ENX"], "'byint' is given twice"),
                (["UBOUND", 5, "EX"], "'EX'"), (["UBOUND"], "'UBOUND'")):
            got = c.ask("INCREX", "k", *words)
            check(f"INCREX {words}", isinstance(got, Error) and told in str(got)
                  and FORM in str(got), got)
        for words, told in ((["UBOUND", 0, "EX", 1, "ENX"], "invalid upper bound '0'"),
                            (["UBOUND", "x", "EX", 1, "ENX"], "invalid upper bound 'x'"),
                            (["BYINT", -1, "UBOUND", 5, "EX", 1, "ENX"], "invalid increment '-1'"),
                            (["UBOUND", 5, "EX", 0, "ENX"], "invalid expiration time '0'"),
                            (["UBOUND", 5, "EX", 10**9, "ENX"], "invalid expiration time"),
                            (["UBOUND", 5, "PX", 10**15, "ENX"], "invalid expiration time")):
            got = c.ask("INCREX", "k", *words)
            check(f"INCREX {words}", isinstance(got, Error) and told in str(got), got)
        got = c.ask("INCREX", b"k" * 65537, "UBOUND", 5, "EX", 1, "ENX")
        check("a long key", isinstance(got, Error) and "key too long" in str(got), got)
        expect("nothing was counted", increx(c, "k", 5, "EX", 1), [1, 1])


def gcra_is_cl_throttle_with_decimals():
    with Daemon("--literals", "off") as daemon, daemon.resp() as c:
        expect("the first", c.ask("GCRA", "k", 15, 30, 60), [0, 16, 15, -1, 2])
        expect("its keys are those of CL.THROTTLE", c.ask("CL.THROTTLE", "k", 15, 30, 60),
               [0, 16, 14, -1, 4])
        expect("several", c.ask("gcra", "k", 15, 30, 60, "tokens", 5), [0, 16, 9, -1, 14])
        expect("none: a look", c.ask("GCRA", "k", 15, 30, 60, "TOKENS", 0), [0, 16, 9, -1, 14])
        expect("too many for now", c.ask("GCRA", "k", 15, 30, 60, "TOKENS", 10), [1, 16, 9, 2, 14])
        expect("too many for ever", c.ask("GCRA", "k", 15, 30, 60, "TOKENS", 17)[3], -1)
        for period, count, seconds in (("1.5", 2, 3), ("2.25", 4, 9), ("60.0", 1, 60),
                                       ("1.000001", 10**6, 1000001), ("1", 1, 1)):
            expect(f"a period of {period} s", c.ask("GCRA", f"p{period}", 4, 1, period),
                   c.ask("CL.THROTTLE", f"q{period}", 4, count, seconds))
            expect("once more", c.ask("GCRA", f"p{period}", 4, 1, period),
                   c.ask("CL.THROTTLE", f"q{period}", 4, count, seconds))
        for words, told in ((["x", 30, 60], "max_burst 'x'"), ([15, 0, 60], "tokens '0'"),
                            ([15, 30, 0], "period '0'"), ([15, 30, "0.5"], "period '0.5'"),
                            ([15, 30, "1.0000001"], "period '1.0000001'"),
                            ([15, 30, "1e3"], "period '1e3'"), ([15, 30, -60], "period '-60'"),
                            ([15, 30, 10**9], "period '1000000000'"),
                            ([15, 10**12 - 11, "1.000001"], "too many decimals"),
                            ([10**12 - 1, 1, 86400], "146 years"),
                            ([15, 30, 60, "COST", 2], "expected TOKENS"),
                            ([15, 30, 60, "TOKENS"], "expected TOKENS"),
                            ([15, 30, 60, "TOKENS", -1], "number of tokens '-1'")):
            got = c.ask("GCRA", "bad", *words)
            check(f"GCRA {words}", isinstance(got, Error) and told in str(got), got)
        expect("nothing was taken", c.ask("GCRA", "bad", 15, 30, 60), [0, 16, 15, -1, 2])


def rl_throttle_is_cl_throttle():
    with Daemon() as daemon, daemon.resp() as c:
        expect("one", c.ask("RL.THROTTLE", "k", 1, 10, 60), [0, 2, 1, -1, 6])
        expect("the same key", c.ask("CL.THROTTLE", "k", 1, 10, 60, 1), [0, 2, 0, -1, 12])
        expect("refused", c.ask("rl.throttle", "k", 1, 10, 60), [1, 2, 0, 6, 12])
        expect("given back", c.ask("RL.THROTTLE", "k", 1, 10, 60, -1), [0, 2, 1, -1, 6])
    with Daemon("--no-admin") as daemon, daemon.resp() as c:
        check("not by everybody", isinstance(c.ask("RL.THROTTLE", "k", 1, 10, 60, -1), Error))


def they_can_be_pipelined_and_queued():
    with Daemon() as daemon, daemon.resp() as c:
        for _ in range(100):
            c.send("INCREX", "k", "UBOUND", 50, "EX", 1, "ENX")
            c.send("GCRA", "k", 49, 100, 3600)
        got = [c.read() for _ in range(200)]
        expect("INCREX", got[::2], [[i, 1] for i in range(1, 51)] + [[50, 0]] * 50)
        expect("GCRA", [r[0] for r in got[1::2]], [0] * 50 + [1] * 50)
        for words in (["MULTI"], ["INCREX", "m", "UBOUND", 1, "EX", 1, "ENX"],
                      ["GCRA", "m", 0, 1, 1], ["INCREX", "m", "UBOUND", 1, "EX", 1, "ENX"]):
            c.ask(*words)
        expect("in a transaction", c.ask("EXEC"), [[1, 1], [0, 1, 0, -1, 1], [1, 0]])


if __name__ == "__main__":
    sys.exit(play("dialects", [
        increx_counts_in_a_window, increx_in_other_forms_is_an_error,
        gcra_is_cl_throttle_with_decimals, rl_throttle_is_cl_throttle,
        they_can_be_pipelined_and_queued]))
