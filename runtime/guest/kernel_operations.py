"""The operations on kernels: run a cell, answer it, interrupt, restart. Thin: the kernel decides."""

from __future__ import annotations

import json

from holdfast.kernels.guest.journal import Record
from holdfast.kernels.guest.kernel import Kernel, KernelBusy
from holdfast.kernels.guest.process import KernelFailure
from holdfast.runtime.guest.call import Call, Operations
from holdfast.runtime.guest.connection import Refusal
from holdfast.runtime.guest.guest import Guest


async def cell(guest: Guest, call: Call) -> None:
    """Run code, or join it if its id is known."""
    kernel = guest.kernel(call.target("kernel"))
    after = call.integer("after_seq", 0, low=0)
    record = kernel.journal.find(call.id()) or _submit(kernel, call)
    running = record.cell
    while not running.started and not running.over:
        await kernel.journal.changed()
    if running.refusal:
        kernel.journal.forget(running.id)
        raise Refusal("kernel_failed", running.refusal)
    await call.send("started", id=running.id, epoch=running.epoch)
    async for event in kernel.journal.replay(record, after):
        await call.connection.send_encoded(event)
    await call.finish(
        "finished", id=running.id, status=running.status, execution_count=running.execution_count
    )


async def answer(guest: Guest, call: Call) -> None:
    """Answer the question of the running cell."""
    if not guest.kernel(call.target("kernel")).answer(call.frame.payload.decode("utf-8", "replace")):
        raise Refusal("no_question", "cannot answer: no cell waits for input")
    await call.finish("ok")


async def interrupt(guest: Guest, call: Call) -> None:
    """Interrupt the running cell."""
    kernel = guest.kernel(call.target("kernel"))
    await kernel.interrupt()
    await call.finish("ok", **_about(kernel))


async def restart(guest: Guest, call: Call) -> None:
    """Replace the kernel's process."""
    kernel = guest.kernel(call.target("kernel"))
    try:
        await kernel.restart()
    except KernelFailure as failure:
        raise Refusal("kernel_failed", str(failure)) from None
    await call.finish("ok", **_about(kernel))


async def start(guest: Guest, call: Call) -> None:
    """Start a kernel of a spec; one of that name but another spec is replaced."""
    name, spec = call.target("kernel"), call.text("spec")
    kernel = guest.kernels.get(name) or guest.new_kernel(name, spec)
    try:
        if kernel.spec == spec:
            await kernel.ensure()
        else:
            await kernel.restart(spec)
    except KernelFailure as failure:
        raise Refusal("kernel_failed", str(failure)) from None
    await call.finish("ok", **_about(kernel))


async def variables(guest: Guest, call: Call) -> None:
    """Tell the names the user has in a kernel."""
    found = await guest.kernel(call.target("kernel")).variables()
    await call.finish("variables", json.dumps(found.as_dict()).encode())


def _submit(kernel: Kernel, call: Call) -> Record:
    try:
        code = call.frame.payload.decode()
    except UnicodeDecodeError as error:
        raise Refusal("invalid", f"cannot run cell: its code is not UTF-8 ({error})") from None
    try:
        return kernel.submit(call.id(), code, call.seconds("timeout"))
    except KernelBusy as busy:
        what = "did not end when interrupted; restart the kernel" if busy.cell.over else "is running; wait"
        raise Refusal("busy", f"cannot run cell: cell {busy.cell.id} {what}") from None


def _about(kernel: Kernel) -> dict[str, object]:
    return {"kernel": kernel.name, "spec": kernel.spec, "epoch": kernel.epoch, "pid": kernel.pid}


OPERATIONS: Operations = {
    "cell": cell,
    "input": answer,
    "kernel_interrupt": interrupt,
    "kernel_restart": restart,
    "kernel_start": start,
    "kernel_variables": variables,
}
