"""Makes the corpus of failures: runs commands that fail in a session and keeps what is known of each.

    .venv/bin/python -m bench.failure_corpus

writes `tests/runtime/task/failure_corpus.json`. Each command runs in the shell as anyone's would; nothing is
edited but for the length of outputs and the hosts of addresses. `bench.failure_table` makes the page of it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.failure_commands import FIRST, HELD, LATER, SETUP, commands
from holdfast import ExecResult, Holdfast, Session
from holdfast.runtime.api.step_verification import fatal_events

CORPUS = Path(__file__).parent.parent / "tests" / "runtime" / "task" / "failure_corpus.json"
KEPT = 8000
"""Characters of output in the corpus."""
LONGEST = 60
"""Seconds that a command may take."""


def main() -> None:
    """Make a session, run everything, write the corpus."""
    with Holdfast() as holdfast, holdfast.new(remove=True, memory="1g") as session:
        session.exec(SETUP, timeout=1500)
        session.exec("cd /w")
        found = [_run(session, kind, text, "first") for kind, text in commands(FIRST)]
        found += [_run(session, kind, text, "later") for kind, text in commands(LATER)]
        found += [_run(session, kind, text, "held") for kind, text in commands(HELD)]
    kept = [each for each in found if each is not None]
    CORPUS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _without_hosts(text: str) -> str:
    """Replace the hosts that packages come from, which differ from machine to machine."""
    return re.sub(r"(https?://)(?!127\.0\.0\.1|no\.such)[\w.:@-]+", r"\1packages.example", text)


def _run(session: Session, kind: str, command: str, part: str) -> dict[str, Any] | None:
    after = max((event.seq for event in session.events()), default=0)
    result: ExecResult = session.exec(command, timeout=LONGEST)
    events = sorted(fatal_events(session.events, after, result.exit_code))
    if result.waiting is not None:
        session.interrupt()
    print(f"{result.exit_code!s:>5} {kind:24} {command[:80]!r}", flush=True)
    if result.exit_code == 0:
        print("      it did not fail, and is left out", flush=True)
        return None
    return {
        "kind": kind,
        "part": part,
        "command": command,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "timed_out": result.timed_out,
        "waiting": result.waiting.detail if result.waiting else "",
        "events": events,
        "output": _without_hosts(result.text)[-KEPT:],
    }


if __name__ == "__main__":
    main()
