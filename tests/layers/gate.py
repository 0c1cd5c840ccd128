#!/usr/bin/env python3
"""Checks that the layers stay apart.

    gate.py BUILD_DIR SOURCE_DIR

What the linker proves: the objects of `base` and `algo` import nothing but memory and string
helpers, libgcc's 128-bit arithmetic, assert, and symbols of their own and lower layers. So they
contain no allocation, I/O, clock or lock. They also have no writable data.

What the text proves: a file includes only its own layer and lower ones. The daemon, the command and
the simulation see one header of the engine and nothing behind it: the gate follows the includes of
that header, and of every other header that a layer is given of a layer it may not see.
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
    "rules": {"base", "rules"},
    "config": {"base", "config"},
    "server": {"base", "proto", "rules", "server"},
    "sim": {"base", "sim"},
    "cli": {"base", "config", "rules", "server", "sim", "cli"},
}
# The headers of lower layers that the files of a folder may include, and nothing deeper. A folder
# that is not named here has what the folder above it has. The Redis store is a build option, so its
# header is its own.
EMBEDDED = {
    "rules": {"proto/address.h"},
    "server": {"engine/embed.h", "redis/embed.h"},
    "sim": {"engine/embed.h"},
    "cli": {"engine/embed.h"},
    "cli/client": {"engine/embed.h", "proto/resp_reply.h"},
    "cli/store": {"engine/store/inspect.h"},
}
# What an embedding header includes in turn, at any depth, beside `base`.
EMBEDS = {"engine/policy/anonymous.h", "engine/waiter.h", "limit/explain.h"}
BEHIND = {
    "proto/address.h": set(),
    "proto/resp_reply.h": set(),
    "engine/embed.h": EMBEDS,
    "redis/embed.h": EMBEDS | {"engine/embed.h", "os/tick_line.h", "redis/redis_decide.h",
                               "redis/redis_undo.h", "redis/client/address.h",
                               "redis/client/pipeline.h", "redis/client/reply.h"},
    # The format of a file is made of the engine's records and the table's layout.
    "engine/store/inspect.h": {"algo/algo.h", "engine/policy/revision.h",
                               "engine/store/directory.h",
                               "engine/policy/revision_map.h", "engine/store/format.h",
                               "engine/store/pin.h", "engine/store/store.h", "engine/waiter.h",
                               "limit/zone.h", "os/diag.h", "os/lock.h", "table/cells.h",
                               "table/journal.h", "table/layout.h", "table/table.h"},
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


def included(path):
    """(line, header) of what a file includes in quotes."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if found:
                yield number, found.group(1)


def includes(source):
    """(folder, place, header) of every include of the tree."""
    root = os.path.join(source, "src")
    for path, _, names in os.walk(root):
        folder = os.path.relpath(path, root).replace(os.sep, "/")
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                for number, header in included(os.path.join(path, name)):
                    yield folder, f"{folder}/{name}:{number}", header


def behind(source, header, seen):
    """All headers that a header includes, at any depth."""
    for _, inner in included(os.path.join(source, "src", header)):
        if inner not in seen:
            seen.add(inner)
            behind(source, inner, seen)
    return seen


def may_include(folder):
    """The layers and the single headers that a file of the folder may include."""
    layer = folder.split("/")[0]
    while folder and folder not in EMBEDDED:
        folder = folder.rpartition("/")[0]
    return ALLOWED.get(layer, set()), EMBEDDED.get(folder, set())


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
    for folder, where, target in includes(source):
        checks += 1
        layers, headers = may_include(folder)
        if target.split("/")[0] not in layers and target not in headers:
            allowed = ", ".join(sorted(layers | headers))
            faults.append(f"{where} includes {target}: {folder} may include only {allowed}")
    for header, known in BEHIND.items():
        found = {h for h in behind(source, header, set()) if not h.startswith("base/")}
        checks += len(found | known)
        for inner in sorted(found - known):
            faults.append(f"{header} leads to {inner}, which its users may not see")
        for inner in sorted(known - found):
            faults.append(f"{header} does not lead to {inner} any more: take it off the list")
    for fault in faults:
        print(fault)
    print(f"layers: {checks - len(faults)} passed, {len(faults)} failed")
    return 1 if faults or not checks else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
