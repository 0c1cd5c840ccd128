#!/usr/bin/env python3
"""Compiles the C that the documentation shows, and runs its programs.

    run_programs.py SOURCE_DIR LIBWEIR

Every block fenced as ```c in a Markdown file is C, and so is every indented text in a comment of
include/weir.h that has a semicolon at the end of a line. C11, and warnings are errors.

  - A block with a main() is a program: it is compiled, linked with LIBWEIR, run in a directory of
    its own, and must exit with 0.
  - Any other block is a fragment: declarations, or statements as they stand in a function. It
    follows the PRELUDE below, so it may use those headers and variables, or declare its own. A
    fragment is compiled, not run.
  - Where a page says that its fragments STAND_IN its program, they do: each is added to the
    program, after those before it; functions before main(), statements before weir_close(). They
    have no more headers and variables than a reader sees. The whole is then run, and must exit with
    0.

The pages of docs/guide/clients are left out: they show files that tests/examples/clients.py
compiles with the library of a client.

The header is also included from C++, and a block fenced as ```cpp is a program in C++11. Last,
errors planted in blocks of each kind must be found.
"""

import os
import re
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Werror"]
# The page shows only a part of a program: what a fragment declares may be used in the rest.
UNUSED = [f"-Wno-unused-{what}"
          for what in ("variable", "but-set-variable", "function", "parameter")]
PRELUDE = """\
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir.h>

extern struct weir *w;
extern struct weir_policy *per_client;
extern struct weir_request rq;
extern struct weir_verdict v;
extern struct weir_diag why;
"""
STAND_IN = "stand in such a program: functions before `main`, statements before `weir_close`"
FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*(\S*)")
MAIN = re.compile(r"^\s*int\s+main\s*\(", re.MULTILINE)


def header_blocks(text):
    """(line, text) of every indented text in the header's comments that is C."""
    for found in re.finditer(r"(?:^ \*(?:     .*)?\n)+", text, re.MULTILINE):
        block = "\n".join(line[7:] for line in found[0].splitlines()) + "\n"
        if re.search(r";$", block, re.MULTILINE):
            yield text.count("\n", 0, found.start()) + 1, block


def fenced_blocks(text, language="c"):
    """(line, text) of every block in that language, its indent taken off."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        if fence is None:
            if match:
                fence, kept, first = match, [], number + 1
        elif match and not match[3] and match[2].startswith(fence[2]):
            if fence[3] == language:
                yield first, "\n".join(kept) + "\n"
            fence = None
        else:
            indent = len(fence[1])
            kept.append(line[indent:] if not line[:indent].strip() else line)
    if fence is not None and fence[3] == language:
        yield first, "#error the block has no end\n"


def documents(source):
    """The Markdown files of the tree, builds left out."""
    for folder, below, names in os.walk(source):
        below[:] = sorted(name for name in below if not name.startswith((".", "build")))
        for name in sorted(names):
            if name.endswith(".md") and not folder.endswith("docs/guide/clients"):
                yield os.path.relpath(os.path.join(folder, name), source)


def blocks(source):
    """(file, its text, [(line, text)]) of everything that has blocks of C."""
    for name, find in [("include/weir.h", header_blocks),
                       *((d, fenced_blocks) for d in documents(source))]:
        with open(os.path.join(source, name), encoding="utf-8") as file:
            whole = file.read()
        found = list(find(whole))
        if found:
            yield name, whole, found


def cplusplus_blocks(source):
    """(file, line, text) of every block fenced as cpp."""
    for name in documents(source):
        with open(os.path.join(source, name), encoding="utf-8") as file:
            for line, text in fenced_blocks(file.read(), "cpp"):
                yield name, line, text


class Story:
    """A program and the fragments in it."""

    def __init__(self, place, text):
        head, main, body = re.split(r"^(?=int main\()|^(?=    weir_close\(w\);)", place + text,
                                    flags=re.MULTILINE)
        self.parts = {"functions": head, "statements": main}
        self.end = body

    def text_of(self, kind=None, more=""):
        return ("".join(part + (more if name == kind else "") for name, part in self.parts.items())
                + self.end)


class Workshop:
    """Compiles and runs in a directory of its own."""

    def __init__(self, folder, source, library, *needed):
        self.folder, self.library = folder, [os.path.abspath(library), "-pthread", *needed]
        self.include = "-I" + os.path.join(os.path.abspath(source), "include")

    def run(self, *command):
        """The error, or "" if there is none."""
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                                  timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return f"{command[0]}: still running after 60 seconds\n"
        if done.returncode == 0:
            return ""
        return f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}"

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def program(self, place, text, *flags):
        path = self.write("program.c", place + text)
        return self.run("cc", "-std=c11", *WARNINGS, *flags, self.include, path, *self.library,
                        "-o", "./program") or self.run("./program")

    def join(self, story, place, text):
        """Adds the fragment to the story; returns the error, or ""."""
        complaints = []
        for kind in story.parts:
            path = self.write("story.c", story.text_of(kind, place + text))
            complaint = self.run("cc", "-std=c11", *WARNINGS, *UNUSED, self.include, "-c", path,
                                 "-o", "story.o")
            if not complaint:
                story.parts[kind] += place + text
                return ""
            complaints.append(f"as {kind} of the program: {complaint}")
        return "".join(complaints)

    def fragment(self, place, text):
        """Tries declarations, then statements; for a fragment that is neither, returns why."""
        complaints = []
        for kind, before, after in (("declarations", "", ""),
                                    ("statements", "int fragment(void);\nint fragment(void)\n{\n",
                                     "return 0;\n}\n")):
            path = self.write("fragment.c", PRELUDE + before + place + text + after)
            complaint = self.run("cc", "-std=c11", "-O1", *WARNINGS, *UNUSED, self.include, "-c",
                                 path, "-o", "fragment.o")
            if not complaint:
                return ""
            complaints.append(f"as {kind}: {complaint}")
        return "".join(complaints)

    def block(self, name, line, text):
        """Names the file and the line of the text, for the compiler's messages."""
        place = f'#line {line} "{name}"\n'
        return self.program(place, text) if MAIN.search(text) else self.fragment(place, text)

    def page(self, name, whole, found):
        """(line, what went wrong) of every block; last, where they make one program, of that."""
        story = None
        for line, text in found:
            place = f'#line {line} "{name}"\n'
            if story and not MAIN.search(text):
                yield line, self.join(story, place, text)
                continue
            yield line, self.block(name, line, text)
            if STAND_IN in whole and MAIN.search(text):
                story = Story(place, text)
        if story:
            yield 0, self.program("", story.text_of(), *UNUSED)

    def cplusplus(self, text):
        path = self.write("program.cc", text)
        return self.run("c++", "-std=c++11", *WARNINGS, self.include, path, *self.library, "-o",
                        "./program") or self.run("./program")


HEADER_ALONE = "#include <weir.h>\nint main() { return weir_error_name(0) == nullptr; }\n"
PLANTED = [
    ("a program that does not compile",
     "#include <weir.h>\nint main(void)\n{\n    return weir_no_such();\n}\n"),
    ("a program that fails",
     "#include <weir.h>\nint main(void)\n{\n    return weir_error_name(0) != NULL;\n}\n"),
    ("a statement with a field that is not there",
     "if (weir_take(w, &rq, &v) == 0)\n    v.alowed = true;\n"),
    ("a call with an argument too few", "weir_take(w, &rq);\n"),
    ("a function that forgets to declare a name",
     "int limit(void)\n{\n    return weir_take(engine, &rq, &v);\n}\n"),
    ("a type that is not there", "struct weir_requests many;\n"),
]

# In a page whose fragments stand in its program.
HOST = """#include <weir.h>
int main(void)
{
    struct weir *w;
    if (weir_open(&w, NULL, NULL) != 0)
        return 1;
    weir_close(w);
    return 0;
}
"""
ASTRAY = [
    ("a variable that the program has not", "if (weir_take(w, &rq, &v) == 0)\n    return 1;\n"),
    ("a header that the program has not", "puts(\"\");\n"),
    ("a name that the program has already", "struct weir *w = NULL;\n\nweir_now(w);\n"),
    ("a fragment that fails as it runs", "if (weir_now(w) > 0)\n    return 1;\n"),
]


def main(source, library, *needed):
    results, programs = [], 0

    def check(sentence, complaint):
        results.append(not complaint)
        if complaint:
            print(f"FAILED: {sentence}\n{complaint}")

    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(folder, source, library, *needed)
        for name, whole, found in blocks(source):
            programs += sum(bool(MAIN.search(text)) for _, text in found)
            for line, complaint in shop.page(name, whole, found):
                check(f"{name}:{line}: the block of C" if line
                      else f"{name}: its program with all fragments", complaint)
        check("C++ includes the header", shop.cplusplus(HEADER_ALONE))
        for name, line, text in cplusplus_blocks(source):
            check(f"{name}:{line}: the program in C++",
                  shop.cplusplus(f'#line {line} "{name}"\n{text}'))
        check("a program in C++ that fails is found",
              "" if shop.cplusplus("int main() { return 1; }\n") else "int main()\n")
        for sentence, text in PLANTED:
            check(f"{sentence} is found", "" if shop.block("planted", 1, text) else text)
        for sentence, text in ASTRAY:
            complaints = "".join(complaint for _,
                                 complaint in shop.page("planted", STAND_IN,
                                                        [(1, HOST), (9, text)]))
            check(f"{sentence} is found", "" if complaints else text)
    check("the header and the guides have programs",
          "" if programs >= 3 else f"found {programs}\n")
    failed = results.count(False)
    print(f"documented programs: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
