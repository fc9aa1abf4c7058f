"""The command line ends its process without teardown, and loses nothing by that."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from holdfast.runtime.cli import main

class Loaded:
    def __del__(self):
        print("taken apart")

def run():
    import atexit, threading
    global loaded
    loaded = Loaded()
    begun = threading.Event()
    atexit.register(print, "function")
    threading.Thread(target=lambda: (begun.wait(), print("thread"))).start()
    print("output")
    begun.set()
    {end}

main.run = run
main.main()
"""


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [("return 7", 7, "function"), ("raise SystemExit(143)", 143, "taken apart"), ("1 / 0", 1, "taken apart")],
)
def test_threads_and_functions_come_before_the_end(end: str, code: int, last: str) -> None:
    """An exception is left to Python, which reports it, and tears everything down."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)], capture_output=True, text=True, check=False
    )

    lines = done.stdout.split("\n")[:-1]
    assert lines[:3] == ["output", "thread", "function"]
    assert lines[-1] == last
    assert done.returncode == code
    assert ("ZeroDivisionError" in done.stderr) == (code == 1)


def test_functions_registered_before_also_run() -> None:
    """Those of a tool that measures the process, for example."""
    program = "import atexit; atexit.register(print, 'measured')" + PROGRAM.format(end="return 0")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "measured" in done.stdout
