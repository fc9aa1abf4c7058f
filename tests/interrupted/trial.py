"""One job in one session: its beginning, the killed workers, and its result.

It starts and kills processes, and judges nothing.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.interrupted import job_plan, worker
from tests.interrupted.interruptions import Call, Interruption, Schedule

if TYPE_CHECKING:
    from holdfast.runtime.api.controller import Holdfast
    from holdfast.runtime.api.session import Session

GUEST = Path(__file__).parents[1] / "inside" / "refactoring.py"
CHANGING = ("exec", "decide", "artifact", "done", "checkpoint")
"""Calls of the worker that change something."""
PATIENCE = 900.0
"""Seconds that a worker may take before the trial gives it up."""


@dataclass
class Played:
    """The course of the job: the calls of all workers, seconds of each, and the number of workers."""

    calls: list[Call] = field(default_factory=list)
    took: dict[Call, float] = field(default_factory=dict)
    workers: int = 0


def begin(hf: Holdfast, name: str, phases: job_plan.Phases, *, project: str, checkpoints: str) -> Session:
    """Start a session with the job and its task; nothing of it is done."""
    session = hf.new(name)
    steps = job_plan.planned(phases, checkpoints=checkpoints)
    session.files.write(job_plan.PROGRAM, GUEST.read_bytes())
    session.files.write(job_plan.STEPS, json.dumps({step.number: step.as_dict() for step in steps}))
    session.files.write("/workspace/project", project)
    session.files.write("/workspace/requirement", job_plan.REQUIREMENT)
    session.task.set(goal=f"Refactor {project}, with its database", resume_at="step 1.1")
    session.task.plan(job_plan.as_text(phases))
    session.task.read_again(job_plan.STEPS, "what each step runs")
    session.task.checkpoint(f"{name}-begun")
    return session


def play(
    hf: Holdfast, name: str, order: Sequence[Call] = (), interruptions: Sequence[Interruption] = ()
) -> Played:
    """Let workers finish the task; each interruption ends one, and the next begins with the name alone.

    Args:
        hf: the controller of the session.
        name: the session's.
        order: the calls of an uninterrupted worker that change something.
        interruptions: in the order of their calls. An interruption whose call has passed comes at the next.

    Raises:
        AssertionError: a worker gave up, or an interruption found none to end.
    """
    played, schedule = Played(), Schedule(order, interruptions)
    groups: list[int] = []
    try:
        while not _one_worker(hf, name, schedule, played, groups):
            pass
        assert schedule.left == [], f"the job was done before {schedule.left}"
    finally:
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
    return played


def outcome(session: Session) -> dict[str, Any]:
    """Return all that interruptions must not change: files, database, memory of programs, and the record."""
    said = session.exec(f"python3 {job_plan.PROGRAM} state", timeout=120)
    assert said.ok, said.text
    record = session.task.record()
    assert record is not None
    return {
        **json.loads(said.text),
        "shell": session.exec("echo $did").text.split(),
        "steps": [(number, step.title, step.status) for number, step in record.steps()],
        "verified": [number for number, step in record.steps() if step.evidence],
        "decisions": [(each.text, each.why) for each in record.decisions],
        "artifacts": [(each.name, each.path, each.digest) for each in record.artifacts],
        "state": record.state,
    }


def wrong_effects(found: Mapping[str, Any], numbers: Sequence[str]) -> int:
    """Return how many effects of these steps an outcome has twice, or lacks."""
    expected = {
        "ledger": [f"{number} {what}" for number in numbers for what in ("begins", "ends")],
        "commits": [f"step {number}" for number in numbers],
        "shell": list(numbers),
        "verified": list(numbers),
    }
    counted = {name: (Counter(found[name]), Counter(wanted)) for name, wanted in expected.items()}
    missing = sum(((wanted - has).total() for has, wanted in counted.values()), 0)
    return missing + sum((has - wanted).total() for has, wanted in counted.values())


def starts(session: Session) -> Counter[str]:
    """Return how often the work of each step was started, in the present and in all that was undone."""
    began = session.journal(kinds=["command_started"], all_timelines=True)
    keys = [str(entry.details.get("key") or "") for entry in began]
    return Counter(key.removeprefix("step ") for key in keys if key.startswith("step "))


def _one_worker(hf: Holdfast, name: str, schedule: Schedule, played: Played, groups: list[int]) -> bool:
    """Let one worker run until it ends, or until the next interruption; return whether the job is done."""
    played.workers += 1
    with tempfile.TemporaryFile("w+") as complaints:
        started = subprocess.Popen(
            [sys.executable, worker.__file__, name],
            env={**os.environ, "HOLDFAST_HOME": str(hf.home.root)},
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            start_new_session=True,
        )
        groups.append(started.pid)
        assert started.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read_all, args=(started.stdout, lines), daemon=True)
        reader.start()
        try:
            if _until_interrupted(hf, name, schedule, played, lines, started):
                return False
            code = started.wait()
            complaints.seek(0)
            assert code == 0, complaints.read()
            return True
        finally:
            started.kill()
            started.wait()
            reader.join()
            started.stdout.close()


def _until_interrupted(
    hf: Holdfast,
    name: str,
    schedule: Schedule,
    played: Played,
    lines: queue.Queue[str],
    started: subprocess.Popen[str],
) -> bool:
    """Follow a worker; return true if it was killed, false at its end."""
    before: tuple[Call, float] | None = None
    while line := lines.get(timeout=PATIENCE):
        verb, number = json.loads(line)
        call, now = (verb, number), time.monotonic()
        if before is not None:
            played.took.setdefault(before[0], now - before[1])
        before = (call, now)
        played.calls.append(call)
        if (due := schedule.due(call)) is not None:
            with suppress(queue.Empty):  # the drawn moment, or the end of the call if that is earlier
                lines.get(timeout=due.after)
            _kill(hf, name, due.kind, started)
            return True
    return False


def _read_all(stream: IO[str], lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _kill(hf: Holdfast, name: str, kind: str, started: subprocess.Popen[str]) -> None:
    if kind == "conversation":
        started.kill()
        return
    if kind == "container":
        hf.engine.kill_remove(hf.session(name).row.container_id or "")
    os.killpg(started.pid, signal.SIGKILL)
