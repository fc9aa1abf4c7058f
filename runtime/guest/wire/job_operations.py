"""The operations on jobs: start, list, join, read, type, resize, end. Thin: `jobs.py` decides."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.jobs.jobs import (
    DEFAULT_SIZE,
    CannotStart,
    DetachedCommand,
    JobOrder,
    exit_code,
)
from holdfast.runtime.guest.shells.driven_shell import TERM
from holdfast.runtime.guest.shells.typed import line_refusal
from holdfast.runtime.guest.wire import shell_operations
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.shell_operations import SIGNALS, CommandWait, about, send_output, size_of

MAX_NAME = 64
MAX_COMMAND = 96 << 10
"""Bytes; the kernel takes 128 KiB as one argument, see execve(2), MAX_ARG_STRLEN."""


async def start(guest: Guest, call: ClientCall) -> None:
    """Start a job, or find it if its id is known. A job that is `apart` does not wait for the lease."""
    job = guest.jobs.known(call.id())
    if job is None:
        if call.frame.head.get("apart") is not True:
            shell_access = guest.shell_access(call.target("shell"))
            await shell_access.admitted(str(call.actor()), "start job", call.seconds("lease_wait"))
        job = guest.jobs.known(call.id()) or _start(guest, call)
    await call.finish("job", **job.as_dict(guest.jobs.now()))


async def list_(guest: Guest, call: ClientCall) -> None:
    """Send a description of all jobs, or of one."""
    wanted = call.frame.head.get("id")
    found = guest.jobs.all() if wanted is None else [_job(guest, call)]
    now = guest.jobs.now()
    await call.finish("jobs", jobs=[job.as_dict(now) for job in found])


async def wait(guest: Guest, call: ClientCall) -> None:
    """Send a job's output from its beginning, or from an offset; the input it waits for; and its end."""
    job = _job(guest, call)
    await call.send("started", id=job.id, offset=0, **about(job.size))
    await _send_output(guest, call, job, call.integer("from_offset", 0, low=0))
    while job.end is None:
        await job.log.more()
    guest.notifications.heard(str(call.actor()), job.id)
    await call.finish(
        "finished",
        id=job.id,
        exit_code=exit_code(job.end),
        signal=job.end.signal,
        start_offset=0,
        end_offset=job.end_offset,
        timed_out=False,
        shell_exited=False,
        incomplete=False,
        duration=round(job.duration or 0.0, 6),
    )


async def join(guest: Guest, call: ClientCall) -> None:
    """Join a command, or the job of that id."""
    known = guest.shell(call.target("shell")).commands.find(call.id()) is not None
    await (wait if not known and guest.jobs.find(call.id()) else shell_operations.wait)(guest, call)


async def read(guest: Guest, call: ClientCall) -> None:
    """Read recorded output; following ends with the job."""
    job = _job(guest, call)
    offset = call.integer("offset", 0, low=-(2**53))
    start = job.log.clamp(offset) if offset < 0 else offset
    end = job.log.end
    if call.frame.head.get("follow") is True:
        await _pour(call, job, start, lambda: job.end_offset)
        while not job.over:
            await job.log.more()
    else:
        await _pour(call, job, start, lambda: end)
    await call.finish("eof", offset=job.log.end)


async def send(guest: Guest, call: ClientCall) -> None:
    """Type bytes into the job's terminal."""
    job = _running(guest, call)
    if excess := job.excess(call.frame.payload):
        raise RequestRefused("line_too_long", line_refusal(excess))
    await job.write(call.frame.payload)
    await call.finish("ok")


async def resize(guest: Guest, call: ClientCall) -> None:
    """Change the size of the job's terminal."""
    job = _running(guest, call)
    job.resize(size_of(call, job.size))
    await call.finish("ok")


async def send_signal(guest: Guest, call: ClientCall) -> None:
    """Send a signal to everything that runs in the job's terminal."""
    job = _running(guest, call)
    name = call.text("signal", "TERM").removeprefix("SIG")
    if name not in SIGNALS:
        raise RequestRefused("invalid", f"cannot send signal {name}: use one of {', '.join(SIGNALS)}")
    job.killed_by = str(call.actor())
    job.signal(signal.Signals[f"SIG{name}"])
    await call.finish("ok")


def _job(guest: Guest, call: ClientCall) -> DetachedCommand:
    job = guest.jobs.find(call.id())
    if job is None:
        raise RequestRefused("unknown_job", f"cannot find job {call.id()}: it does not exist, or is too old")
    return job


def _running(guest: Guest, call: ClientCall) -> DetachedCommand:
    job = _job(guest, call)
    if job.over:
        raise RequestRefused("over", f"cannot reach job {job.id}: it has ended")
    return job


def _start(guest: Guest, call: ClientCall) -> DetachedCommand:
    head, shell = call.frame.head, guest.shell(call.target("shell"))
    command = _text(call.frame.payload)
    name = head.get("name") or ""
    if not isinstance(name, str) or len(name) > MAX_NAME or not (name.isprintable()):
        raise RequestRefused("invalid", f"cannot start job: its name must be a line of at most {MAX_NAME}")
    extra = head.get("env") or {}
    if not isinstance(extra, dict) or not all(
        isinstance(key, str) and key and "=" not in key and isinstance(value, str) and "\0" not in key + value
        for key, value in extra.items()
    ):
        raise RequestRefused("invalid", "cannot start job: its environment must map names to texts")
    other = None if head.get("user") is None else call.account(guest.account)
    exported = shell.kept.exported() if other is None else other.environment(os.environ)
    order = JobOrder(
        id=call.id(),
        name=name,
        command=command,
        shell=guest.program.path,
        cwd=os.path.join(shell.kept.cwd(), call.text("cwd", shell.kept.cwd())),  # noqa: PTH118
        env={**exported, "TERM": TERM, **extra},  # that of the shell is for another terminal
        account=other,
        actor=str(call.actor()),
        size=size_of(call, DEFAULT_SIZE),
    )
    try:
        return guest.jobs.start(order)
    except CannotStart as error:
        raise RequestRefused(error.code, str(error)) from None


def _text(payload: bytes) -> str:
    if b"\0" in payload:
        raise RequestRefused("invalid", "cannot start job: its command contains a NUL byte")
    if not payload.strip():
        raise RequestRefused("invalid", "cannot start job: its command is empty")
    if len(payload) > MAX_COMMAND:
        raise RequestRefused("invalid", f"cannot start job: its command is longer than {MAX_COMMAND} bytes")
    return payload.decode("utf-8", "surrogateescape")


async def _send_output(guest: Guest, call: ClientCall, job: DetachedCommand, start: int) -> None:
    """Send the output of a job and, each time it waits, the kind of input."""
    reported = 0

    def waits(offset: int) -> CommandWait | None:
        nonlocal reported
        state = job.watching.waits(reported) if job.watching else None
        if state is None or job.watching is None:
            return None
        reported = job.watching.episode
        return CommandWait(state, offset)

    async for item in job.output(start, lambda: job.end_offset, waits):
        if not isinstance(item, CommandWait):
            await send_output(call, item)
            continue
        await call.send(
            "waiting",
            id=job.id,
            state=item.state.as_dict(),
            start_offset=0,
            offset=item.offset,
            duration=round(max(0.0, guest.jobs.now() - job.started), 6),
        )


async def _pour(call: ClientCall, job: DetachedCommand, start: int, until: Callable[[], int | None]) -> None:
    async for item in job.output(start, until):
        await send_output(call, item)


OPERATIONS: Operations = {
    "wait": join,
    "job_start": start,
    "job_list": list_,
    "job_wait": wait,
    "job_read": read,
    "job_send": send,
    "job_resize": resize,
    "job_signal": send_signal,
}
