"""The operations on kernels: open, close, run a cell, answer it, interrupt, restart, join a front end. Thin.

A front end of Jupyter gets and sends messages until its client leaves. The first event, `joined`, says in
which state the kernel is. Each message of the client has a growing number within its `link`; it is confirmed
by `taken`, so that a client whose connection was lost sends it once more without having it done twice.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.kernels.guest.cell_log import CellRecord
from holdfast.kernels.guest.jupyter_library import KernelFailure, UnknownSpec
from holdfast.kernels.guest.kernel import KernelBusy, RunningKernel
from holdfast.kernels.guest.messages import CellStatus
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.layout import DEFAULT_SPEC, MAIN
from holdfast.runtime.guest.records.keyed import KeyedRequest
from holdfast.runtime.guest.wire.call import MAX_ID, ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.shell_operations import UNKNOWN

if TYPE_CHECKING:
    from holdfast.kernels.guest.front_ends import FrontCells, FrontEnds

MAX_BEFORE = 256 << 10
"""Characters of the code that is run before a cell."""
MAX_PATH = 4096
MAX_FRONT_ENDS = 32


async def cell(guest: Guest, call: ClientCall) -> None:
    """Run code, or join it if its id is known; with `join` only the latter."""
    kernel = guest.kernel(call.target("kernel"))
    after = call.integer("after_seq", 0, low=0)
    known = _known(guest, kernel, call)
    record = kernel.journal.find(call.id())
    if record is None and known is not None:
        await _recall(call, known)
        return
    if record is None and call.frame.head.get("join") is True:
        raise RequestRefused(
            "unknown_exec", f"cannot follow cell {call.id()}: the kernel has no cell with that id"
        )
    record = record or await _begin(guest, kernel, call)
    running = record.cell
    if call.frame.head.get("accepted") is True and not running.started and not running.over:
        await call.send("accepted", id=running.id)
    while not running.started and not running.over:
        await kernel.journal.changed()
    if running.refusal:
        kernel.journal.forget(running.id)
        raise RequestRefused("kernel_failed", running.refusal)
    await call.send("started", id=running.id, epoch=running.epoch)
    async for event in kernel.journal.replay(record, after):
        await call.connection.send_encoded(event)
    if running.status == CellStatus.DIED:  # the caller learns of it now, and not once more as news
        guest.notifications.heard(str(call.actor()), kernel.name, running.epoch)
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
    await kernel.interrupt(call.optional("only", MAX_ID))
    await call.finish("ok", **_about(kernel))


async def restart(guest: Guest, call: ClientCall) -> None:
    """Replace the kernel's process."""
    kernel = guest.kernel(call.target("kernel"))
    try:
        await kernel.restart()
    except KernelFailure as failure:
        raise RequestRefused("kernel_failed", str(failure)) from None
    await call.finish("ok", **_about(kernel))


async def open_(guest: Guest, call: ClientCall) -> None:
    """Start a kernel of a spec, or return the existing one with that name."""
    name, spec, cwd = call.text("kernel"), call.text("spec", DEFAULT_SPEC), _directory(guest, call)
    kernel = guest.kernels.get(name)
    if kernel is not None and not kernel.closed:
        if kernel.spec != spec:
            raise RequestRefused(
                "invalid", (f"cannot open kernel {name}: it is open already, with spec {kernel.spec}")
            )
    else:
        kernel = guest.new_kernel(name, spec, cwd)
    try:
        await kernel.ensure()
    except KernelFailure as failure:
        if not kernel.epoch and kernel.name != MAIN:
            guest.forget_kernel(kernel)
        code = "unknown_spec" if isinstance(failure, UnknownSpec) else "kernel_failed"
        raise RequestRefused(code, str(failure)) from None
    await call.finish("kernel", kernel=kernel.as_dict())


async def specs(guest: Guest, call: ClientCall) -> None:
    """Send the specs from which kernels can be opened."""
    from holdfast.kernels.guest import kernel_specs  # not before the shell is there

    places = kernel_specs.folders(guest.account.environment(os.environ), guest.account.home)
    found = [
        {"name": each.name, "display_name": each.display_name, "language": each.language}
        for each in kernel_specs.listed(places)
    ]
    await call.finish("specs", specs=found)


async def close(guest: Guest, call: ClientCall) -> None:
    """End a kernel and forget its cells."""
    kernel = guest.kernel(call.text("kernel"))
    if kernel.name == MAIN:
        raise RequestRefused("invalid", "cannot close kernel main: a session always has it")
    if kernel.taken and call.frame.head.get("force") is not True:
        raise RequestRefused("in_use", f"cannot close kernel {kernel.name}: a cell is running in it")
    await kernel.close()
    guest.forget_kernel(kernel)
    await call.finish("ok")


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
    """Begin a cell when the kernel is free, waiting as long as the caller wants."""
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
    timeout, who, before = call.seconds("timeout"), call.who(), call.optional("before", MAX_BEFORE)
    if kernel.closed:
        raise RequestRefused("unknown_kernel", f"cannot run cell: kernel {kernel.name} was closed")
    if who.key is not None:
        guest.keyed.begin(call.id(), "cell", kernel.name, call.frame.payload)
    try:
        return kernel.submit(call.id(), code, timeout, who, before)
    except KernelBusy as busy:
        if who.key is not None:
            guest.keyed.forget(call.id())
        what = "did not end when interrupted; restart the kernel" if busy.cell.over else "is running; wait"
        raise RequestRefused("busy", f"cannot run cell: cell {busy.cell.id} {what}") from None


def _directory(guest: Guest, call: ClientCall) -> str | None:
    """Return the directory that a kernel is to start in; the session's if none is named."""
    given = call.optional("cwd", MAX_PATH)
    if given is None:
        return None
    path = os.path.join(guest.layout.workspace, given)  # noqa: PTH118
    if "\0" in path or not os.path.isdir(path):  # noqa: PTH112
        raise RequestRefused("invalid", "cannot open the kernel: there is no such directory in the session")
    return path


def _about(kernel: RunningKernel) -> dict[str, object]:
    return {"kernel": kernel.name, "spec": kernel.spec, "epoch": kernel.epoch, "pid": kernel.pid}


async def front_end(guest: Guest, call: ClientCall) -> None:
    """Join a front end of Jupyter to a kernel: pass messages on both ways until the client leaves."""
    kernel, client, link = guest.kernel(call.target("kernel")), call.text("client"), call.text("link")
    after = call.integer("after", low=0) if call.frame.head.get("after") is not None else None
    if max(len(client), len(link)) > MAX_ID:
        raise RequestRefused("invalid", f"cannot join kernel {kernel.name}: an id is longer than {MAX_ID}")
    await _ensure(kernel)
    cells = kernel.front_cells()
    fronts = cells.fronts
    if fronts.connected >= MAX_FRONT_ENDS:
        raise RequestRefused(
            "busy", f"cannot join kernel {kernel.name}: it has {MAX_FRONT_ENDS} front ends already"
        )
    fronts.connected += 1
    position, lost = fronts.place(client, after, running=kernel.taken)
    await call.send("joined", state=kernel.state, epoch=kernel.epoch, lost=lost)
    sending = asyncio.create_task(_send(call, fronts, client, position))
    try:
        while not kernel.closed:
            await _take(cells, call, client, link)
    finally:
        fronts.connected -= 1
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(call: ClientCall, fronts: FrontEnds, client: str, position: int) -> None:
    async for data in fronts.messages(client, position):
        await call.connection.send_encoded(data)


async def _take(cells: FrontCells, call: ClientCall, client: str, link: str) -> None:
    """Receive the client's next message."""
    from holdfast.kernels.guest.front_ends import FrontEndRefused, FrontMessage  # few sessions have any
    from holdfast.runtime.guest.wire.kernel_messages import MessageMalformed

    frame = await call.connection.receive()
    number = ClientCall(call.connection, frame).integer("number", low=1)
    if cells.fronts.take(link, number):
        try:
            await cells.take(FrontMessage.of(client, call.who(), frame.payload))
        except MessageMalformed as error:
            raise RequestRefused("bad_request", f"cannot take the message: {error}") from None
        except FrontEndRefused as error:
            raise RequestRefused("busy", str(error)) from None
        except KernelFailure as failure:
            raise RequestRefused("kernel_failed", str(failure)) from None
    await call.send("taken", number=number)


async def _ensure(kernel: RunningKernel) -> None:
    try:
        await kernel.ensure()
    except KernelFailure as failure:
        raise RequestRefused("kernel_failed", str(failure)) from None


OPERATIONS: Operations = {
    "front_end": front_end,
    "cell": cell,
    # By another name, so that a supervisor that cannot do it says so.
    "cell_after": cell,
    "input": answer,
    "kernel_interrupt": interrupt,
    "kernel_restart": restart,
    "kernel_open": open_,
    "kernel_close": close,
    "kernel_specs": specs,
    "kernel_variables": variables,
}
