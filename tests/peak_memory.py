"""How much memory a command takes at its most."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# A new process begins with the peak of the one that started it (getrusage(2)): a small one does.
_START = """
import json, os, subprocess, sys
with open(sys.argv[1], "wb") as out:
    child = subprocess.Popen(sys.argv[2:], stdout=out)
    _, status, used = os.wait4(child.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_maxrss]))
"""


def run(command: Sequence[str], environment: Mapping[str, str], output: Path) -> tuple[int, int]:
    """Run a command with its output in a file; its exit code, and its peak in kilobytes."""
    told = subprocess.run(
        [sys.executable, "-c", _START, str(output), *command],
        env=dict(environment),
        stdout=subprocess.PIPE,
        check=True,
    )
    code, kilobytes = json.loads(told.stdout)
    return int(code), int(kilobytes)
