"""The failure record of a job: the known facts at its failure, in few words. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from holdfast.base.text import colored
from holdfast.snapshots.failure import Debugger, Failure, Reason

if TYPE_CHECKING:
    from holdfast.runtime.ci.watched_command import WatchedOutcome
    from holdfast.runtime.pulse.pulse import Pulse

MOST_PROCESSES = 20
LOOKED_AT = 400
"""Lines at the end of an output that are searched for the place of a failure."""
# The forms of the tools: pytest's short summary, unittest, a traceback, compilers, Go, Rust, cargo and jest.
_PLACES = (
    re.compile(r"^FAILED (?P<where>\S+)(?: - (?P<message>.+))?$"),
    re.compile(r"^ERROR (?P<where>\S+::\S+|\S+\.py)(?: - (?P<message>.+))?$"),
    re.compile(r"^(?:FAIL|ERROR): (?P<where>\S+ \(\S+\))$"),
    re.compile(r"^\s*--- FAIL: (?P<where>\S+)"),
    re.compile(r"^thread '.+' .*panicked at (?P<where>\S+?:\d+)"),
    re.compile(r"^(?P<where>\S+:\d+(?::\d+)?): (?:fatal )?error: (?P<message>.+)$"),
)
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RAISED = re.compile(r"^(?P<message>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)(?:: .*)?)$")
_JOBS = ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")


def of(
    command: str,
    watched: WatchedOutcome,
    tail: bytes,
    pulse: Pulse | None,
    *,
    seconds: float,
) -> Failure:
    """Return the record of a command that failed or was given up; `seconds` is its run time."""
    shown = colored(tail.decode("utf-8", "replace"), keep=False).replace("\r", "\n")
    where, message = place(shown)
    reason, details = _why(watched, seconds)
    if message and reason == "failed":
        details = f"{message} ({details})" if details else message
    return Failure(
        reason=reason,
        command=command,
        exit_code=exit_code(watched) if watched.result else None,
        where=where if reason == "failed" else None,
        message=details,
        tail=shown,
        pulse="\n".join(sight(pulse)) if pulse is not None else "",
        debugger=Debugger(program=watched.asked.command) if watched.asked else None,
    )


def exit_code(watched: WatchedOutcome) -> int:
    """Return the job's exit code: the command's, 128+n after a signal; 75 if it waits, 124 if given up."""
    if watched.result is None:
        return 75 if watched.given == "waiting" else 124
    result = watched.result
    if result.signal is not None:
        return (128 + result.signal) & 0xFF
    return 1 if result.exit_code is None else result.exit_code & 0xFF


def place(text: str) -> tuple[str | None, str]:
    """Return the place of a failure and its message, from the end of an output; None and empty if unknown."""
    frame, message = None, ""
    for line in text.splitlines()[-LOOKED_AT:]:
        for pattern in _PLACES:
            if found := pattern.match(line):
                groups = found.groupdict()
                return groups["where"], (groups.get("message") or "").strip()
        if found := _FRAME.match(line):
            frame = f"{found['file']}:{found['line']}"
        elif frame and (found := _RAISED.match(line)):
            message = found["message"]
    return frame, message if frame else ""


def job_of(environment: Mapping[str, str]) -> str | None:
    """Return the address of the job of a CI system; None if there is none."""
    server, repository = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    run = environment.get("GITHUB_RUN_ID")
    if server and repository and run:
        return f"{server}/{repository}/actions/runs/{run}"
    return next((environment[name] for name in _JOBS if environment.get(name)), None)


def sight(pulse: Pulse) -> Iterator[str]:
    """Yield the activity of a session in a few lines: shells, processes, listening sockets, memory."""
    for terminal in pulse.terminals:
        yield f"shell {terminal.shell}: {terminal.observed.phrase(pulse.at)} in {terminal.cwd}"
    if pulse.limits is not None and pulse.limits.memory.used is not None:
        memory = pulse.limits.memory
        most = f" of {memory.limit >> 20} MiB" if memory.limit else ""
        killed = f", {memory.oom_kills} killed for lack of memory" if memory.oom_kills else ""
        yield f"memory {(memory.used or 0) >> 20} MiB{most}{killed}"
    shown = [
        (depth, each)
        for depth, each in pulse.tree()
        if each.origin is not None and each.origin.kind not in ("supervisor", "kernel")
    ]
    least = min((depth for depth, _ in shown), default=0)
    for depth, each in shown[:MOST_PROCESSES]:
        what = f"{'  ' * (depth - least)}{each.command[:120]}"
        yield f"{what} (pid {each.pid}, {each.state}, {each.cpu_seconds:.1f} s of CPU time)"
    if len(shown) > MOST_PROCESSES:
        yield f"and {len(shown) - MOST_PROCESSES} more processes"
    for socket in pulse.listening():
        if socket.local and socket.local.startswith("127.0.0.11"):
            continue
        owner = pulse.process(socket.owners[0].pid) if socket.owners else None
        name = f" by {owner.name} ({owner.pid})" if owner else ""
        yield f"{socket.protocol} {socket.local or '*'}:{socket.local_port} listening{name}"


def _why(watched: WatchedOutcome, seconds: float) -> tuple[Reason, str]:
    if watched.given == "timeout":
        return "timeout", f"it had not ended after {seconds:.0f} s"
    if watched.given == "waiting":
        state = watched.asked
        return (
            "hang",
            f"{state.phrase(time.time()) if state else 'it waits for input'}; there is no one to answer",
        )
    if watched.given == "standstill":
        return "hang", "it made no progress: no output, no CPU time, no traffic"
    result = watched.result
    if result is not None and result.signal is not None:
        return "failed", f"ended by signal {result.signal}"
    if result is not None and result.shell_exited:
        return "failed", "it ended the shell"
    if result is not None and result.incomplete:
        return "failed", result.message or "the command is not finished: a quote or a block is open"
    return "failed", ""
