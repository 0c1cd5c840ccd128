#!/usr/bin/env python3
"""Embeds the scripts of src/redis/script in the library: `embed.py LUA_FOLDER OUT.c`.

This file defines which files a script consists of, and in which order. The tests of the scripts ask
here too (`script`), so that they test what is sent. A client that connects to a Redis without a
script sends all of it, so comments, indents and empty lines are left out.
"""

import hashlib
import os
import re
import sys

FAMILIES = ("due", "window", "log", "warmup", "concurrency")    # the bits of a mask, from 1 on
MASKS = range(1, 1 << len(FAMILIES))
ALONE = {32: "heartbeat", 33: "creation"}                      # scripts of one file
FILES = ("head", "plain", "prelude", *FAMILIES, "account", "main", *ALONE.values())
TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*' | "(?:\\.|[^"\\\n])*" | --[^\n]*""", re.VERBOSE)


def parts(mask):
    """The names of the files of a script, in their order."""
    if mask in ALONE:
        return [ALONE[mask]]
    families = [name for bit, name in enumerate(FAMILIES) if mask >> bit & 1]
    return ["head", *["plain"] * (mask < 4), "prelude", *families, "account", "main"]


def stripped(text):
    """The same program, in fewer bytes. Each file stays on lines of its own."""
    if re.search(r"--\[=*\[", text) or re.search(r"\[=*\[", TOKEN.sub("''", text)):
        raise SystemExit("embed.py: long brackets ([[ ]]) are not supported")
    text = TOKEN.sub(lambda found: "" if found[0].startswith("--") else found[0], text)
    lines = [line.strip() for line in text.split("\n")]
    return "".join(line + "\n" for line in lines if line)


def piece(folder, name):
    with open(os.path.join(folder, name + ".lua"), encoding="ascii") as file:
        return stripped(file.read())


def script(folder, mask):
    """The text that is sent, whose SHA-1 is the script's name."""
    return "".join(piece(folder, name) for name in parts(mask))


def literal(text):
    def quoted(line):
        return line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")

    return "\n".join(f'    "{quoted(line)}\\n"' for line in text.splitlines()) or '    ""'


def row(folder, mask):
    text = script(folder, mask)
    pieces = ", ".join("{%s, sizeof %s - 1}" % (name, name) for name in map(str.upper, parts(mask)))
    sha = hashlib.sha1(text.encode()).hexdigest()
    return '    [%d] = {"%s", {%s, {NULL, 0}}, %d},' % (mask, sha, pieces, len(text))


def source(folder):
    """The whole of scripts.c."""
    texts = [f"static const char {name.upper()}[] =\n{literal(piece(folder, name))};"
             for name in FILES]
    rows = [row(folder, mask) for mask in (*MASKS, *ALONE)]
    head = ["/* Made by embed.py from src/redis/script. */",
            '#include "redis/script/scripts.h"', ""]
    table = "const struct weir__script weir__scripts[WEIR__SCRIPT_COUNT] = {"
    return "\n".join([*head, *texts, "", table, *rows, "};", ""])


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.write(source(sys.argv[1]))
