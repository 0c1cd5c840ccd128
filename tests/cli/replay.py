#!/usr/bin/env python3
"""Checks `weir replay` on small logs: exact tables, faults, JSON, pipes, gzip.

    replay.py WEIR
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile

WEIR = sys.argv[1]
PASSED, FAILED = [], []


def check(sentence, good, detail=""):
    if good:
        PASSED.append(sentence)
    else:
        FAILED.append(sentence)
        print(f"FAILED {sentence}: {detail}")


def weir(*args, text=b"", folder=None):
    return subprocess.run([WEIR, *args], input=text, capture_output=True, timeout=60, check=False,
                          cwd=folder)


def clf(ip, second, status=200):
    return (f'{ip} - - [17/May/2015:10:{second // 60:02}:{second % 60:02} +0000] '
            f'"GET /a HTTP/1.1" {status} 5 "-" "x"\n')


# Eleven requests of two clients; ::1 comes twelve times slower.
LOG = "".join(clf("192.0.2.7", s) for s in (0, 58, 58, 59, 60, 60, 61, 61)) + \
    "".join(clf("::1", s) for s in (62, 74, 86))

ONE = """standard input: combined, 11 requests of 2 clients by remote_addr
2015-05-17 10:00:00 to 2015-05-17 10:01:26 UTC: 1m26s
note: the times are whole seconds: all requests of a second count as simultaneous

token-bucket 1/s burst=2
  passed         9 of 11 (81.8%)
  refused        2 (18.2%)
  ever refused   1 of 2 clients (50.0%)
  worst window   2 in 1s (200%)

whom it hits        asked       passed      refused
192.0.2.7               8            6            2

when (1s each)                    asked       passed      refused
2015-05-17 10:01:00                   2            1            1
2015-05-17 10:01:01                   2            1            1
"""

COMPARED = """standard input: combined, 11 requests of 2 clients by remote_addr
2015-05-17 10:00:00 to 2015-05-17 10:01:26 UTC: 1m26s
note: the times are whole seconds: all requests of a second count as simultaneous

limit                              passed              refused    clients refused\
               worst window   wrongful  longest wait
fixed-window 4/m align=clock           11             0 (0.0%)           0 (0.0%)\
             7 in 1m (175%)          0             -
sliding-log 4/m                         8            3 (27.3%)          1 (50.0%)\
             4 in 1m (100%)          0             -
pacer 1/s                              11             0 (0.0%)           0 (0.0%)\
             1 in 1s (100%)          0            3s
"""


def tables_are_exact():
    done = weir("replay", "-", "token-bucket 1/s burst=2", text=LOG.encode())
    check("one limit", done.stdout.decode() == ONE and done.returncode == 0,
          done.stdout.decode() + done.stderr.decode())
    done = weir("replay", "-", "fixed-window 4/m align=clock", "sliding-log 4/m", "pacer 1/s",
                "--compare", text=LOG.encode())
    # 10:00:59 to 10:01:01 is a boundary: seven pass within a minute.
    check("several limits", done.stdout.decode().startswith(COMPARED), done.stdout.decode())


def wrongful_refusals_are_counted():
    # The fixed window passes 3 at 58s and 3 at 60s; at 119s it is full, but the sliding log, which
    # refused those at 60s, has none of the last minute. A bucket of 1 refuses what comes together.
    log = "time,ip\n" + "".join(f"{t},a\n" for t in (58, 58, 58, 60, 60, 60, 119))
    rows = json.loads(weir("replay", "-", "fixed-window 3/m align=clock",
                           "token-bucket 3/m burst=1", "--compare", "--json",
                           text=log.encode()).stdout)["limits"]
    check("wrongful refusals", [(row["refused"], row["wrongful"]) for row in rows]
          == [(1, 1), (5, 2)], rows)


def json_has_its_shape():
    log = LOG + "nonsense\n" + clf("::1", 87, 429)
    done = json.loads(weir("replay", "-", "token-bucket 1/s burst=2", "--json",
                           text=log.encode()).stdout)
    told = done["log"]
    check("the log", told == {
        "path": "-", "format": "combined", "key": "remote_addr", "lines": 13, "read": 12,
        "unread": 1, "first_unread": [{"line": 12, "why": "not of the format", "text": "nonsense"}],
        "out_of_order": 0, "late": 0, "left_out": 0, "clients": 2,
        "first": "2015-05-17T10:00:00Z", "last": "2015-05-17T10:01:27Z", "whole_seconds": True,
        "refused_before": 1}, told)
    check("the limit", done["limits"] == [{
        "limit": "token-bucket 1/s burst=2", "asked": 12, "passed": 10, "delayed": 0, "refused": 2,
        "cost_asked": 12, "cost_passed": 10, "cost_refused": 2, "clients_refused": 1,
        "longest_wait_ns": 0, "shadowed": 0, "overflow": 0,
        "worst_window": {"passed": 2, "count": 1, "period_ns": 10**9, "key": "192.0.2.7",
                         "at_least": False},
        "wrongful": None,
        "whom": [{"key": "192.0.2.7", "asked": 8, "passed": 6, "delayed": 0, "refused": 2}],
        "when": [{"from": f"2015-05-17T10:01:0{s}Z", "length_ns": 10**9, "asked": 2, "passed": 1,
                  "refused": 1} for s in (0, 1)]}], done["limits"])


def every_way_in_is_the_same(folder):
    plain = weir("replay", "-", "5/m", text=LOG.encode()).stdout.split(b"\n", 1)[1]
    path = os.path.join(folder, "log.gz")
    with open(path, "wb") as file:  # two members, as logrotate with appending makes
        file.write(gzip.compress(LOG[:300].encode()) + gzip.compress(LOG[300:].encode()))
    done = weir("replay", path, "5/m")
    check("gzip of two members", done.stdout.split(b"\n", 1)[1] == plain, done.stderr)
    with open(path, "rb") as file:
        packed = file.read()
    done = weir("replay", "-", "5/m", text=packed)
    check("gzip on standard input", done.stdout.split(b"\n", 1)[1] == plain, done.stderr)
    done = weir("replay", "-", "5/m", text=LOG.replace("\n", "\r\n").encode())
    check("CRLF", done.stdout.split(b"\n", 1)[1] == plain, done.stderr)
    done = weir("replay", "-", "5/m", text=LOG.replace("\n", "\n\n").encode())
    check("empty lines", done.stdout.split(b"\n", 1)[1] == plain, done.stderr)
    done = weir("replay", "-", "5/m", text=packed[:-20])
    check("gzip that is cut off is told", done.returncode == 1 and b"cut off" in done.stderr,
          done.stderr)
    lines = LOG.splitlines(keepends=True)
    done = weir("replay", "-", "5/m", text="".join(lines[::-1]).encode())
    check("lines out of order are sorted",
          b"note: 10 lines stand behind later ones; they were sorted" in done.stdout
          and b"ever refused   1 of 2" in plain and plain.split(b"\n\n", 1)[1] in done.stdout,
          done.stdout)


ROWS = [  # sentence, arguments, log, status, part of standard output, part of standard error
    ("nothing can be read", ["-", "5/m", "--format", "combined"], "x\ny\n", 1,
     "2 lines could not be read:\n  line 1: not of the format: x\n", "no line could be read"),
    ("an empty log", ["-", "5/m"], "", 1, "", "the log is empty"),
    ("only empty lines", ["-", "5/m"], "\n\n", 1, "", "the log is empty"),
    ("binary garbage", ["-", "5/m"], "\x00\x01\x02" * 99, 1, "", "not known by its first lines"),
    ("a file that is not there", ["/nowhere/x", "5/m"], "", 1, "", "No such file"),
    ("a directory", ["/", "5/m"], "", 1, "", "directory"),
    ("a wrong limit", ["-", "token-bukket 5/m"], LOG, 2, "", "token-bukket"),
    ("a guard", ["-", "concurrency 5"], LOG, 2, "", "'concurrency' judges calls by when they end"),
    ("no limit", ["-"], LOG, 2, "", "expected a log and one to 16 limits"),
    ("an unknown column", ["-", "5/m", "--key", "absent"], LOG, 2, "", "method, uri, path"),
    ("an unknown format", ["-", "5/m", "--format", "apache"], LOG, 2, "", "unknown format"),
    ("a long line", ["-", "5/m"], LOG + "x" * 70000 + "\n" + clf("::1", 99), 0,
     "1 lines could not be read:\n  line 12: longer than 65536 bytes: xxx", ""),
    ("a very long line", ["-", "5/m"], LOG + "x" * 3000000 + "\n" + clf("::1", 99), 0,
     "combined, 12 requests of 2 clients", ""),
    ("too many clients", ["-", "5/m", "--max-clients", "1"], LOG, 0,
     "note: 3 lines of clients beyond the first 1 are left out (--max-clients)", ""),
    ("refusals in the log", ["-", "5/m"], LOG + clf("::1", 99, 503), 0,
     "note: 1 lines have status 429 or 503", ""),
    ("no client is named", ["-", "5/m"], "time,tokens\n5,7\n5,9\n", 0,
     "note: no column says who asks: all lines are one client", ""),
    ("costs", ["-", "token-bucket 10/s burst=10", "--cost", "tokens"], "time,tokens\n5,7\n5,9\n", 0,
     "  cost passed    7 of 16 (43.8%)", ""),
    ("a key of two columns", ["-", "5/m", "--key", "{ip} {path}"], LOG, 0,
     "11 requests of 2 clients by {ip} {path}", ""),
    ("a shadow", ["-", "token-bucket 1/s burst=2 shadow"], LOG, 0,
     "shadow         2 passed that would be refused without it", ""),
    ("an unlimited limit", ["-", "unlimited", "--compare"], LOG, 0, "unlimited ", ""),
    ("0/s", ["-", "0/s"], LOG, 0, "refused        11 (100.0%)", ""),
    ("a calendar window", ["-", "fixed-window 5/month tz=Europe/Berlin", "--compare"], LOG, 0,
     "fixed-window 5/month", ""),
]


def faults_are_told():
    for sentence, args, log, status, out, err in ROWS:
        done = weir("replay", *args, text=log.encode())
        check(sentence, done.returncode == status and out in done.stdout.decode()
              and err in done.stderr.decode(),
              f"{done.returncode} {done.stdout.decode()} {done.stderr.decode()}")


def main():
    tables_are_exact()
    wrongful_refusals_are_counted()
    json_has_its_shape()
    with tempfile.TemporaryDirectory() as folder:
        every_way_in_is_the_same(folder)
    faults_are_told()
    print(f"replay: {len(PASSED)} passed, {len(FAILED)} failed")
    return 1 if FAILED or not PASSED else 0


if __name__ == "__main__":
    sys.exit(main())
