"""Makes the corpus of failures of tools of other languages: runs them on this host, keeps what they print.

    .venv/bin/python -m bench.tool_failures FOLDER NODE_MODULES [PART]

writes the part (`tools`, `fresh`; by default both) in `tests/runtime/task/tool_failures.json`. FOLDER is
made. NODE_MODULES has jest, vitest, mocha, ava, typescript, eslint 9 and prettier; black, isort, pylint,
pyright, pytest, go, cargo, javac, mvn (with surefire and JUnit in its local repository) and shellcheck are
those of PATH. A tool runs on a terminal, as it does in a session. `bench.failure_table` makes the page of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect

from bench.failure_commands import commands
from bench.tool_failure_commands import FRESH, SETUP, TOOLS

CORPUS = Path(__file__).parent.parent / "tests" / "runtime" / "task" / "tool_failures.json"
PARTS = {"tools": TOOLS, "fresh": FRESH}
KEPT = 5000
"""Characters of output in the corpus, the last ones."""
LONGEST = 240
"""Seconds that a command may take."""


def main(folder: str, modules: str, *parts: str) -> None:
    """Make the files, run the commands, write the corpus."""
    place = Path(folder)
    place.mkdir(parents=True)
    subprocess.run(["bash", "-c", SETUP], cwd=place, env=_environment(modules), check=True)
    kept = json.loads(CORPUS.read_text()) if CORPUS.exists() else []
    for part in parts or PARTS:
        kept = [each for each in kept if each["part"] != part]
        kept += [
            each for kind, text in commands(PARTS[part]) if (each := _run(place, modules, kind, text, part))
        ]
    CORPUS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _environment(modules: str) -> dict[str, str]:
    return {**os.environ, "NODE_MODULES": modules, "TERM": "xterm-256color", "CI": "", "LANG": "C.UTF-8"}


def _run(place: Path, modules: str, kind: str, command: str, part: str) -> dict[str, Any] | None:
    kind, _, quote = kind.partition(": ")
    child = pexpect.spawn(
        "bash",
        ["-c", command],
        cwd=str(place),
        env=_environment(modules),
        dimensions=(40, 120),
        timeout=LONGEST,
        encoding="utf-8",
        codec_errors="replace",
    )
    output = child.read()
    child.close()
    code = child.exitstatus if child.exitstatus is not None else 128 + (child.signalstatus or 0)
    print(f"{code:>5} {kind:24} {command[:80]!r}", flush=True)
    if not code:
        print("      it did not fail, and is left out", flush=True)
        return None
    shown = output.replace(str(place), "/w").replace(modules, "/w/node_modules").replace("\r\n", "\n")
    shown = re.sub(r"(https?://)(?!127\.0\.0\.1)[\w.:@-]+", r"\1packages.example", shown)
    shown = re.sub(r"/(?:root|home/\w+)/[\w./-]*?(?=/[\w.-]+)", "/home/a", shown)
    return {
        "kind": kind,
        "quote": quote,
        "part": part,
        "command": command,
        "exit_code": code,
        "output": shown[-KEPT:],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
