#!/usr/bin/env python3
"""What `meson install` leaves on a machine can be used: `install.py BUILD_DIR`.

The build is installed below a temporary directory. Programs are then built against that and nothing
else: by pkg-config, with the shared library and with the static one, in C and in C++.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

FAILED = []
PASSED = 0

PROGRAM = """\
#include <stdio.h>
#include <string.h>
#include <weir.h>

int main(void)
{
    struct weir *w;
    struct weir_policy *per_client;
    struct weir_diag why;
    struct weir_verdict v;

    if (weir_open(&w, NULL, &why) != 0 ||
        weir_policy_set(w, "clients", "token-bucket 1/m burst=2", &per_client, &why) != 0) {
        fprintf(stderr, "%s\\n", why.text);
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        const struct weir_request rq = weir_request_of(per_client, "alice", strlen("alice"));

        if (weir_take(w, &rq, &v) != 0)
            return 1;
        puts(v.allowed ? "granted" : "refused");
    }
    weir_close(w);
    return 0;
}
"""
PRINTED = "granted\ngranted\nrefused\n"
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
# (compiler, language, standards)
COMPILERS = [("gcc", "c", ("c11", "c17")), ("clang", "c", ("c11", "c17")),
             ("g++", "c++", ("c++11", "c++17", "c++20")),
             ("clang++", "c++", ("c++11", "c++17", "c++20"))]


def check(sentence, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
    else:
        FAILED.append(sentence)
        print(f"FAILED: {sentence}\n  {detail}")
    return good


def run(*command, **environment):
    """Status, and what was printed."""
    done = subprocess.run(command, env=dict(os.environ, **environment), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


class Place:
    """The installed tree, as pkg-config tells of it."""

    def __init__(self, root):
        self.root = root
        found = [folder for folder, _, names in os.walk(root) if "weir.pc" in names]
        self.environment = {
            "PKG_CONFIG_LIBDIR": found[0] if found else "/nonexistent",
            "PKG_CONFIG_PATH": "",
            "PKG_CONFIG_SYSROOT_DIR": root,
            # A prefix of /usr is a system's own, whose flags would be left out; here it is not.
            "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
            "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
        }

    def pkg_config(self, *args):
        status, text = run("pkg-config", *args, "weir", **self.environment)
        return text.split() if status == 0 else ["pkg-config failed:", text]

    def variable(self, name):
        text = "".join(self.pkg_config(f"--variable={name}"))
        return text if text.startswith(self.root) else self.root + text


def dynamic(path, tag):
    """The values of a tag in a file's dynamic section: NEEDED, SONAME."""
    return re.findall(rf"\({tag}\).*\[(.*)\]", run("readelf", "-dW", path)[1])


def programs(place, folder):
    source, out = os.path.join(folder, "program.c"), os.path.join(folder, "program")
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    shared = place.pkg_config("--cflags", "--libs")
    static = place.pkg_config("--static", "--cflags", "--libs")
    rows = [
        ("the shared library", ["cc", source, *shared], True),
        ("the shared library, from C++", ["c++", "-x", "c++", source, "-x", "none", *shared], True),
        ("the static library", ["cc", "-Wl,-Bstatic", source, *static, "-Wl,-Bdynamic"], False),
        ("static libraries alone", ["cc", source, *static, "-static"], False),
    ]
    for what, command, is_shared in rows:
        status, text = run(*command, *STRICT, "-o", out)
        if (not check(f"a program is built with {what}", status == 0,
                      f"{' '.join(command)}\n{text}")):
            continue
        status, text = run(out, LD_LIBRARY_PATH=place.variable("libdir") if is_shared else "")
        check(f"a program runs with {what}", (status, text) == (0, PRINTED),
              f"status {status}: {text}")
        needed = dynamic(out, "NEEDED")
        check(f"a program needs what it should with {what}",
              ("libweir.so.0" in needed) == is_shared, needed)


def declared(place):
    """The functions that the installed header declares."""
    with open(os.path.join(place.variable("includedir"), "weir.h"), encoding="utf-8") as file:
        text = file.read()
    return set(re.findall(r"^WEIR_API\s[^;]*?(\w+)\(", text, re.MULTILINE)), text


def libraries(place):
    functions, header = declared(place)
    version = re.search(r'WEIR_VERSION "([^"]+)"', header)[1]
    check("header and pkg-config agree on the version",
          place.pkg_config("--modversion") == [version], version)
    libdir = place.variable("libdir")
    shared, static = os.path.join(libdir, "libweir.so"), os.path.join(libdir, "libweir.a")
    check("the shared library has a version",
          os.path.basename(os.path.realpath(shared)) == f"libweir.so.{version}",
          os.path.realpath(shared))
    check("its name for the loader has the number of the interface",
          dynamic(shared, "SONAME") == ["libweir.so.0"], dynamic(shared, "SONAME"))
    check("which leads to it", os.path.realpath(shared) == os.path.realpath(shared + ".0"),
          os.listdir(libdir))
    needed = dynamic(shared, "NEEDED")
    check("it needs the C library, threads and hiredis alone",
          all(re.match(r"(libc|libpthread|libhiredis(_ssl)?|libssl|libcrypto|ld-linux)[-.]", name)
              for name in needed),
          needed)
    exported = {line.split()[-1]
                for line in run("nm", "-D", "--defined-only", shared)[1].splitlines()}
    check("it exports what the header declares, all of it", functions <= exported,
          functions - exported)
    check("and nothing else", functions and exported <= functions, exported - functions)
    with open(static, "rb") as file:
        check("the static library holds its objects itself", file.read(8) == b"!<arch>\n", static)


def header_stands_alone(place, folder):
    """In every language and standard; included twice; and before any other header."""
    flags = place.pkg_config("--cflags")
    for compiler, language, standards in COMPILERS:
        if not shutil.which(compiler):
            continue
        for standard in standards:
            path = os.path.join(folder, f"header.{'c' if language == 'c' else 'cc'}")
            with open(path, "w", encoding="utf-8") as file:
                file.write("#include <weir.h>\n#include <weir.h>\nint one = WEIR_LIMITED;\n")
            status, text = run(compiler, f"-std={standard}", *STRICT, *flags, "-c", path, "-o",
                               path + ".o")
            check(f"{compiler} takes the header as {standard}", status == 0, text)


def other_files(place):
    prefix = place.variable("prefix")
    version = "".join(place.pkg_config("--modversion"))
    status, text = run(os.path.join(prefix, "bin", "weir"), "version")
    check("the command says the same version", status == 0 and text.startswith(f"weir {version}"),
          text)
    for what, path in [("the man page", "share/man/man1/weir.1"),
                       ("the example of a configuration file", "share/doc/weir/weir.yaml"),
                       ("the schema of a configuration file", "share/doc/weir/weir.schema.json"),
                       ("bash's completion", "share/bash-completion/completions/weir"),
                       ("zsh's completion", "share/zsh/site-functions/_weir"),
                       ("fish's completion", "share/fish/vendor_completions.d/weir.fish")]:
        full = os.path.join(prefix, path)
        check(f"{what} is where it is looked for",
              os.path.isfile(full) and os.path.getsize(full) > 0, full)
    with open(os.path.join(prefix, "share/man/man1/weir.1"), encoding="utf-8") as file:
        check("the man page is one", ".Dt WEIR 1" in file.read(500))
    strays = [name for folder, _, names in os.walk(place.root) for name in names
              if re.match(r"libweir-|example|test|prop", name)]
    check("nothing else is installed", not strays, strays)


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "root")
        status, text = run("meson", "install", "-C", build, "--destdir", root, "--no-rebuild",
                           "--quiet")
        place = Place(root)
        if check("meson installs", status == 0, text) and check(
                "pkg-config finds weir",
            run("pkg-config", "--exists", "weir", **place.environment)[0] == 0,
                place.environment):
            programs(place, folder)
            libraries(place)
            header_stands_alone(place, folder)
            other_files(place)
    print(f"install: {PASSED} passed, {len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
