"""The operations on tasks: start, list, join, read, type, resize, end. Thin: `tasks.py` decides."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.shells.bash import TERM
from holdfast.runtime.guest.shells.line_limit import refusal
from holdfast.runtime.guest.tasks.tasks import (
    DEFAULT_SIZE,
    CannotStart,
    DetachedCommand,
    TaskOrder,
    exit_code,
)
from holdfast.runtime.guest.wire import shell_operations
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.shell_operations import SIGNALS, Waiting, about, send_output, size_of

MAX_NAME = 64
MAX_COMMAND = 96 << 10
"""Bytes; the kernel takes 128 KiB as one argument, see execve(2), MAX_ARG_STRLEN."""


async def start(guest: Guest, call: ClientCall) -> None:
    """Start a task, or find it if its id is known. One that is `apart` does not wait for the lease."""
    task = guest.tasks.known(call.id())
    if task is None:
        if call.frame.head.get("apart") is not True:
            desk = guest.desk(call.target("shell"))
            await desk.admitted(str(call.actor()), "start task", call.seconds("lease_wait"))
        task = guest.tasks.known(call.id()) or _start(guest, call)
    await call.finish("task", **task.as_dict(guest.tasks.now()))


async def list_(guest: Guest, call: ClientCall) -> None:
    """Send a description of all tasks, or of one."""
    wanted = call.frame.head.get("id")
    found = guest.tasks.all() if wanted is None else [_task(guest, call)]
    now = guest.tasks.now()
    await call.finish("tasks", tasks=[task.as_dict(now) for task in found])


async def wait(guest: Guest, call: ClientCall) -> None:
    """Send the output of a task from its beginning, or from an offset; what it waits for; and its end."""
    task = _task(guest, call)
    await call.send("started", id=task.id, offset=0, **about(task.size))
    await _send_output(guest, call, task, call.integer("from_offset", 0, low=0))
    while task.end is None:
        await task.log.more()
    guest.news.heard(str(call.actor()), task.id)
    await call.finish(
        "finished",
        id=task.id,
        exit_code=exit_code(task.end),
        signal=task.end.signal,
        start_offset=0,
        end_offset=task.end_offset,
        timed_out=False,
        shell_exited=False,
        incomplete=False,
        duration=round(task.duration or 0.0, 6),
    )


async def join(guest: Guest, call: ClientCall) -> None:
    """Join a command, or the task of that id."""
    known = guest.shell(call.target("shell")).commands.find(call.id()) is not None
    await (wait if not known and guest.tasks.find(call.id()) else shell_operations.wait)(guest, call)


async def read(guest: Guest, call: ClientCall) -> None:
    """Read recorded output; following ends with the task."""
    task = _task(guest, call)
    offset = call.integer("offset", 0, low=-(2**53))
    start = task.log.clamp(offset) if offset < 0 else offset
    end = task.log.end
    if call.frame.head.get("follow") is True:
        await _pour(call, task, start, lambda: task.end_offset)
        while not task.over:
            await task.log.more()
    else:
        await _pour(call, task, start, lambda: end)
    await call.finish("eof", offset=task.log.end)


async def send(guest: Guest, call: ClientCall) -> None:
    """Type bytes into the task's terminal."""
    task = _running(guest, call)
    if excess := task.excess(call.frame.payload):
        raise RequestRefused("line_too_long", refusal(excess))
    await task.write(call.frame.payload)
    await call.finish("ok")


async def resize(guest: Guest, call: ClientCall) -> None:
    """Change the size of the task's terminal."""
    task = _running(guest, call)
    task.resize(size_of(call, task.size))
    await call.finish("ok")


async def send_signal(guest: Guest, call: ClientCall) -> None:
    """Send a signal to everything that runs in the task's terminal."""
    task = _running(guest, call)
    name = call.text("signal", "TERM").removeprefix("SIG")
    if name not in SIGNALS:
        raise RequestRefused("invalid", f"cannot send signal {name}: use one of {', '.join(SIGNALS)}")
    task.killed_by = str(call.actor())
    task.signal(signal.Signals[f"SIG{name}"])
    await call.finish("ok")


def _task(guest: Guest, call: ClientCall) -> DetachedCommand:
    task = guest.tasks.find(call.id())
    if task is None:
        raise RequestRefused("unknown_task", f"cannot find task {call.id()}: there is none, or it is too old")
    return task


def _running(guest: Guest, call: ClientCall) -> DetachedCommand:
    task = _task(guest, call)
    if task.over:
        raise RequestRefused("over", f"cannot reach task {task.id}: it has ended")
    return task


def _start(guest: Guest, call: ClientCall) -> DetachedCommand:
    head, shell = call.frame.head, guest.shell(call.target("shell"))
    command = _text(call.frame.payload)
    name = head.get("name") or ""
    if not isinstance(name, str) or len(name) > MAX_NAME or not (name.isprintable()):
        raise RequestRefused("invalid", f"cannot start task: its name must be a line of at most {MAX_NAME}")
    extra = head.get("env") or {}
    if not isinstance(extra, dict) or not all(
        isinstance(key, str) and key and "=" not in key and isinstance(value, str) and "\0" not in key + value
        for key, value in extra.items()
    ):
        raise RequestRefused("invalid", "cannot start task: its environment must map names to texts")
    other = None if head.get("user") is None else call.account(guest.account)
    exported = shell.kept.exported() if other is None else other.environment({})
    order = TaskOrder(
        id=call.id(),
        name=name,
        command=command,
        cwd=os.path.join(shell.kept.cwd(), call.text("cwd", shell.kept.cwd())),  # noqa: PTH118
        env={**exported, "TERM": TERM, **extra},  # that of the shell is for another terminal
        account=other,
        actor=str(call.actor()),
        size=size_of(call, DEFAULT_SIZE),
    )
    try:
        return guest.tasks.start(order)
    except CannotStart as error:
        raise RequestRefused(error.code, str(error)) from None


def _text(payload: bytes) -> str:
    if b"\0" in payload:
        raise RequestRefused("invalid", "cannot start task: its command contains a NUL byte")
    if not payload.strip():
        raise RequestRefused("invalid", "cannot start task: its command is empty")
    if len(payload) > MAX_COMMAND:
        raise RequestRefused("invalid", f"cannot start task: its command is longer than {MAX_COMMAND} bytes")
    return payload.decode("utf-8", "surrogateescape")


async def _send_output(guest: Guest, call: ClientCall, task: DetachedCommand, start: int) -> None:
    """Send the output of a task and, each time it waits for input, what for."""
    reported = 0

    def waits(offset: int) -> Waiting | None:
        nonlocal reported
        state = task.watching.waits(reported) if task.watching else None
        if state is None or task.watching is None:
            return None
        reported = task.watching.episode
        return Waiting(state, offset)

    async for item in task.output(start, lambda: task.end_offset, waits):
        if not isinstance(item, Waiting):
            await send_output(call, item)
            continue
        await call.send(
            "waiting",
            id=task.id,
            state=item.state.as_dict(),
            start_offset=0,
            offset=item.offset,
            duration=round(max(0.0, guest.tasks.now() - task.started), 6),
        )


async def _pour(call: ClientCall, task: DetachedCommand, start: int, until: Callable[[], int | None]) -> None:
    async for item in task.output(start, until):
        await send_output(call, item)


OPERATIONS: Operations = {
    "wait": join,
    "task_start": start,
    "task_list": list_,
    "task_wait": wait,
    "task_read": read,
    "task_send": send,
    "task_resize": resize,
    "task_signal": send_signal,
}
