#!/usr/bin/env python3
"""Holds CONTRIBUTING.md, docs/internals and the READMEs to the tree they describe.

    recipes.py SOURCE_DIR

Every path and every identifier that stands there in `backticks` exists. Every file of src opens
with a comment. Every folder of src has a README.md, which names all of its files, and a
meson.build, and at most 32 files of C. No struct tag and no external function is defined twice.
Folders of tests have a README.md too, and at most 32 files. No file has more than 800 lines. No
sentence is about nobody, whoever or somebody: it says which client, caller or process it means.
docs/internals/locks.md names every mutex and every thread.
"""

import os
import re
import sys

FILES_MOST = 32
LINES_MOST = 800
# The manual of the library, and the oracle, which is read beside the reference (its README says
# why).
LONG = ("include/weir.h", "tests/oracle/oracle.py")
WORDS = re.compile(r"\b(nobody|whoever|somebody)\b", re.I)
# The number of a user; the page that counts these words; this file.
WORDS_LEFT = ("tests/store/system_errors.c", "docs/decisions/0021-rooms-and-words.md",
              "tests/docs/recipes.py")
LEFT_OUT = ("build", ".git", "node_modules", "__pycache__")
# Files that open without a comment: none may be added, and the number only falls.
UNOPENED_MOST = 0
# Defined once for each platform or each build option: the build takes one of them.
VARIANT = re.compile(r"_(none|linux|x86|locked|tsc|openssl|glibc|other|zlib)\.[ch]$")
SUFFIXES = (".c", ".h", ".py", ".md", ".lua", ".vec", ".txt", ".in", ".build", ".json", ".1")
PATH = re.compile(r"[\w.{},*-]+(/[\w.{},*-]+)*/?$")
IDENTIFIER = re.compile(r"(struct |enum )?([A-Za-z_]\w*)(\(\))?$")


def listed(source):
    """The tree's files, without what was built there."""
    names = []
    for folder, folders, files in os.walk(source):
        folders[:] = [f for f in folders if f not in LEFT_OUT]
        names += [os.path.relpath(os.path.join(folder, f), source) for f in files]
    return names


def text_of(source, name):
    with open(os.path.join(source, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def code_spans(text):
    """(line, span) of everything in backticks, outside of fenced and indented blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced or line.startswith("    "):
            continue
        for span in re.findall(r"`([^`]+)`", line):
            yield number, span


def braces(path):
    """a/{b,c}.h is two paths."""
    found = re.search(r"\{([^}]*)\}", path)
    if not found:
        return [path]
    return [p for word in found.group(1).split(",")
            for p in braces(path[:found.start()] + word + path[found.end():])]


def is_path(span):
    return bool(PATH.match(span)) and ("/" in span or span.endswith(SUFFIXES)) \
        and not span.startswith("/")


def path_exists(names, page, path):
    """Beside the page, from the root, src or tests; a bare name anywhere. * is any characters."""
    wanted = ".*".join(re.escape(p) for p in path.rstrip("/").split("*"))
    bases = "|".join(re.escape(b) for b in ("", "src/", "tests/", os.path.dirname(page) + "/"))
    whole = re.compile(f"({bases}){wanted}(/.*)?" if "/" in path else f"(.*/)?{wanted}(/.*)?")
    return any(whole.fullmatch(n) for n in names)


def pages(names):
    for name in sorted(names):
        if name == "CONTRIBUTING.md" or name.startswith("docs/internals/") \
                or re.fullmatch(r"(src|tests|scripts)/(.*/)?README\.md", name):
            yield name


def check_pages(source, names, words):
    for page in pages(names):
        for number, span in code_spans(text_of(source, page)):
            if span.startswith(("build/", "./", "~", "docs/reference/limits.md#")):
                continue
            if is_path(span):
                for path in braces(span):
                    yield (None if path_exists(names, page, path) else
                           f"{page}:{number}: no such file: {path}")
                continue
            found = IDENTIFIER.match(span)
            if span.endswith("_i"):  # a word of a formula
                continue
            if found and ("_" in span or found.group(1) or found.group(3)):
                yield (None if found.group(2) in words else
                       f"{page}:{number}: the tree has no {span}")


def sources(names):
    return [n for n in names if n.startswith("src/") and n.endswith((".c", ".h"))]


def check_openings(source, names):
    unopened = [n for n in sources(names) if not text_of(source, n).startswith("/*")]
    yield (None if len(unopened) <= UNOPENED_MOST else
           f"{len(unopened)} files of src open without a comment, at most {UNOPENED_MOST} may: "
           + " ".join(sorted(unopened)))


def check_folders(source, names):
    here = {}
    for name in sources(names):
        here.setdefault(os.path.dirname(name), []).append(os.path.basename(name))
    for folder, files in sorted(here.items()):
        for needed in ("README.md", "meson.build"):
            yield None if f"{folder}/{needed}" in names else f"{folder} has no {needed}"
        yield (None if len(files) <= FILES_MOST else
               f"{folder} has {len(files)} files of C, at most {FILES_MOST} may be in one folder")
        if f"{folder}/README.md" in names:
            told = text_of(source, f"{folder}/README.md")
            for file in sorted(files):
                stem = os.path.splitext(file)[0]
                yield (None if re.search(rf"\b{re.escape(stem)}\b", told) else
                       f"{folder}/README.md does not name {file}")


def check_test_folders(names):
    here = {}
    for name in names:
        if re.match(r"tests/.*\.(c|h|py)$", name):
            here.setdefault(os.path.dirname(name), []).append(name)
    for folder, files in sorted(here.items()):
        if folder != "tests/integration/clients":  # one program for each language
            yield None if f"{folder}/README.md" in names else f"{folder} has no README.md"
        yield (None if len(files) <= FILES_MOST else
               f"{folder} has {len(files)} files, at most {FILES_MOST} may be in one folder")


def check_text(source, names):
    for name in sorted(names):
        if not name.endswith((".c", ".h", ".lua", ".py", ".md")) or "/corpus/" in name:
            continue
        text = text_of(source, name)
        lines = text.count("\n")
        yield (None if lines <= LINES_MOST or name.endswith(".md") or name in LONG else
               f"{name} has {lines} lines, at most {LINES_MOST} may be in one file")
        found = None if name in WORDS_LEFT else WORDS.search(text)
        yield (None if not found else
               f"{name}:{text.count(chr(10), 0, found.start()) + 1}: who is '{found.group()}'? "
               "Name the client, caller or process")


def check_locks(source, names):
    """docs/internals/locks.md knows every mutex, and every thread by its function."""
    page = text_of(source, "docs/internals/locks.md")
    told = page.splitlines()
    for name in sorted(sources(names)):
        text = without_comments(text_of(source, name))
        for found in re.finditer(r"^(.*)pthread_(?:mutex|rwlock)_t (\w+)( =.*)?;", text, re.M):
            lock = found.group(2)
            tags = re.findall(r"^struct (\w+) \{", text[:found.start()], re.M)
            where = name if found.group(1).startswith("static") else f"struct {tags[-1]}"
            yield (None if any(f"`{lock}`" in line and where in line for line in told) else
                   f"{name}: docs/internals/locks.md does not name `{lock}` of {where}")
        for run in re.findall(r"(?:pthread_create\([^,]+,[^,]+|background_start\([^,]+),\s*"
                              r"(\w+),\s*[^)]", text):
            if name == "src/server/background.c":  # starts what its callers name
                continue
            yield (None if f"`{run}`" in page else
                   f"{name}: docs/internals/locks.md does not name the thread `{run}`")


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def definitions(text):
    """Struct tags and functions that a file defines; static ones too, so that a stack trace is
    clear."""
    for tag in re.findall(r"^struct (\w+) \{", text, re.M):
        yield "struct " + tag
    for found in re.finditer(r"^(?![ \t#/*}])((?:[\w*]+[ *]+)+)(\w+)\([^;{}]*\)\n\{", text, re.M):
        if found.group(2) != "__attribute__":
            yield found.group(2) + "()"


def check_definitions(source, names):
    seen = {}
    for name in sorted(sources(names)):
        if VARIANT.search(name):
            continue
        for what in definitions(without_comments(text_of(source, name))):
            known = seen.setdefault(what, name)  # twice in one file: for two kinds of machine
            yield f"{what} is defined in {known} and in {name}" if known != name else None


def main(source):
    names = set(listed(source))
    words = set()
    for name in names:
        if name.endswith((".c", ".h", ".py", ".lua", ".build", ".sh")) or "/" not in name:
            words |= set(re.findall(r"[A-Za-z_]\w*", text_of(source, name)))
    results = [*check_pages(source, names, words), *check_openings(source, names),
               *check_folders(source, names), *check_test_folders(names),
               *check_text(source, names), *check_locks(source, names),
               *check_definitions(source, names)]
    faults = [r for r in results if r]
    for fault in faults:
        print(fault)
    print(f"recipes: {len(results) - len(faults)} passed, {len(faults)} failed")
    return 1 if faults or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
