#!/usr/bin/env python3
"""Pictures as a user asks for them: `charts.py PATH_TO_WEIR`.

What a picture says is compared with what the same run prints.
"""

import os
import pty
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

WEIR = os.path.abspath(sys.argv[1])
PASSED, FAILED = 0, []
TRAFFIC = "steady 5/s 4s; steady 30/s 4s; steady 5/s 4s"
SVG = "{http://www.w3.org/2000/svg}"


def check(what, good, detail=""):
    global PASSED  # pylint: disable=global-statement
    if good:
        PASSED += 1
    else:
        FAILED.append(what)
        print(f"FAILED: {what}\n  {detail}")


def weir(*args, stdin=None, env=None):
    return subprocess.run([WEIR, *args], capture_output=True, text=True, check=False, input=stdin,
                          timeout=60, env=env)


def sums_are_those_of_the_lines():
    limit = "leaky-bucket 10/s capacity=20 delay=5"
    rows = [line.split("\t") for line in
            weir("sim", limit, "--traffic", TRAFFIC).stdout.splitlines()[1:]]
    passed = sum(row[4] == "allow" for row in rows)
    waited = sum(row[4] == "allow" and row[8] != "0" for row in rows)
    chart = weir("sim", limit, "--traffic", TRAFFIC, "--chart").stdout
    expected = f"{passed} passed, {waited} after a wait, {len(rows) - passed} refused"
    check("a chart counts what was decided", expected in chart and waited > 0, chart)


def a_chart_keeps_its_width():
    for width in 40, 57, 80, 133, 500:
        chart = weir("sim", "10/s burst=3", "--traffic", TRAFFIC, "--chart", "--width",
                     str(width)).stdout.splitlines()
        drawn = [line for line in chart if "│" in line or "┤" in line or "└" in line]
        widest = max(map(len, drawn))
        check(f"{width} columns are kept", width // 3 < widest <= width, "\n".join(chart))
    for wrong in "39", "501", "x":
        run = weir("sim", "10/s", "--traffic", TRAFFIC, "--chart", "--width", wrong)
        check(f"{wrong} columns are refused",
              run.returncode == 2 and "40 to 500" in run.stderr, run.stderr)


def on_a_terminal(**env):
    main, side = pty.openpty()
    with subprocess.Popen([WEIR, "sim", "10/s", "--traffic", TRAFFIC, "--chart"], stdout=side,
                          env=os.environ | {"TERM": "xterm"} | env) as run:
        run.wait(timeout=30)
    os.close(side)
    out = b""
    try:
        while more := os.read(main, 65536):
            out += more
    except OSError:
        pass
    os.close(main)
    return out


def colour_is_for_terminals():
    check("a terminal has colour", b"\033[32m" in on_a_terminal())
    check("NO_COLOR is respected", b"\033[" not in on_a_terminal(NO_COLOR="1"))
    check("a pipe has none",
          "\033" not in weir("sim", "10/s", "--traffic", TRAFFIC, "--chart").stdout)


def texts_of(tree):
    return [text.text for text in tree.iter(SVG + "text")]


def an_svg_is_whole(folder):
    path = os.path.join(folder, "both.svg")
    limits = ["fixed-window 20/10s align=clock", "pacer 2/s max-wait=5s"]
    run = weir("sim", *limits, "--traffic", "steady 1/s 9s; steady 20/s 2s", "--svg", path)
    check("an SVG is written, and nothing is printed", run.returncode == 0 and not run.stdout,
          run.stderr)
    tree = xml.parse(path).getroot()
    texts = texts_of(tree)
    check("every limit has a panel", all(limit in texts for limit in limits), texts)
    classes = {path.get("class") for path in tree.iter(SVG + "path")}
    check("what happened is drawn", {"passed", "delayed", "refused", "asked", "limit", "window"}
          <= classes, classes)
    again = weir("sim", *limits, "--traffic", "steady 1/s 9s; steady 20/s 2s", "--svg", "-").stdout
    with open(path, encoding="utf-8") as file:
        check("the same run gives the same bytes, on standard output too", file.read() == again)


def guards_are_drawn():
    tree = xml.fromstring(weir("sim", "breaker volume=50 window=2s open=1s growth=1", "--traffic",
                               "steady 200/s 8s; service 20ms workers=8 errors=0..90..0%",
                               "--svg", "-").stdout)
    classes = {path.get("class") for path in tree.iter(SVG + "path")}
    check("a breaker's states and failures are drawn", {"state1", "state2", "failed"} <= classes,
          classes)
    chart = weir("sim", "concurrency 4", "--traffic",
                 "steady 400/s 2s; service 20ms workers=8", "--chart").stdout
    check("calls in flight are drawn", " flight │" in chart and "      4 ┤" in chart, chart)


def a_column_is_as_tall_as_its_sum():
    """29 of 200 are 1.45 of ten lines, 28 passed and 1 refused: one line."""
    chart = weir("sim", "fixed-window 28/1s", "--traffic",
                 "burst 29 at 0s; pause 5s; burst 200 at 5s", "--chart").stdout
    first = [line[9:10] for line in chart.splitlines()[1:11]]
    check("a column is as tall as its sum", "".join(first).strip() in ("█", "░"), chart)


def lines_are_for_one_key():
    one = weir("sim", "10/s", "--traffic", "steady 20/s 5s", "--chart").stdout
    many = weir("sim", "10/s", "--traffic", "steady 20/s 5s keys=5", "--chart").stdout
    check("one key has the limit's line", "the limit's rate" in one, one)
    check("several keys have none", "the limit's rate" not in many, many)


def scripts_are_drawn(folder):
    path = os.path.join(folder, "events.sim")
    with open(path, "w", encoding="utf-8") as file:
        file.write("limit 1/s burst=2\n0s take a\n0s take a\n0s take a\n5s take a\n")
    chart = weir("sim", "--chart", path).stdout
    check("a script that sets its own limit is drawn",
          "token-bucket 1/s burst=2: 3 passed, 1 refused" in chart, chart)
    check("of standard input too", "1 passed, 1 refused" in weir(
        "sim", "1/s", "--chart", stdin="0s take a\n0s take a\n").stdout)
    check("an empty one has an empty picture",
          "0 passed, 0 refused" in weir("sim", "1/s", "--chart", stdin="").stdout)


def mistakes_are_told(folder):
    for what, args, message in (
            ("several limits without a picture", ["10/s", "20/s", "--traffic", TRAFFIC],
             "several limits need --chart or --svg"),
            ("several limits and standard input", ["10/s", "20/s", "--chart"],
             "standard input is read once"),
            ("--json and a chart", ["10/s", "--traffic", TRAFFIC, "--chart", "--json"],
             "either --json or --chart"),
            ("--rows and an SVG", ["10/s", "--traffic", TRAFFIC, "--rows", "--svg", "x"],
             "either --rows or --svg"),
            ("a limit that is none", ["10/s", "tken-bucket 3/s", "--traffic", TRAFFIC, "--chart"],
             "not a limit")):
        run = weir("sim", *args, stdin="")
        check(what, run.returncode == 2 and message in run.stderr, run.stderr)
    run = weir("sim", "10/s", "--traffic", TRAFFIC, "--svg", os.path.join(folder, "no", "x.svg"))
    check("a path that cannot be written", run.returncode == 1 and "cannot write" in run.stderr,
          run.stderr)


def logs_are_drawn(folder):
    log = os.path.join(folder, "log.csv")
    with open(log, "w", encoding="utf-8") as file:
        file.write("time,ip\n" + "".join(f"{i // 3},192.0.2.{i % 2}\n" for i in range(300)))
    run = weir("replay", log, "1/s", "2/s", "--chart")
    check("replay draws below its report",
          run.stdout.count(" passed, ") >= 2 and "whom it hits" in run.stdout, run.stdout)
    tree = xml.fromstring(weir("replay", log, "1/s", "--svg", "-").stdout)
    check("and alone on standard output", "01-01 00:01" in " ".join(texts_of(tree))
          or "00:01:00" in texts_of(tree), texts_of(tree))
    run = weir("advise", log, "--chart")
    check("advise draws what it recommends", "token-bucket" in run.stdout and "░" in run.stdout
          and run.returncode == 0, run.stdout + run.stderr)
    for command, words in ("replay", [log, "1/s"]), ("advise", [log]):
        run = weir(command, *words, "--json", "--chart")
        check(f"{command}: --json and a chart", run.returncode == 2 and "not both" in run.stderr)


def main():
    with tempfile.TemporaryDirectory(prefix="weir-charts-") as folder:
        sums_are_those_of_the_lines()
        a_chart_keeps_its_width()
        a_column_is_as_tall_as_its_sum()
        colour_is_for_terminals()
        an_svg_is_whole(folder)
        guards_are_drawn()
        lines_are_for_one_key()
        scripts_are_drawn(folder)
        mistakes_are_told(folder)
        logs_are_drawn(folder)
    print(f"charts: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED or not PASSED else 0


if __name__ == "__main__":
    sys.exit(main())
