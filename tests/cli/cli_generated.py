#!/usr/bin/env python3
"""Man page, completions and --help are what the table of options says: `cli_generated.py WEIR`.

What scripts/cli_docs.py makes must equal the files in the tree. bash completes here for real; zsh,
fish and mandoc are asked where they are installed, and passed over where they are not.
"""

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import cli
from cli import check

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import cli_docs as docs  # noqa: E402  pylint: disable=wrong-import-position


def source(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                          **options)


# ---- Drift ---------------------------------------------------------------------------------------


def files_are_what_the_table_says():
    for path, text in docs.make(cli.WEIR).items():
        there = source(path)
        diff = difflib.unified_diff(there.splitlines(), text.splitlines(), path, "made",
                                    lineterm="")
        check(f"{path} is up to date (scripts/cli_docs.py makes it)", there == text,
              "\n  ".join(list(diff)[:20]))
        left = set(re.findall(r"@[a-z_]+@", text))
        check(f"all parts of {path}.in were made", not left, left)


def the_reader_knows_the_schema(table):
    """What the schema has at its top is what the reader of the configuration file knows."""
    schema = json.loads(source("docs/reference/weir.schema.json"))
    names = {key.name.split(".")[0] for key in table.keys}
    check("the schema has every key", set(schema["properties"]) == names, names)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weir.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{name}: {{no-such: [[]]}}\n" for name in sorted(names) + ["zzz"]))
        told = cli.weir("check", path).stderr.decode()
    if "built without" not in told:  # built without libyaml, or without the daemon
        found = re.findall(r":(\d+):1: unknown key '([\w-]+)'", told)
        check("the reader knows every key", [name for _, name in found] == ["zzz"], told)


def the_reference_knows_every_option(table):
    page = source("docs/reference/serve.md")
    keys = source("docs/reference/config.md")
    for key in table.keys:
        check(f"docs/reference/config.md tells {key.name}", f"| `{key.name}` |" in keys)
    for option in table.find("serve").dashed():
        if option.name != "--help":
            check(f"docs/reference/serve.md tells {option.name}", f"`{option.name}" in page)


# ---- Help ----------------------------------------------------------------------------------------


def help_is_whole(table):
    for command in table.commands:
        words = command.name.split()
        text = cli.weir(*words, "--help").stdout.decode()
        name = " ".join(["weir", *words])
        check(f"{name} --help fits in 100 columns", max(map(len, text.splitlines())) <= 100, text)
        check(f"{name} --help begins with its usage", "usage: weir" in text[:100], text)
        check(f"{name} --help has examples", "\nExamples:\n  weir" in text, text)
        again = cli.weir("help", *words).stdout.decode()
        check(f"weir help {command.name} is the same", again == text, again)
        flat = " ".join(text.split())
        for option in command.options if not command.parts else []:
            told = "print this help" if option.name == "--help" else option.whole_text()
            told = " ".join(told.split())
            check(f"{name} --help tells {option.name}", option.name in text and told in flat, text)


def topics_are_whole(table):
    listed = cli.weir("help", "topics").stdout.decode()
    for name in table.topics:
        done = cli.weir("help", name)
        text = done.stdout.decode()
        check(f"weir help {name}", done.returncode == 0 and text.startswith(f"{name}: "), text)
        check(f"{name} fits in 100 columns", max(map(len, text.splitlines())) <= 100, text)
        check(f"{name} fits on a screen", text.count("\n") <= 48, text)
        check(f"{name} is listed", f"\n  {name} " in "\n" + listed, listed)
        for page in re.findall(r"docs/[\w/.-]*\w/?", text):
            check(f"{name}: {page} exists", os.path.exists(os.path.join(docs.SOURCE, page)))
    for name in ("limits", "guards"):
        text = cli.weir("help", name).stdout.decode()
        lines = re.findall(r"^  (\S+(?: \S+)*)  +\w", text.partition("Options that")[0], re.M)
        check(f"{name}: lines are limits", len(lines) >= 7, lines)
        for limit in lines:
            done = cli.weir("explain", limit)
            check(f"{name}: {limit}", done.returncode == 0, done.stderr.decode())
    for option in ("block=1m..1h after=10", "warn=80%", "shadow", "fallback=deny"):
        for name in docs.ALGORITHMS:
            amount = {"min-interval": " 5s", "smooth-warmup": " 10/s warmup=10s"}.get(name, " 10/s")
            if name == "unlimited":
                break
            done = cli.weir("explain", f"{name}{amount} {option}")
            check(f"{name} may have {option}", done.returncode == 0, done.stderr.decode())


def the_table_is_read(table):
    """Every option of the table is one of the reader, and says what it expects."""
    for command in table.leaves:
        for option in command.dashed():
            if option.value:
                done = cli.weir(*command.name.split(), option.name, text="")
                told = f"{option.name} needs a value: expected "
            elif option.name != "--help":
                done = cli.weir(*command.name.split(), option.name + "=x", text="")
                told = f"{option.name} 'x': expected no value"
            else:
                continue
            check(f"weir {command.name}: {told}",
                  done.returncode == 2 and told in done.stderr.decode(), done.stderr)


# ---- bash ----------------------------------------------------------------------------------------

BASH = """
source "$1/completions/weir.bash"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_weir
printf '%s\\n' "${COMPREPLY[@]}"
"""

ALL = ("demo sim replay advise explain serve check take run pace peek charge reserve commit "
       "cancel enter exit refund reset limit override list stats ping reload store version help "
       "--help --version")
RATES = ["'fixed-window ", "'sliding-window ", "'sliding-counter ", "'sliding-log "]
COMPLETED = [
    ("commands", [""], ALL.split()),
    ("a command", ["se"], ["serve"]),
    ("the commands of store", ["store", ""], "info convert reset --help".split()),
    ("a command of store", ["store", "c"], ["convert"]),
    ("the commands of help", ["help", "s"],
     ["sim", "serve", "stats", "store", "stores", "server"]),
    ("the parts of help store", ["help", "store", "r"], ["reset"]),
    ("options of serve", ["serve", "--max-m"], ["--max-memory"]),
    ("options of a command of store", ["store", "reset", "--"], ["--all", "--yes", "--help"]),
    ("options behind an operand", ["store", "info", "x", "--"], ["--json", "--help"]),
    ("the words of --full", ["serve", "--full", ""], ["evict", "deny", "allow"]),
    ("the words of --full=", ["serve", "--full", "=", "d"], ["deny"]),
    ("all words of --full=", ["serve", "--full", "="], ["evict", "deny", "allow"]),
    ("of --literals", ["serve", "--literals", "of"], ["off"]),
    ("of --clock", ["serve", "--clock", ""], ["system", "manual"]),
    ("of --max-wait", ["serve", "--idle", "1m", "--max-wait", "f"], ["forever"]),
    ("stores", ["take", "--store", "redis"], ["redis://", "redis+unix:/"]),
    ("nothing for a number", ["serve", "--threads", ""], []),
    ("nothing for a key", ["take", "10/s", ""], []),
    ("what follows a key", ["take", "10/s", "k", ""],
     ["cost=", "wait=", "wait=forever", "numbers="]),
    ("a value is no operand", ["take", "--store", "memory:", "10/s", "k", "c"], ["cost="]),
    ("algorithms", ["explain", "sliding"], RATES[1:]),
    ("the options of an algorithm", ["explain", "'token-bucket 10/s bu"],
     ["token-bucket 10/s burst=", "token-bucket 10/s burst=..."]),
    ("of the last term", ["sim", "'10/s + fixed-window 5/s al"],
     ["10/s + fixed-window 5/s align=first", "10/s + fixed-window 5/s align=clock"]),
    ("of a guard without an amount", ["sim", "'breaker preset=h"], ["breaker preset=hystrix"]),
    ("count-denied for rates only", ["explain", "'vegas count"], []),
    ("a limit, or a file", ["sim", "meson.b"], ["meson.build"]),
    ("a script", ["sim", "10/s", "meson.b"], ["meson.build"]),
    ("a state file", ["store", "info", "meson.b"], ["meson.build"]),
    ("a new file", ["store", "convert", "x", "--out", "meson.b"], ["meson.build"]),
    ("phases of traffic", ["sim", "--traffic", "p"], ["'poisson ", "'pause "]),
    ("what a phase carries", ["sim", "--traffic", "'poisson 8/s 3s s"],
     ["poisson 8/s 3s seed=", "poisson 8/s 3s seed=..."]),
]


def bash_completes():
    for sentence, words, wanted in COMPLETED:
        done = run("bash", "-c", BASH, "bash", SOURCE, "weir", *words, cwd=SOURCE)
        check(f"bash completes {sentence}", done.stdout.splitlines() == (wanted or [""])
              and not done.stderr, f"{words}: {done.stdout!r} {done.stderr!r}")


def bash_offers_every_option(table):
    for command in table.commands:
        words = [*command.name.split(), "--"]
        done = run("bash", "-c", BASH, "bash", SOURCE, "weir", *words)
        names = [option.name for option in command.dashed()]
        check(f"bash offers all options of weir {command.name}", done.stdout.split() == names,
              done.stdout)


# ---- Others --------------------------------------------------------------------------------------

FISH = [
    ("a command", "weir se", ["serve"]),
    ("the words of --full", "weir serve --full ", ["allow", "deny", "evict"]),
    ("the commands of store", "weir store ", ["convert", "info", "reset"]),
    ("options", "weir store reset --", ["--all", "--help", "--yes"]),
    ("what follows a key", "weir take --store memory: 10/s k ",
     ["cost=", "numbers=", "wait=", "wait=forever"]),
    ("nothing for a key", "weir take 10/s ", []),
    ("a file", "weir store info meson.b", ["meson.build"]),
    ("algorithms", "weir explain pa", ["pacer "]),
    ("the parts of help store", "weir help store ", ["convert", "info", "reset"]),
]


def other_shells_read_theirs():
    if shutil.which("zsh"):
        done = run("zsh", "-n", os.path.join(SOURCE, "completions/_weir"))
        check("zsh reads its completion", done.returncode == 0, done.stderr)
    if not shutil.which("fish"):
        return
    path = os.path.join(SOURCE, "completions/weir.fish")
    done = run("fish", "--no-execute", path)
    check("fish reads its completion", done.returncode == 0 and not done.stderr, done.stderr)
    with tempfile.TemporaryDirectory() as home:  # a home without settings
        for sentence, line, wanted in FISH:
            done = run("fish", "-c", "source $argv[1]; complete -C $argv[2]", path, line,
                       cwd=SOURCE, env=os.environ | {"HOME": home, "XDG_CONFIG_HOME": home})
            got = sorted(each.split("\t")[0] for each in done.stdout.splitlines())
            check(f"fish completes {sentence}", got == wanted, f"{line}: {got} {done.stderr[:300]}")


def the_man_page_is_clean():
    if shutil.which("mandoc"):
        done = run("mandoc", "-T", "lint", "-W", "warning",
                   os.path.join(SOURCE, "docs/man/weir.1"))
        check("mandoc has nothing to say of the man page", done.stdout == "", done.stdout)


def main():
    cli.WEIR = os.path.abspath(sys.argv[1])
    table = docs.Table(cli.WEIR)
    files_are_what_the_table_says()
    the_reference_knows_every_option(table)
    the_reader_knows_the_schema(table)
    help_is_whole(table)
    topics_are_whole(table)
    the_table_is_read(table)
    bash_completes()
    bash_offers_every_option(table)
    other_shells_read_theirs()
    the_man_page_is_clean()
    print(f"command's documents: {cli.PASSED} passed, {len(cli.FAILED)} failed")
    return 1 if cli.FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
