#!/usr/bin/env python3
"""/metrics, /readyz and the log's lines about refusals: `serve_metrics.py PATH_TO_WEIR`.

promtool, of Debian's prometheus, reads what the daemon writes; the alerts and the dashboard in
contrib/ are held to the families that a live daemon has.
"""

import json
import os
import re
import subprocess
import sys

from daemon import Daemon, check, encode, expect, play, until

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LIMITS = ("--limit", "api=token-bucket 2/m burst=2", "--limit", "dry=fixed-window 1/m shadow",
          "--limit", "tiny=sliding-log 1/m full=deny")


def scrape(daemon):
    reply = daemon.http().ask("GET", "/metrics")
    assert reply.status == 200, reply
    return reply.body.decode(), reply.headers


def samples(text):
    """{name{labels}: value} of a scrape."""
    found = re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def decisions(text, limit, verdict, reason):
    name = f'weir_decisions_total{{limit="{limit}",verdict="{verdict}",reason="{reason}"}}'
    return samples(text).get(name)


def promtool(*words, text=""):
    done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def decisions_are_counted_by_limit_verdict_and_reason():
    with Daemon(*LIMITS) as daemon:
        c = daemon.resp()
        for _ in range(3):
            c.ask("WEIR.TAKE", "api", "alice")
            c.ask("WEIR.TAKE", "dry", "alice")
        c.ask("WEIR.TAKE", "api", "alice", "5")
        c.ask("WEIR.TAKE", "10/s", "bob")
        c.ask("CL.THROTTLE", "bob", "0", "1", "60")
        c.ask("CL.THROTTLE", "bob", "0", "1", "60")
        c.ask("WEIR.TAKEALL", "2", "api", "carol", "1", "dry", "carol", "1")
        text, fields = scrape(daemon)
        expect("the type is Prometheus's",
               fields["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        for sentence, limit, verdict, reason, wanted in (
                ("grants", "api", "allowed", "OK", 3), ("refusals", "api", "denied", "LIMITED", 1),
                ("what never fits", "api", "denied", "TOO_BIG", 1),
                ("what a shadow lets pass", "dry", "shadow", "LIMITED", 2),
                ("what a shadow has nothing against", "dry", "allowed", "OK", 2),
                ("a limit that was never asked", "tiny", "allowed", "OK", 0),
                ("limits in requests, together", "literal", "allowed", "OK", 1),
                ("throttles, together", "throttle", "denied", "LIMITED", 1)):
            expect(f"counted: {sentence}", decisions(text, limit, verdict, reason), wanted)
        check("no key is in it", "alice" not in text and "bob" not in text)
        status, said = promtool("check", "metrics", text=text)
        expect("promtool reads it without a complaint", (status, said), (0, ""))


def a_changed_limit_goes_on_counting():
    with Daemon(*LIMITS) as daemon:
        c = daemon.resp()
        c.ask("WEIR.TAKE", "api", "alice")
        c.ask("WEIR.LIMIT", "SET", "api", "token-bucket 5/m burst=5")
        c.ask("WEIR.TAKE", "api", "alice")
        expect("a change keeps the count", decisions(scrape(daemon)[0], "api", "allowed", "OK"), 2)
        c.ask("WEIR.LIMIT", "DEL", "api")
        check("a deleted limit is gone", 'limit="api"' not in scrape(daemon)[0])
        c.ask("WEIR.LIMIT", "SET", "api", "sliding-log 5/m")
        expect("a new one of its name starts at 0",
               decisions(scrape(daemon)[0], "api", "allowed", "OK"), 0)


def requests_are_timed():
    with Daemon(*LIMITS) as daemon:
        c = daemon.resp()
        before = samples(scrape(daemon)[0])
        c.send_bytes(encode("WEIR.TAKE", "api", "alice") * 100)
        for _ in range(100):
            c.read()
        after = samples(scrape(daemon)[0])
        name = "weir_request_duration_seconds"
        check("every request of a pipeline counts",
              after[name + "_count"] - before[name + "_count"] >= 100)
        expect("the last bucket has them all", after[name + '_bucket{le="+Inf"}'],
               after[name + "_count"])
        check("they took some time", after[name + "_sum"] > before[name + "_sum"])
        check("connections are there", after["weir_connections"] >= 2)
        check("bytes are counted", after["weir_received_bytes_total"] >
              before["weir_received_bytes_total"])


def thousands_of_limits_come_in_steps():
    n = 3000
    with Daemon() as daemon:
        c = daemon.resp()
        c.send_behind(b"".join(encode("WEIR.LIMIT", "SET", f"limit-{i}", "10/s keys=8")
                               for i in range(n)))
        done = [c.read() for _ in range(n)]
        expect("all are set", done.count("OK"), n)
        c.send_behind(b"".join(encode("WEIR.TAKE", f"limit-{i}", "k") for i in range(n)))
        for _ in range(n):
            c.read()
        text, _ = scrape(daemon)
        found = samples(text)
        expect("each has its own counter",
               sum(found[f'weir_decisions_total{{limit="limit-{i}",verdict="allowed",reason="OK"}}']
                   for i in range(n)), n)
        expect("no sample is there twice", len(re.findall(r"^[a-z]", text, re.MULTILINE)),
               len(found))
        expect("promtool reads it", promtool("check", "metrics", text=text)[0], 0)


def readiness_says_why():
    with Daemon(*LIMITS) as daemon:
        http = daemon.http()
        reply = http.ask("GET", "/readyz")
        expect("a daemon is ready", (reply.status, json.loads(reply.body)),
               (200, {"ready": True, "config": "none",
                      "stores": [{"url": "memory:", "up": True}]}))
        expect("stores=up is known", http.ask("GET", "/readyz?stores=up").status, 200)
        expect("another parameter is an error", http.ask("GET", "/readyz?store=up").status, 400)


def a_store_that_is_down_is_told():
    url = "redis://127.0.0.1:1?timeout=20ms"
    with Daemon("--limit", f"api=10/s fallback=deny store={url}") as daemon:
        http = daemon.http()
        http.ask("POST", "/v1/take?limit=api&key=a")

        def ready():
            return http.ask("GET", "/readyz?stores=up")

        check("stores=up makes a daemon unready", until(lambda: ready().status == 503))
        expect("and says which", json.loads(ready().body)["stores"][1]["up"], False)
        expect("otherwise it stays ready", http.ask("GET", "/readyz").status, 200)
        text, _ = scrape(daemon)
        found = samples(text)
        down = [name for name, value in found.items()
                if name.startswith("weir_store_up") and value == 0]
        expect("it is down in the metrics", len(down), 1)
        check("the fallback is counted",
              (decisions(text, "api", "denied", "FALLBACK") or 0) >= 1)


def the_log_says_that_a_limit_begins_to_refuse():
    with Daemon(*LIMITS) as daemon:
        c = daemon.resp()

        def told(line):
            return until(lambda: line in daemon.messages())

        for _ in range(5):
            c.ask("WEIR.TAKE", "api", "alice")
        check("it begins", told("limit api: refuses (LIMITED) by token-bucket 2/m"))
        c.ask("WEIR.CLOCK", "ADVANCE", "61s")
        check("it ends",
              told("limit api: has refused nothing for a minute; before that it refused 3"))
        expect("each is said once", sum("limit api: refuses" in m for m in daemon.messages()), 1)


def the_log_names_the_term():
    limits = ("--limit", "both=token-bucket 9/s + fixed-window 2/1h", "--limit", "two=9/m",
              "--limit", "dry=9/m + fixed-window 1/1h shadow")
    with Daemon(*limits) as daemon, daemon.resp() as c, daemon.http() as h:
        def told(line):
            return check(line, until(lambda: line in daemon.messages()), daemon.messages())

        c.ask("WEIR.TAKE", "both", "k", 2)
        c.ask("WEIR.TAKEALL", 2, "two", "k", 1, "both", "k", 1)
        told("limit both: refuses (LIMITED) by fixed-window 2/h")
        expect("no other of the request", [m for m in daemon.messages() if "limit two: r" in m
                                           and "room" not in m], [])
        c.ask("WEIR.TAKE", "two", "k", 10)
        told("limit two: refuses (TOO_BIG) by token-bucket 9/m")
        c.ask("WEIR.TAKE", "dry", "k")
        c.ask("WEIR.PEEK", "dry", "k")
        h.ask("POST", "/v1/take", '[{"limit":"dry","key":"k"},{"limit":"dry","key":"k"}]')
        told("limit dry: would refuse (LIMITED) by fixed-window 1/h shadow")
        c.ask("WEIR.CLOCK", "ADVANCE", "61s")
        told("limit dry: would have refused nothing for a minute; before that it would have "
             "refused 2")
        expect("a shadow refuses nothing", [m for m in daemon.messages() if "dry: ref" in m], [])
        c.ask("WEIR.TAKE", "both", "k", 10)
        told("limit both: refuses (TOO_BIG) by token-bucket 9/s")


def alerts_and_dashboard_name_what_is_there():
    rules = os.path.join(SOURCE, "contrib", "prometheus", "weir.rules.yml")
    with open(os.path.join(SOURCE, "contrib", "grafana", "weir.json"), encoding="utf-8") as file:
        board = json.load(file)
    with open(rules, encoding="utf-8") as file:
        alerts = re.findall(r"expr: (.*)", file.read())
    expressions = alerts + [t["expr"] for p in board["panels"] for t in p["targets"]]
    with Daemon(*LIMITS) as daemon:
        families = set(re.findall(r"^# TYPE (\S+) ", scrape(daemon)[0], re.MULTILINE))
    families |= {"weir_config_ok", # only with a file, and only with TLS
                 "weir_tls_certificate_expiry_timestamp_seconds"}
    used = {re.sub(r"_(bucket|sum|count)$", "", name)
            for e in expressions for name in re.findall(r"\b(?:weir|process)_[a-z_]+", e)}
    expect("every family that they name exists", sorted(used - families), [])
    expect("promtool takes the alerts", promtool("check", "rules", rules)[0], 0)


def pages_describe_every_family():
    with open(os.path.join(SOURCE, "docs", "reference", "metrics.md"), encoding="utf-8") as file:
        page = file.read()
    with Daemon(*LIMITS) as daemon:
        families = re.findall(r"^# TYPE (\S+) ", scrape(daemon)[0], re.MULTILINE)
    expect("each family is in the reference", [f for f in families if f not in page], [])


if __name__ == "__main__":
    sys.exit(play("serve_metrics", [
        decisions_are_counted_by_limit_verdict_and_reason, a_changed_limit_goes_on_counting,
        requests_are_timed, thousands_of_limits_come_in_steps, readiness_says_why,
        a_store_that_is_down_is_told, the_log_says_that_a_limit_begins_to_refuse,
        the_log_names_the_term,
        alerts_and_dashboard_name_what_is_there, pages_describe_every_family]))
