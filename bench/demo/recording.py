"""`python -m bench.demo.recording`: run the demonstration in a terminal, and draw it for the README."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect

from bench.demo import cast_picture

PICTURE = Path(__file__).parents[2] / "docs" / "demo.svg"
ROWS, COLUMNS = 30, 96
_SECONDS = 900


def main() -> int:
    lines = list(recorded([sys.executable, "-m", "bench.demo"]))
    PICTURE.write_text(
        cast_picture.svg(lines, "A test run is captured in its middle, killed, restored and forked")
    )
    print(f"{PICTURE}: {PICTURE.stat().st_size >> 10} KiB")
    return 0


def recorded(argv: list[str]) -> Iterator[str]:
    """Run a program in a terminal, and yield its recording as lines of asciicast v2.

    Raises:
        RuntimeError: the program failed.
    """
    yield json.dumps({"version": 2, "width": COLUMNS, "height": ROWS})
    began = time.monotonic()
    program = pexpect.spawn(argv[0], argv[1:], dimensions=(ROWS, COLUMNS), encoding="utf-8", timeout=_SECONDS)
    while True:
        try:
            text = program.read_nonblocking(1 << 16)
        except pexpect.EOF:
            break
        yield json.dumps([round(time.monotonic() - began, 3), "o", text])
    program.close()
    if program.exitstatus != 0:
        raise RuntimeError(f"cannot record the demonstration: it ended with {program.exitstatus}")


if __name__ == "__main__":
    sys.exit(main())
