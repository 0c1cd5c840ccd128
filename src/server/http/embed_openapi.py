#!/usr/bin/env python3
"""Embeds the description of the routes in the daemon: `embed_openapi.py openapi.json OUT.c`.

The file is laid out for those who read it here; what is sent has no blanks between its words.
"""

import json
import sys

LINE = 80


def quoted(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as file:
        packed = json.dumps(json.load(file), separators=(",", ":")) + "\n"
    lines = [packed[i:i + LINE] for i in range(0, len(packed), LINE)]
    body = "\n".join('    "%s"' % quoted(line).replace("\n", "\\n") for line in lines)
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.write("/* Made by embed_openapi.py from openapi.json. */\n"
                  '#include "server/http/http_front.h"\n\n'
                  f"const char HTTP_OPENAPI[] =\n{body};\n"
                  "const size_t HTTP_OPENAPI_LEN = sizeof HTTP_OPENAPI - 1;\n")
