"""Runs in a terminal: writes cases to it one by one, and records what the terminal sends back for each.

A script of its own. It is given a file with a JSON list of cases in base64, and writes one with the answers
in the same form. After each case it asks two questions of its own: data before their answers is the case's.
The last cases can be questions of the test itself.
"""

from __future__ import annotations

import base64
import json
import os
import re
import select
import sys
import termios
import tty
from pathlib import Path

# Ends anything begun (a string, VT52 mode, other modes), then asks for the state and the version.
FENCE = b"\x18\x1b\\\x1b<\x1b[?2026l\x1bc\x1b[5n\x1b[>c"
# No case makes a terminal answer just this pair.
ANSWER = re.compile(rb"\x1b\[0n\x1b\[>[0-9;]*c\Z")
PATIENCE = 30.0


def ask(data: bytes) -> bytes:
    """Return the terminal's answer to this data."""
    os.write(1, b"\x1b[H")
    view = memoryview(data + FENCE)
    while view:
        view = view[os.write(1, view) :]
    heard = b""
    while not (found := ANSWER.search(heard)):
        if not select.select([0], [], [], PATIENCE)[0]:
            return heard + b" and then nothing"
        heard += os.read(0, 65536)
    return heard[: found.start()]


def main() -> None:
    """Try all cases."""
    cases, answers = Path(sys.argv[1]), Path(sys.argv[2])
    tty.setraw(0, termios.TCSANOW)  # already received data counts
    found = [ask(base64.b64decode(case)) for case in json.loads(cases.read_text())]
    done = answers.with_suffix(".new")
    done.write_text(json.dumps([base64.b64encode(each).decode() for each in found]))
    done.rename(answers)


main()
