#!/usr/bin/env python3
"""Compiles and runs the programs that the documentation shows: `run_programs.py SOURCE_DIR LIBWEIR`.

A program is a comment's indented text in include/weir.h, or a ```c block in a Markdown file, that has
a main(). It is compiled as C11 and, the header alone, as C++; with warnings as errors; and must exit 0.
"""

import os
import re
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def programs(source):
    """(place, text) of every program."""
    with open(os.path.join(source, "include", "weir.h"), encoding="utf-8") as file:
        header = file.read()
    for block in re.findall(r"(?:^ \*(?:     .*)?\n)+", header, re.MULTILINE):
        text = "\n".join(line[7:] for line in block.splitlines())
        if "int main(" in text:
            yield "include/weir.h", text
    for folder, _, names in os.walk(source):
        if "build" in folder.split(os.sep) or ".git" in folder.split(os.sep):
            continue
        for name in sorted(n for n in names if n.endswith(".md")):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                for text in re.findall(r"^```c\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL):
                    if "int main(" in text:
                        yield os.path.relpath(path, source), text


def attempt(sentence, *commands):
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            print(f"FAILED: {sentence}: {' '.join(command)}\n{done.stdout}{done.stderr}")
            return False
    return True


def main(source, library):
    results = []
    include = "-I" + os.path.join(source, "include")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "program")
        for number, (place, text) in enumerate(programs(source)):
            path = os.path.join(folder, f"p{number}.c")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            results.append(attempt(f"the program in {place}",
                                   ["cc", "-std=c11", *WARNINGS, include, path, library, "-o", out], [out]))
        path = os.path.join(folder, "header.cc")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#include <weir.h>\nint main() { return weir_error_name(0) == nullptr; }\n")
        results.append(attempt("C++ includes the header",
                               ["c++", *WARNINGS, include, path, library, "-o", out], [out]))
    failed = results.count(False)
    print(f"documented programs: {len(results) - failed} passed, {failed} failed")
    return 1 if failed or len(results) < 2 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
