#!/usr/bin/env python3
"""Which newcomers does a flood refuse, by the rule of decision 17 alone; and by the engine?

    rule_model.py ENGINE_FLOOD          both, compared
    rule_model.py PLACES CELLS          the rule, of a table of another size

The rule is written from its words and not from the engine: places in buckets of five, two buckets
and two overflow cells for each key, a limit of five events, and no time. Everything happens at
once, so all algorithms are the same. A thousand keys are 1x. The engine's store for 1,000 keys has
1,430 places and 89 cells. Both print, in percent, which newcomers are refused during and after the
flood; the engine may refuse no more than the rule, but for what chance makes of so few.
"""

import random
import re
import subprocess
import sys

LIMIT = 5
PLACES_EACH = 5
KEYS = 1000
SEEDS = range(1, 6)
CHANCE = 3  # percent
FLOODS = [(name, events, multiple)
          for name, events in (("one event", 1), ("exhausted", LIMIT)) for multiple in (1, 2, 10)]


class Store:
    def __init__(self, places, cells, seed):
        self.dice = random.Random(seed)
        self.bucket = [[] for _ in range(places // PLACES_EACH)]
        self.cell = [0] * cells

    def key(self):
        """A new key: its buckets, its cells, and what it owes once it has a place."""
        numbers = range(len(self.bucket))
        return {
            "buckets": sorted({self.dice.choice(numbers), self.dice.choice(numbers)}),
            "cells": self.dice.sample(range(len(self.cell)), 2),
            "owes": None,
        }

    def cells_owe(self, key):
        return min(self.cell[i] for i in key["cells"])

    def harm(self, owes, key):
        cells = self.cells_owe(key)
        return owes - cells if owes > cells else 0.3 * (cells - owes)

    def join(self, key, owes):
        for i in key["cells"]:
            self.cell[i] = max(self.cell[i], owes)

    def take(self, key):
        owes = 1 + (self.cells_owe(key) if key["owes"] is None else key["owes"])
        if owes > LIMIT:
            return False
        if key["owes"] is not None:
            key["owes"] = owes
        elif not self.has_place(key, owes):
            self.join(key, owes)
        return True

    def has_place(self, key, owes):
        buckets = sorted((self.bucket[i] for i in key["buckets"]), key=len)
        if len(buckets[0]) < PLACES_EACH:
            key["owes"] = owes
            buckets[0].append(key)
            return True
        least, place = self.harm(owes, key), None
        for bucket in buckets:
            for i, other in enumerate(bucket):
                if self.harm(other["owes"], other) < least:
                    least, place = self.harm(other["owes"], other), (bucket, i)
        if place is None:
            return False
        bucket, i = place
        self.join(bucket[i], bucket[i]["owes"])
        bucket[i]["owes"] = None
        key["owes"] = owes
        bucket[i] = key
        return True


def flood(places, cells, seed, events, multiple):
    """The shares of newcomers that are refused: during and after it."""
    store = Store(places, cells, seed)
    refused = [0, 0]
    for after in (0, 1):
        for step in range(KEYS):
            for _ in range(0 if after else multiple):
                invented = store.key()
                for _ in range(events):
                    if not store.take(invented):
                        break
            if step % 4 == 0:
                refused[after] += not store.take(store.key())
    return [100 * n / (KEYS / 4) for n in refused]


def mean(runs):
    return [sum(r[i] for r in runs) / len(runs) for i in (0, 1)]


def by_rule(places, cells):
    return {(name, multiple): mean([flood(places, cells, seed, events, multiple)
                                    for seed in SEEDS]) for name, events, multiple in FLOODS}


def by_engine(program):
    """The worst limit of each flood."""
    runs = {}
    for seed in SEEDS:
        text = subprocess.run([program, "at-once", str(seed), str(KEYS)], check=True,
                              capture_output=True, text=True).stdout
        for row in re.finditer(r"\| (\S+) .*?\| (\S.*?) +\| +(\d+)x \| +(\S+) / +(\S+) \|", text):
            runs.setdefault((row[2], int(row[3])), {}).setdefault(row[1], []).append(
                [float(row[4]), float(row[5])])
    return {flood_: max(mean(r) for r in limits.values()) for flood_, limits in runs.items()}


def main():
    if len(sys.argv) == 3:
        table = by_rule(int(sys.argv[1]), int(sys.argv[2]))
        for (name, multiple), (during, after) in table.items():
            print(f"| {name:9} | {multiple:2}x | {during:5.1f} / {after:5.1f} |")
        return 0
    rule, engine = by_rule(1430, 89), by_engine(sys.argv[1])
    failed = 0
    print("| flood     | keys | by the rule   | by the engine |")
    for name, _, multiple in FLOODS:
        ours, words = engine[name, multiple], rule[name, multiple]
        worse = any(ours[i] > words[i] + CHANCE for i in (0, 1))
        failed += worse
        print(f"| {name:9} | {multiple:3}x | {words[0]:5.1f} / {words[1]:5.1f} "
              f"| {ours[0]:5.1f} / {ours[1]:5.1f} |{' worse' if worse else ''}")
    print(f"flood by the rule: {len(FLOODS) - failed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
