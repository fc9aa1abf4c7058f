"""A receiver that misbehaves, as a program in place of ssh: the first argument says how.

It answers each request as an agreeable receiver would, until the request that the second argument names.
Then it does what the first says. Further pairs of arguments are for further requests.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

SESSION = "0123456789ab"
GOOD: dict[str, dict[str, Any]] = {
    "prepare": {},
    "layers": {},
    "has": {"has": False},
    "import": {"snapshot": SESSION, "kept": False},
    "start": {"session": SESSION, "name": "work", "deviations": [], "hooks": []},
    "find": {"state": "absent"},
}


def say(text: bytes) -> None:
    """Send bytes."""
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def misbehave(how: str) -> None:
    """Misbehave as asked; most kinds never end on their own."""
    if how == "silent":  # it reads nothing more, either
        time.sleep(3600)
    elif how == "drips":
        while True:
            say(b" ")
            time.sleep(0.02)
    elif how == "endless":
        while True:
            say(b"x" * 65536)
    elif how == "half-closed":
        os.close(1)
        time.sleep(3600)
    elif how == "gone":
        sys.exit(0)
    else:
        say(how.encode() + b"\n")


def main() -> None:
    """Serve one source."""
    bad = dict(zip(sys.argv[2::2], sys.argv[1::2], strict=True))
    say(b'holdfast-receive {"protocol": 1, "version": "1"}\n')
    source = sys.stdin.buffer
    while text := source.readline():
        asked = json.loads(text)
        if asked["do"] in bad:
            misbehave(bad[asked["do"]])
        source.read(asked.get("bytes", 0))
        if asked["do"] != "put" and asked["do"] not in bad:
            there = {"there": len(asked.get("diff_ids", ()))}  # so that nothing of an image has to be sent
            say(json.dumps({"ok": True, **there, **GOOD[asked["do"]]}).encode() + b"\n")


if __name__ == "__main__":
    main()
