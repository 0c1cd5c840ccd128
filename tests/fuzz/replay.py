#!/usr/bin/env python3
"""Runs a corpus through a replayer: `replay.py REPLAYER FOLDER`.

The shell's own globbing would hide an empty folder, and an argument list has a limit.
"""

import os
import subprocess
import sys


def main(replayer, folder):
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    passed = 0
    for start in range(0, len(files), 500):
        batch = files[start:start + 500]
        if subprocess.run([replayer, *batch], stdout=subprocess.DEVNULL, check=False).returncode:
            for file in batch:
                if (subprocess.run([replayer, file], stdout=subprocess.DEVNULL,
                                   check=False).returncode):
                    print(f"{file} fails")
                else:
                    passed += 1
        else:
            passed += len(batch)
    failed = len(files) - passed
    print(f"corpus of {os.path.basename(folder)}: {passed} passed, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
