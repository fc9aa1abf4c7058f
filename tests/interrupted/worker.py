"""Works on the task of a session, of which it knows only the name: `python worker.py NAME`.

It learns the rest from the task's record, and from the file that the record says to read. Before each call
of the command line it prints what it is about to do, so that another process can kill it there. It keeps
nothing: the process that comes after it begins in the same way.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn


def main(session: str) -> None:
    """Work until every step is done."""
    record = _call("resume", "", "task", "resume", session, "--json")["record"]
    steps = _read_again(session, record)
    _wait_for_what_runs(session)
    taken = {each["label"] for each in _call("snapshots", "", "snapshots", "--json")}
    while True:
        record = _call("show", "", "task", "show", session, "--json")
        ended = [number for number, step in _steps(record) if step.get("status") == "done"]
        due = next((number for number in reversed(ended) if steps[number]["checkpoint"]), None)
        if due is not None and f"{session}-after-{due}" not in taken:
            _checkpoint(session, due)
            taken.add(f"{session}-after-{due}")
        if len(ended) == len(steps):
            return
        number = next(number for number in steps if number not in ended)
        _work_on(session, number, steps[number], record)


def _work_on(session: str, number: str, step: dict[str, Any], record: dict[str, Any]) -> None:
    _call("exec", number, "exec", session, step["run"], "--key", f"step {number}", "--busy-wait", "60")
    if step["decision"] and step["decision"] not in [each["text"] for each in record.get("decisions", ())]:
        _call("decide", number, "task", "decide", session, step["decision"], "--why", "the plan says so")
    if step["artifact"]:
        _call("artifact", number, "task", "artifact", session, *step["artifact"])
    _call("done", number, "task", "done", session, number, "--json")


def _checkpoint(session: str, number: str) -> None:
    """Take a checkpoint, unless one that a killed worker has begun is taken after all."""
    label = f"{session}-after-{number}"
    sys.stdout.write(f"{json.dumps(['checkpoint', number])}\n")
    sys.stdout.flush()
    done = _run("checkpoint", session, "--label", label, "--resume-at", f"after {number}")
    if done.returncode != 0 and "the label is taken" not in done.stderr:
        raise SystemExit(f"checkpoint {label}: {done.stdout}{done.stderr}")


def _read_again(session: str, record: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "read"
        _call("read", "", "cp", f"{session}:{record['files'][0]['path']}", str(copied))
        return dict(json.loads(copied.read_text()))


def _wait_for_what_runs(session: str) -> None:
    """Wait for the remains of a killed worker: a verification, which has no key to join it by."""
    _run("wait", session)


def _steps(record: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{major}.{minor}", step)
        for major, phase in enumerate(record["phases"], start=1)
        for minor, step in enumerate(phase["steps"], start=1)
    ]


def _call(verb: str, number: str, *arguments: str) -> Any:
    sys.stdout.write(f"{json.dumps([verb, number])}\n")
    sys.stdout.flush()
    done = _run(*arguments)
    if done.returncode != 0:
        _give_up(f"{arguments}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def _give_up(why: str) -> NoReturn:
    raise SystemExit(why)


if __name__ == "__main__":
    main(sys.argv[1])
