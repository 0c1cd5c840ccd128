#!/usr/bin/env python3
"""Draws the pictures of the pages: `scripts/pictures.py PATH_TO_WEIR [--check]`.

Each is what `weir sim` makes of the line below, so a picture shows what the engine decides; the one
of benchmarks is what docs/benchmarks-wire.md has. With
--check nothing is written: the script fails if a picture in docs/pictures is not what it would
draw, and counts as a test.
"""

import os
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs",
                      "pictures")
# Twenty a second for two seconds, around the edge of a window of ten seconds.
EDGE = "steady 1/s 9s; steady 20/s 2s; steady 1/s 19s"
# Little, then three times what a limit of 10 a second lets pass, then little again.
BUSY = "steady 5/s 4s; steady 30/s 4s; steady 5/s 8s"
# Twice what eight workers of 20 ms can do.
LOADED = "steady 800/s 20s; service 20ms workers=8 timeout=1s"

PICTURES = {
    "hero": (["fixed-window 20/10s align=clock", "sliding-log 20/10s", "token-bucket 2/s burst=10",
              "pacer 2/s max-wait=5s"], EDGE),
    "fixed-window": (["fixed-window 20/10s align=clock"], EDGE),
    "sliding-window": (["sliding-window 20/10s slots=5", "fixed-window 20/10s align=clock"], EDGE),
    "sliding-counter": (["sliding-counter 20/10s", "fixed-window 20/10s align=clock"], EDGE),
    "sliding-log": (["sliding-log 20/10s"], EDGE),
    "token-bucket": (["token-bucket 10/s burst=20", "token-bucket 10/s burst=1"], BUSY),
    "leaky-bucket": (["leaky-bucket 10/s capacity=20", "leaky-bucket 10/s capacity=20 delay=5"],
                     BUSY),
    "pacer": (["pacer 10/s max-wait=3s", "token-bucket 10/s burst=20"], BUSY),
    "smooth-bursty": (["smooth-bursty 10/s max-burst=1s", "token-bucket 10/s"], BUSY),
    "smooth-warmup": (["smooth-warmup 20/s warmup=6s", "smooth-bursty 20/s"],
                      "steady 40/s 10s; pause 12s; steady 40/s 10s"),
    "min-interval": (["min-interval 250ms"], "steady 3/s 4s; steady 8/s 4s"),
    "concurrency": (["concurrency 8 queue=20 max-wait=100ms"],
                    "ramp 0..800/s 10s; service 20ms workers=8"),
    "breaker": (["breaker volume=50 window=2s open=1s growth=1"],
                "steady 200/s 10s; service 20ms workers=8 errors=0..90..0%"),
    "bbr": (["bbr", "concurrency 1M"], "ramp 0..1200/s 10s; service 20ms workers=8"),
    "vegas": (["vegas"], LOADED),
    "gradient": (["gradient"], LOADED),
    "aimd": (["aimd timeout=100ms"], LOADED),
    "adaptive-rate": (["adaptive-rate 1k/s min=100 max=2k target=50ms"], LOADED),
    "benchmark": ([], None),  # of docs/benchmarks-wire.md
    "system": (["system inflight=16"], "ramp 0..800/s 10s; service 20ms workers=8"),
}


BENCHMARK = os.path.join(FOLDER, "..", "benchmarks-wire.md")
BARS = ["weir, CL.THROTTLE", "Redis, INCR", "Redis, GCRA script"]
STYLE = """<style>
.paper{fill:#fff}
text{font:12px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1c2733}
.head{font-weight:600;font-size:13px}
.bar0{fill:#2f6fae}
.bar1{fill:#9aa7b4}
.bar2{fill:none;stroke:#6b7886}
@media (prefers-color-scheme:dark){
.paper{fill:#12181f}
text{fill:#e3e9ef}
.bar0{fill:#5ba3e6}
.bar1{fill:#6b7886}
.bar2{stroke:#93a1af}
}
</style>"""


def benchmark_rows():
    """(requests in one write, thousand replies a second by contender), of 10^6 keys."""
    with open(BENCHMARK, encoding="utf-8") as file:
        lines = file.read().split("## Throughput", 1)[1].splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines
             if line.startswith("|")]
    columns = [table[0].index(name) for name in BARS]
    for row in table[2:]:
        if row[0].startswith("10^6 keys, depth "):
            yield row[0].rsplit(" ", 1)[1], [
                int(row[at].split()[0].replace(",", "")) for at in columns]
        elif not row[0].startswith("10^"):
            return


def draw_benchmark():
    """Bars beside each other, a group for each depth of the pipeline."""
    rows = list(benchmark_rows())
    most = max(max(values) for _, values in rows)
    out, y = [STYLE, '<rect class="paper" width="100%" height="100%"/>',
              '<text class="head" x="16" y="24">thousand decisions a second, one thread</text>'], 36
    for depth, values in rows:
        y += 20
        out.append(f'<text x="16" y="{y}">{depth} in a pipeline</text>' if depth != "1" else
                   f'<text x="16" y="{y}">one request at a time</text>')
        for number, (name, value) in enumerate(zip(BARS, values)):
            y += 20
            wide = max(1, value * 560 // most)
            out.append(f'<text x="200" y="{y}" text-anchor="end">{name}</text>')
            out.append(f'<path class="bar{number}" d="M210 {y - 11}h{wide}v14h-{wide}z"/>')
            out.append(f'<text x="{216 + wide}" y="{y}">{value:,}</text>')
        y += 8
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {y + 16}" width="860" '
            f'height="{y + 16}" role="img">\n<title>throughput beside Redis</title>')
    return "\n".join([head, *out, "</svg>\n"])


def draw(weir, name, folder):
    """The SVG of a picture, as bytes."""
    limits, traffic = PICTURES[name]
    path = os.path.join(folder, name + ".svg")
    if name == "benchmark":
        with open(path, "w", encoding="utf-8") as file:
            file.write(draw_benchmark())
        return draw_benchmark().encode()
    subprocess.run([weir, "sim", *limits, "--traffic", traffic, "--svg", path], check=True)
    with open(path, "rb") as file:
        return file.read()


def is_current(weir, name, scratch):
    try:
        with open(os.path.join(FOLDER, name + ".svg"), "rb") as file:
            return file.read() == draw(weir, name, scratch)
    except FileNotFoundError:
        return False


def main(weir, check):
    os.makedirs(FOLDER, exist_ok=True)
    if not check:
        for name in PICTURES:
            draw(weir, name, FOLDER)
        return 0
    with tempfile.TemporaryDirectory(prefix="weir-pictures-") as scratch:
        stale = [name for name in PICTURES if not is_current(weir, name, scratch)]
    stale += [name for name in os.listdir(FOLDER) if name.removesuffix(".svg") not in PICTURES]
    for name in stale:
        print(f"FAILED: docs/pictures/{name}: run scripts/pictures.py {weir}")
    print(f"pictures: {len(PICTURES) - len(stale)} passed, {len(stale)} failed")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), "--check" in sys.argv[2:]))
