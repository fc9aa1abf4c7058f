"""The operations on kernels: run a cell, answer it, interrupt, restart. Thin: the kernel decides."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from holdfast.kernels.guest.cell_log import CellRecord
from holdfast.kernels.guest.kernel import KernelBusy, RunningKernel
from holdfast.kernels.guest.process import KernelFailure
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.records.keyed import KeyedRequest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.shell_operations import UNKNOWN


async def cell(guest: Guest, call: ClientCall) -> None:
    """Run code, or join it if its id is known; with `join` nothing else."""
    kernel = guest.kernel(call.target("kernel"))
    after = call.integer("after_seq", 0, low=0)
    known = _known(guest, kernel, call)
    record = kernel.journal.find(call.id())
    if record is None and known is not None:
        await _recall(call, known)
        return
    if record is None and call.frame.head.get("join") is True:
        raise RequestRefused(
            "unknown_exec", f"cannot follow cell {call.id()}: the kernel has none of that id"
        )
    record = record or await _begin(guest, kernel, call)
    running = record.cell
    while not running.started and not running.over:
        await kernel.journal.changed()
    if running.refusal:
        kernel.journal.forget(running.id)
        raise RequestRefused("kernel_failed", running.refusal)
    await call.send("started", id=running.id, epoch=running.epoch)
    async for event in kernel.journal.replay(record, after):
        await call.connection.send_encoded(event)
    await call.finish(
        "finished", id=running.id, status=running.status, execution_count=running.execution_count
    )


async def answer(guest: Guest, call: ClientCall) -> None:
    """Answer the question of the running cell."""
    text = call.frame.payload.decode("utf-8", "replace")
    if not guest.kernel(call.target("kernel")).answer(text, call.who()):
        raise RequestRefused("no_question", "cannot answer: no cell waits for input")
    await call.finish("ok")


async def interrupt(guest: Guest, call: ClientCall) -> None:
    """Interrupt the running cell."""
    kernel = guest.kernel(call.target("kernel"))
    await kernel.interrupt()
    await call.finish("ok", **_about(kernel))


async def restart(guest: Guest, call: ClientCall) -> None:
    """Replace the kernel's process."""
    kernel = guest.kernel(call.target("kernel"))
    try:
        await kernel.restart()
    except KernelFailure as failure:
        raise RequestRefused("kernel_failed", str(failure)) from None
    await call.finish("ok", **_about(kernel))


async def start(guest: Guest, call: ClientCall) -> None:
    """Start a kernel of a spec; one of that name but another spec is replaced."""
    name, spec = call.target("kernel"), call.text("spec")
    kernel = guest.kernels.get(name) or guest.new_kernel(name, spec)
    try:
        if kernel.spec == spec:
            await kernel.ensure()
        else:
            await kernel.restart(spec)
    except KernelFailure as failure:
        raise RequestRefused("kernel_failed", str(failure)) from None
    await call.finish("ok", **_about(kernel))


async def variables(guest: Guest, call: ClientCall) -> None:
    """Send the names the user has in a kernel."""
    found = await guest.kernel(call.target("kernel")).variables()
    await call.finish("variables", json.dumps(found.as_dict()).encode())


def _known(guest: Guest, kernel: RunningKernel, call: ClientCall) -> KeyedRequest | None:
    if call.key() is None:
        return None
    return guest.keyed.check(call.id(), "cell", kernel.name, call.frame.payload)


async def _recall(call: ClientCall, known: KeyedRequest) -> None:
    """Send the outcome of a cell that was run under a key, and whose events are no longer kept."""
    if known.ended is None:
        raise RequestRefused("outcome_unknown", UNKNOWN)
    ended = known.ended
    await call.send("started", id=call.id(), epoch=ended["epoch"])
    await call.finish("finished", **{**ended, "id": call.id(), "recorded": True})


async def _begin(guest: Guest, kernel: RunningKernel, call: ClientCall) -> CellRecord:
    """Begin a cell when the kernel is free, for which it waits as long as the caller wants."""
    clock = asyncio.get_running_loop().time
    until = clock() + (call.seconds("busy_wait") or 0.0)
    while kernel.taken and clock() < until:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await kernel.journal.changed()
    # The same request may have arrived by another connection meanwhile.
    return kernel.journal.find(call.id()) or _submit(guest, kernel, call)


def _submit(guest: Guest, kernel: RunningKernel, call: ClientCall) -> CellRecord:
    try:
        code = call.frame.payload.decode()
    except UnicodeDecodeError as error:
        raise RequestRefused("invalid", f"cannot run cell: its code is not UTF-8 ({error})") from None
    timeout, who = call.seconds("timeout"), call.who()
    if who.key is not None:
        guest.keyed.begin(call.id(), "cell", kernel.name, call.frame.payload)
    try:
        return kernel.submit(call.id(), code, timeout, who)
    except KernelBusy as busy:
        if who.key is not None:
            guest.keyed.forget(call.id())
        what = "did not end when interrupted; restart the kernel" if busy.cell.over else "is running; wait"
        raise RequestRefused("busy", f"cannot run cell: cell {busy.cell.id} {what}") from None


def _about(kernel: RunningKernel) -> dict[str, object]:
    return {"kernel": kernel.name, "spec": kernel.spec, "epoch": kernel.epoch, "pid": kernel.pid}


OPERATIONS: Operations = {
    "cell": cell,
    "input": answer,
    "kernel_interrupt": interrupt,
    "kernel_restart": restart,
    "kernel_start": start,
    "kernel_variables": variables,
}
