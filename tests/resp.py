"""RESP 2 and 3 as the tests in Python speak it: commands as bytes, and replies as Python values.

Simple strings are str, errors Error, bulk strings bytes, maps dict, sets and arrays list.
"""


class Error(str):
    """A reply that begins with '-'."""


def encode(*words):
    """The bytes of a command."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
    return b"".join(parts)


def read_reply(line, take):
    """Reads one reply: line() returns the next line without its end, take(n) the next n bytes."""
    text = line()
    kind, rest = text[:1], text[1:]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        return Error(rest.decode("utf-8", "replace"))
    if kind in (b":", b"("):
        return int(rest)
    if kind in (b"$", b"="):
        n = int(rest)
        return None if n < 0 else take(n + 2)[:-2]
    if kind in (b"*", b"~", b">"):
        n = int(rest)
        return None if n < 0 else [read_reply(line, take) for _ in range(n)]
    if kind == b"%":
        return {read_reply(line, take): read_reply(line, take) for _ in range(int(rest))}
    if kind == b"_":
        return None
    if kind == b"#":
        return rest == b"t"
    if kind == b",":
        return float(rest)
    raise OSError(f"not a reply: {text!r}")


def read_reply_from(file):
    """Reads one reply from a file of bytes, such as socket.makefile makes."""
    def line():
        text = file.readline()
        if not text.endswith(b"\r\n"):
            raise OSError(f"the connection ended: {text!r}")
        return text[:-2]
    return read_reply(line, file.read)
