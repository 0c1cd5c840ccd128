#!/usr/bin/env python3
"""Makes the man page and the completions from the command's table: `cli_docs.py WEIR [FOLDER]`.

`weir help --format=table` prints the table (src/cli/describe.c). Texts that are not in it (the
grammar of limits, what a shell needs to complete the inside of a quoted argument) are in templates
beside the generated files: docs/man/weir.1.in, completions/weir.bash.in and so on. The script
replaces @name@ in a template by the part of that name, and writes the files into FOLDER (default:
the source tree). tests/cli/cli_generated.py compares them with the files in the tree.
"""

import json
import os
import re
import subprocess
import sys
import textwrap

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GENERATED = "Made by scripts/cli_docs.py: change src/cli/*_options.c or the template *.in instead."
FILES = ["docs/man/weir.1", "completions/weir.bash", "completions/_weir", "completions/weir.fish",
         "docs/reference/config.md", "docs/reference/weir.schema.json"]

ALGORITHMS = {
    "fixed-window": "a counter that restarts with each window",
    "sliding-window": "a ring of counters",
    "sliding-counter": "this window, and the last one by its overlap",
    "sliding-log": "the times of the last events; exact",
    "token-bucket": "refills at the rate, keeps a burst",
    "leaky-bucket": "leaks at the rate; with a delay, a queue",
    "pacer": "turns at a constant pace",
    "smooth-bursty": "the next caller pays",
    "smooth-warmup": "a slow start after a rest",
    "min-interval": "at least this long between events",
    "unlimited": "grants everything", "0/s": "refuses everything",
    "concurrency": "at most N calls at once",
    "system": "a gate for the whole process",
    "breaker": "stops calls that fail",
    "bbr": "sheds calls that would only queue, while the machine is overloaded",
    "vegas": "a limit that follows the queue",
    "gradient": "a limit that follows latency",
    "aimd": "a limit that rises until calls fail",
    "adaptive-rate": "a rate that follows latency and errors",
}


# ---- The table -----------------------------------------------------------------------------------


class Option:
    def __init__(self, name, value="", times="0", usual="", completes="", text="print the help"):
        self.name, self.value, self.times = name, value, int(times)
        self.usual, self.text = usual, text
        self.words = value.replace("|", " ") if "|" in value else completes  # possible values
        self.named = name.endswith("=")  # cost=N, an operand

    def whole_text(self):
        """The text as `weir COMMAND --help` prints it."""
        often = f"; may be given up to {self.times} times" if self.times > 1 else ""
        return self.text + often + (f" (default {self.usual})" if self.usual else "")

    def excludes(self):
        """The options that cannot be combined with this one."""
        return re.findall(r"--[\w-]+", "".join(re.findall(r"not with ([^;.]*)", self.text)))


class Command:
    def __init__(self, name, summary, usage):
        self.name, self.summary, self.usage = name, summary, usage
        self.about, self.statuses, self.examples = [], [], []
        self.operands, self.options = [], []
        self.parts = []  # last words of the names of commands within this one

    def last(self):
        return self.name.split(" ")[-1]

    def dashed(self):
        return [option for option in self.options if not option.named]

    def after(self, n):
        """What the argument after n others may be: words, <limit>, <file>."""
        words = []
        for name, completes, _ in self.operands[n:]:
            words += completes.split()
            if f"[{name}" not in self.usage:  # this one is not optional
                return words
        for option in self.options if n >= len(self.operands) else []:
            if option.named:
                words += [option.name] + [option.name + word for word in option.words.split()]
        return words


class Key:
    """A key of the configuration file."""

    def __init__(self, name, kind, words, least, most, times, live, expected, usual, text):
        self.name, self.kind, self.words = name, kind, words.split("|") if words else []
        self.least, self.most, self.times = int(least), int(most), int(times)
        self.live, self.expected, self.usual, self.text = live == "live", expected, usual, text


class Table:
    def __init__(self, weir):
        text = subprocess.run([weir, "help", "--format=table"], capture_output=True, text=True,
                              check=True).stdout
        self.commands, self.algorithms = [], []  # an algorithm: name, "amount" or "bare", options
        self.keys, self.topics = [], []
        for line in text.splitlines():
            what, *fields = line.replace("\\n", "\n").split("\t")
            if what == "command":
                self.commands.append(Command(*fields))
            elif what == "topic":
                self.topics.append(fields[0])
            elif what == "key":
                self.keys.append(Key(*fields))
            elif what == "algorithm":
                self.algorithms.append((fields[0], fields[1], fields[2:]))
            else:
                self.add(self.commands[-1], what, fields)
        for command in self.commands:
            command.options.append(Option("--help"))
            if command.name:
                self.find(" ".join(command.name.split(" ")[:-1])).parts.append(command.last())
        self.root = self.commands[0]
        self.root.options.append(Option("--version", text="print the version"))
        self.leaves = [command for command in self.commands if not command.parts]
        self.groups = [command for command in self.commands if command.parts]
        self.helped = [*self.root.parts, *self.topics, "topics"]   # what may follow `weir help`
        self.bare = [name for name, amount, _ in self.algorithms if amount == "bare"]

    @staticmethod
    def add(command, what, fields):
        if what == "option":
            command.options.append(Option(*fields))
        elif what == "operand":
            command.operands.append(fields)
        else:
            lists = {"about": command.about, "status": command.statuses,
                     "example": command.examples}
            lists[what].append(fields[0])

    def find(self, name):
        return next(command for command in self.commands if command.name == name)

    def part(self, command, word):
        return self.find(f"{command.name} {word}".strip())

    def by_options(self):
        """Groups the algorithms that have the same options."""
        groups = {}
        for name, _, options in self.algorithms:
            groups.setdefault(tuple(options), []).append(name)
        return [(names, list(options)) for options, names in groups.items()]


def short(text):
    """The beginning of a text, for one line of a menu."""
    first = re.split(r"[;.:] ", text)[0]
    return first if len(first) <= 72 else first.split(", ")[0]


def sentence(text):
    return text[0].upper() + text[1:] + "."


def wrapped(words, indent):
    return textwrap.fill(" ".join(words), 96, initial_indent=indent, subsequent_indent=indent,
                         break_on_hyphens=False, break_long_words=False)


# ---- The man page --------------------------------------------------------------------------------


def roff(text):
    for plain, escape in (("\\", "\\e"), ("'", "\\(aq"), ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(plain, escape)
    bold = re.sub(r"(?<![\w-])--[a-z0-9-]+", lambda name: f"\\fB{name[0]}\\fR", text)
    return bold.replace("-", "\\-")


def placeholder(text):
    """NAME='LIMIT' with its capitals in italics."""
    return re.sub(r"[A-Z][A-Z]+|\b[A-Z]\b", lambda word: f"\\fI{word[0]}\\fR", roff(text))


def prose(text):
    """One sentence a line, as is usual in roff."""
    lines = [line for each in re.split(r"(?<=\w[.]) (?=[A-Z])", text)
             for line in textwrap.wrap(each, 72, break_on_hyphens=False, break_long_words=False)]
    return "\n".join(("\\&" if line[0] in ".'" else "") + roff(line) for line in lines)


def literal(lines):
    return "\n".join([".Bd -literal -offset indent", *(roff(line) for line in lines), ".Ed"])


def man_list(items):
    lines = [f".It {name}\n{prose(sentence(text))}" for name, text in items]
    return "\n".join([".Bl -tag -width 4n", *lines, ".El"])


def man_paragraph(text):
    if text.startswith(" "):
        return literal(textwrap.dedent(text).split("\n"))
    return ".Pp\n" + prose(text)


def man_statuses(statuses):
    return man_list(status.split(" ", 1) for status in statuses)


def man_name(option):
    name = f"\\fB{option.name}\\fR" if option.named else roff(option.name) + " "
    return (name + placeholder(option.value)).rstrip()


def man_command(command):
    items = [(placeholder(name), text) for name, _, text in command.operands]
    items += [(man_name(option), option.whole_text()) for option in command.options]
    parts = [*(man_paragraph(text) for text in command.about), man_list(items)]
    if command.statuses:
        parts += [".Pp\nExit status:", man_statuses(command.statuses)]
    parts += [".Pp\nExamples:", literal(command.examples)]
    return f".Ss weir {command.name}\n" + "\n".join(parts).replace(".Pp\n", "", 1)


def man_usage(command):
    """The usage; lists the options one by one if they are few."""
    options = [option for option in command.dashed() if option.name != "--help"]
    each = " ".join(f"[{option.name} {option.value}".rstrip() + "]" for option in options)
    usage = command.usage.replace("[OPTION...]", each) if len(options) < 8 else command.usage
    words = "\n".join(textwrap.wrap(usage, 60, break_on_hyphens=False))
    return f".Nm\n.Cm {command.name}\n{placeholder(words)}".rstrip()


def man(table):
    commands = [man_list((f"Cm {command.name}", command.summary) for command in table.leaves)]
    commands += [man_command(command) for command in table.leaves]
    return {
        "synopsis": "\n".join(man_usage(command) for command in table.leaves),
        "commands": "\n".join(commands),
        "statuses": man_statuses(table.root.statuses),
    }


# ---- bash ----------------------------------------------------------------------------------------


def bash_case(pattern, words):
    """A case, on one line if it is short."""
    line = f"    {pattern}) echo '{' '.join(words)}' ;;" if words else f"    {pattern}) ;;"
    if len(line) <= 100:
        return line
    echo = wrapped(["echo", f"'{' '.join(words)}'"], " " * 8)
    return f"    {pattern})\n{echo}\n        ;;"


def bash_cases(pairs):
    return "\n".join(bash_case(pattern, words) for pattern, words in pairs)


def bash_values(table):
    return [(f"'{command.name} {option.name}'", option.words.split())
            for command in table.leaves for option in command.dashed() if option.value]


def bash_operands(command):
    most = len(command.operands)
    pairs = [(f"'{command.name} {n}'", command.after(n)) for n in range(most)]
    return pairs + [(f"'{command.name} '*", command.after(most))]


def bash(table):
    parts = [(f"'{c.name}'", c.parts) for c in table.groups]
    parts += [(f"'{f'help {c.name}'.strip()}'", c.parts if c.name else table.helped)
              for c in table.groups]
    options = [(f"'{c.name}'", [o.name for o in c.dashed()]) for c in table.commands]
    limit_options = [(" | ".join(names), words) for names, words in table.by_options()]
    return {
        "algorithms": wrapped([name for name, _, _ in table.algorithms], "    "),
        "bare": "|".join(table.bare),
        "limit_options": bash_cases(limit_options),
        "parts": bash_cases(parts),
        "options": bash_cases(options),
        "values": bash_cases(bash_values(table)),
        "operands": bash_cases(pair for c in table.leaves if c.operands and c.name != "help"
                               for pair in bash_operands(c)),
    }


# ---- zsh -----------------------------------------------------------------------------------------

ZSH_HELPERS = {"<file>": "_files", "<limit>": "_weir_limit", "<traffic>": "_weir_traffic",
               "<limit> <file>": "_weir_limit_or_file"}


def zsh_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_escaped(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh_words(words):
    return ZSH_HELPERS.get(words) or (f"({zsh_escaped(words)})" if words else " ")


def zsh_option(option):
    before = "*" if option.times > 1 else ""
    if option.excludes():
        before = f"({' '.join(option.excludes())})"
    value = f":{zsh_escaped(option.value)}:{zsh_words(option.words)}" if option.value else ""
    return zsh_quoted(f"{before}{option.name}[{zsh_escaped(short(option.text))}]{value}")


def zsh_arguments(command):
    specs = [zsh_option(option) for option in command.dashed()]
    for n, (name, _, _) in enumerate(command.operands):
        specs.append(f"'{n + 1}:{name.lower()}:{zsh_words(' '.join(command.after(n)))}'")
    more = command.after(len(command.operands))
    specs += [f"'*:more:{zsh_words(' '.join(more))}'"] if more else []
    return "_arguments \\\n" + " \\\n".join(f"    {spec}" for spec in specs)


def zsh_help(table):
    """The arguments of `weir help`: a command, and a command within it."""
    lines = ['case "$CURRENT $words[2]" in']
    lines += [f"'3 {c.name}') _values part {' '.join(c.parts)} ;;" for c in table.groups if c.name]
    lines += [f"'2 '*) _values command {' '.join(table.helped)} ;;", "esac"]
    return "\n".join(lines)


def zsh_menu(table, command, tag):
    """The commands within a command, and the arguments of the one that is typed."""
    parts = [table.part(command, word) for word in command.parts]
    lines = [f"local -a {tag}s=("]
    lines += [f"    {zsh_quoted(f'{part.last()}:{zsh_escaped(part.summary)}')}" for part in parts]
    lines += [")", "if ((CURRENT == 2)); then", f"    _describe -t {tag}s '{tag}' {tag}s",
              "    return", "fi", f"local {tag}=$words[2]", "shift words", "((CURRENT--))",
              f"case ${tag} in"]
    for part in parts:
        if part.parts:
            body = zsh_menu(table, part, "part")
        else:
            body = zsh_help(table) if part.name == "help" else zsh_arguments(part)
        lines += [f"{part.last()})", textwrap.indent(body, "    "), "    ;;"]
    return "\n".join([*lines, "esac"])


def zsh_limit_options(names, options):
    words = wrapped([f"options=({' '.join(options)})"], " " * 8)
    return f"    {' | '.join(names)})\n{words}\n        ;;"


def zsh(table):
    algorithms = [f"    '{name}:{ALGORITHMS[name]}'" for name, _, _ in table.algorithms]
    return {
        "algorithms": "\n".join(algorithms),
        "bare": "|".join(table.bare),
        "limit_options": "\n".join(zsh_limit_options(*group) for group in table.by_options()),
        "commands": zsh_menu(table, table.root, "command"),
    }


# ---- fish ----------------------------------------------------------------------------------------

FISH_HELPERS = {"<file>": "-F", "<limit>": "-a '(__weir_limit)'",
                "<traffic>": "-a '(__weir_traffic)'"}


def fish_line(condition, *rest, text=""):
    line = " ".join(["complete -c weir -n", f"'{condition}'", *rest])
    shown = sentence(short(text))[:-1].replace("'", "\\'") if text else ""
    return f"{line} -d '{shown}'" if shown else line


def fish_words(words):
    """The arguments of `complete` for a value or an operand."""
    return FISH_HELPERS.get(words) or f"-a '{words}'"


def fish_groups(words):
    """<limit> and <file> separately, plain words together."""
    plain = " ".join(word for word in words if word not in FISH_HELPERS)
    return [word for word in words if word in FISH_HELPERS] + ([plain] if plain else [])


def fish_option(command, option):
    how = ["-l", option.name[2:]]
    if option.value:
        how.append("-r" if option.words == "<file>" else "-x")
    if option.words:
        how.append(fish_words(option.words))
    condition = f"__weir_words {command.name}" if command.name else "__weir_after 0"
    return fish_line(condition, *how, text=option.text)


def fish_command(table, command):
    name, most = command.name, len(command.operands)
    lines = [fish_line(f"__weir_after 0 {name}".strip(), f"-a {part}",
                       text=table.part(command, part).summary) for part in command.parts]
    lines += [fish_option(command, option) for option in command.dashed()]
    for n in range(most):
        lines += [fish_line(f"__weir_after {n} {name}", fish_words(words))
                  for words in fish_groups(command.after(n))]
    if command.after(most):
        before = [f"__weir_words {name}"] + [f"not __weir_after {n} {name}" for n in range(most)]
        lines.append(fish_line("; and ".join(before), fish_words(" ".join(command.after(most)))))
    return lines


def fish_limit_options(names, options):
    words = wrapped(options, " " * 16).replace("\n", " \\\n")
    return f"        case {' '.join(names)}\n            printf '%s\\n' \\\n{words}"


def fish(table):
    valued = {option.name for c in table.leaves for option in c.dashed() if option.value}
    lines = [line for command in table.commands for line in fish_command(table, command)]
    lines += [fish_line(f"__weir_after 0 help {c.name}".strip(),
                        f"-a '{' '.join(c.parts if c.name else table.helped)}'")
              for c in table.groups]
    algorithms = [f"            \"$head\"{name}\\  '{ALGORITHMS[name]}'"
                  for name, _, _ in table.algorithms]
    return {
        "algorithms": " \\\n".join(algorithms),
        "bare": " ".join(table.bare),
        "limit_options": "\n".join(fish_limit_options(*group) for group in table.by_options()),
        "value_options": wrapped(sorted(valued), " " * 20).strip().replace("\n", " \\\n"),
        "commands": "\n".join(lines),
    }


# ---- The configuration file ----------------------------------------------------------------------

NUMBERS = {"count": "^[0-9]+(\\.[0-9]+)?[kM]?$", "bytes": "^[0-9]+(KiB|MiB|GiB|k|M|G)?$"}
TEXTS = {"duration": "^([0-9.]+[a-z]+)+$|^0$", "patience": "^([0-9.]+[a-z]+)+$|^0$|^forever$",
         "part": "^1(/[0-9]+)?$"}


def config_rows(keys):
    lines = ["| key | default | reload | |", "|---|---|---|---|"]
    for key in keys:
        cells = [f"`{key.name}`", key.usual, "live" if key.live else "restart", key.text]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def config(table):
    forms = [key for key in table.keys if key.kind == "form" or key.name == "store"
             or key.name.split(".")[0] in ("listen", "stores", "limits", "overrides", "lists",
                                           "rules")]
    return {"forms": config_rows(forms),
            "settings": config_rows(key for key in table.keys if key not in forms)}


def schema_value(key):
    """What one value of the key may be, for an editor; `weir check` knows the ranges exactly."""
    if key.kind == "yesno" or key.words == ["on", "off"]:
        return {"anyOf": [{"type": "boolean"}, {"enum": ["on", "off", "yes", "no"]}]}
    if key.words:
        return {"enum": key.words}
    if key.kind in NUMBERS:
        return {"anyOf": [{"type": "integer", "minimum": key.least, "maximum": key.most},
                          {"type": "string", "pattern": NUMBERS[key.kind]}]}
    if key.kind in TEXTS:
        return {"anyOf": [{"type": "string", "pattern": TEXTS[key.kind]}, {"enum": [0, 1]}]}
    return {"type": ["string", "integer"]}


def schema_of(key, value):
    if key.times > 1:
        value = {"anyOf": [value, {"type": "array", "items": value, "maxItems": key.times}]}
    about = sentence(key.text) + (f" Default: {key.usual}." if key.usual else "")
    return {"description": about, **value}


def schema_map(properties, required=()):
    shape = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**shape, "required": list(required)} if required else shape


def schema_named(table, name, field):
    """limits and stores: names, each with a text or a map."""
    fields = {key.name.split(".")[2]: schema_of(key, {"type": "string"}) for key in table.keys
              if key.name.startswith(name + ".NAME.")}
    item = {"anyOf": [{"type": "string"}, schema_map(fields, [field])]}
    return {"anyOf": [{"type": "object", "additionalProperties": item}, {"type": "null"}]}


def schema_by_limit(table, name, value):
    """overrides and lists: names of limits, each with a map of two parts."""
    parts = {key.name.split(".")[2]: schema_of(key, value) for key in table.keys
             if key.name.startswith(name + ".NAME.")}
    return {"type": ["object", "null"], "additionalProperties": schema_map(parts)}


def schema_rules(table):
    """A list of rules; a condition is a value or a list of values."""
    rows = {key.name.removeprefix("rules."): key for key in table.keys
            if key.name.startswith("rules.")}
    text = {"type": ["string", "integer"]}
    value = {"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]}
    match = schema_map({name: value for name in ("path", "path-prefix", "path-glob", "method",
                                                 "host", "ip")})
    match["patternProperties"] = {"^(header|attr)\\..": value}
    fields = {name.split(".")[1]: schema_of(key, {"type": ["string", "integer"]})
              for name, key in rows.items() if name.startswith("apply.")}
    one = schema_map(fields, ["limit", "key"])
    return {"type": ["array", "null"], "items": schema_map({
        "name": schema_of(rows["name"], {"type": "string"}),
        "match": schema_of(rows["match"], match),
        "apply": schema_of(rows["apply"], {"anyOf": [one, {"type": "array", "items": one}]}),
        "missing": schema_of(rows["missing"], schema_value(rows["missing"])),
        "final": schema_of(rows["final"], {"type": "boolean"})})}


def schema(table):
    keys = {key.name: key for key in table.keys}
    address = schema_map({name.split(".")[1]: schema_of(key, {"type": ["string", "integer"]})
                          for name, key in keys.items() if name.startswith("listen.")}, ["address"])
    entry = {"type": ["string", "integer"]}
    shapes = {"include": {"type": "string"}, "listen": {"anyOf": [{"type": "string"}, address]},
              "stores": schema_named(table, "stores", "url"),
              "limits": schema_named(table, "limits", "limit"),
              "overrides": schema_by_limit(table, "overrides", {
                  "type": ["object", "null"], "additionalProperties": {"type": "string"}}),
              "lists": schema_by_limit(table, "lists", {"anyOf": [
                  entry, {"type": "array", "items": entry}, {"type": "null"}]}),
              "rules": schema_rules(table)}
    properties, sections = {}, {}
    for name, key in keys.items():
        if name in shapes:
            properties[name] = schema_of(key, shapes[name])
        elif "." not in name:
            properties[name] = schema_of(key, schema_value(key))
        elif name.split(".")[0] not in shapes:
            section, field = name.split(".")
            sections.setdefault(section, {})[field] = schema_of(key, schema_value(key))
    for section, fields in sections.items():
        properties[section] = schema_map(fields)
    whole = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "weir.yaml",
             "$comment": GENERATED, **schema_map(properties)}
    return {"schema": json.dumps(whole, indent=2)}


# ---- All of it -----------------------------------------------------------------------------------


def fill(template, parts):
    template = template.replace("@generated@", GENERATED)
    return re.sub(r"@(\w+)@", lambda name: parts.get(name[1], name[0]), template)


def make(weir):
    """The text of each of FILES."""
    table = Table(weir)
    made = {}
    for path, parts in zip(FILES, (man(table), bash(table), zsh(table), fish(table), config(table),
                                   schema(table)), strict=True):
        with open(os.path.join(SOURCE, path + ".in"), encoding="utf-8") as file:
            made[path] = fill(file.read(), parts)
    return made


def main(weir, folder=SOURCE):
    for path, text in make(weir).items():
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), *sys.argv[2:])
