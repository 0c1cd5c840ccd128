#!/usr/bin/env python3
"""Checks that the layers stay apart.

    gate.py BUILD_DIR SOURCE_DIR

What the linker proves: the objects of `base` and `algo` import nothing but memory and string
helpers, libgcc's 128-bit arithmetic, assert, and symbols of their own and lower layers. So they
contain no allocation, I/O, clock or lock. They also have no writable data.

What the text proves: a file includes only its own layer and lower ones.
"""

import os
import re
import subprocess
import sys

# Which layers each layer may include.
ALLOWED = {
    "base": {"base"},
    "algo": {"base", "algo"},
    "os": {"base", "os"},
    "limit": {"base", "algo", "os", "limit"},
    "table": {"base", "algo", "os", "table"},
    "engine": {"base", "algo", "os", "table", "limit", "engine"},
    "redis": {"base", "algo", "os", "table", "limit", "engine", "redis"},
    "proto": {"base", "proto"},
    "server": {"base", "proto", "server"},
    "sim": {"base", "algo", "limit", "sim"},
    "cli": {"base", "algo", "limit", "server", "sim", "cli"},
}
# The one header of a lower layer that a layer may see, and nothing deeper.
EMBEDDED = {
    "server": {"engine/embed.h", "redis/embed.h"},
    "cli": {"engine/embed.h", "engine/store/inspect.h"},
}
PURE = ("base", "algo")
HARMLESS = re.compile(r"(mem(cpy|move|set|cmp|chr)|str(len|n?cmp|r?chr|str)|__[a-z]+ti[0-9]"
                      r"|__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_)$")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def imports(build, layer):
    """(object, symbol) of every symbol that the layer's archive imports."""
    archive = os.path.join(build, "src", layer, f"libweir-{layer}.a")
    listing = output("nm", "-u", "-A", archive)
    for line in listing.splitlines():
        place, symbol = line.rsplit(" ", 1)
        yield place.split(":")[1], symbol


def defined(build, layer):
    """The symbols that the layer's archive defines."""
    archive = os.path.join(build, "src", layer, f"libweir-{layer}.a")
    listing = output("nm", "--defined-only", "-g", archive)
    return {line.split()[-1] for line in listing.splitlines() if len(line.split()) == 3}


def writable(build, layer):
    """(object, symbol) of all of .data and .bss; .data.rel.ro is constant once linked."""
    archive = os.path.join(build, "src", layer, f"libweir-{layer}.a")
    listing = output("objdump", "-t", archive)
    where = ""
    for line in listing.splitlines():
        header = re.match(r"(\S+):\s+file format", line)
        where = header.group(1) if header else where
        found = re.search(r" O (\.data|\.bss|\*COM\*)\s+\S+\s+(\S+)$", line)
        if found:
            yield where, found.group(2)


def includes(source):
    for folder, _, names in os.walk(os.path.join(source, "src")):
        layer = os.path.relpath(folder, os.path.join(source, "src")).split(os.sep)[0]
        for name in sorted(names):
            if not name.endswith((".c", ".h")):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                    if found:
                        yield layer, f"{layer}/{name}:{number}", found.group(1)


def main(build, source):
    faults, checks = [], 0
    for layer in PURE:
        ours = set().union(*(defined(build, below) for below in ALLOWED[layer]))
        for where, symbol in imports(build, layer):
            checks += 1
            if symbol not in ours and not HARMLESS.match(symbol):
                faults.append(f"{layer}: {where} imports {symbol}: this layer is pure")
        for where, symbol in writable(build, layer):
            faults.append(f"{layer}: {where} has writable data {symbol}: this layer is pure")
    for layer, where, target in includes(source):
        checks += 1
        seen = ALLOWED.get(layer, set()) | EMBEDDED.get(layer, set())
        if target.split("/")[0] not in seen and target not in seen:
            allowed = ", ".join(sorted(seen))
            faults.append(f"{where} includes {target}: {layer} may include only {allowed}")
    for fault in faults:
        print(fault)
    print(f"layers: {checks - len(faults)} passed, {len(faults)} failed")
    return 1 if faults or not checks else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
