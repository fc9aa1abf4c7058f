"""The operations of people at a shell: attach, the lease, the recording. Thin: others decide."""

from __future__ import annotations

import asyncio
import secrets

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.identity.actor import Actor
from holdfast.runtime.guest.shells.keyboard import Keyboard
from holdfast.runtime.guest.shells.shell import Shell
from holdfast.runtime.guest.shells.shell_access import Seat, ShellAccess
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.shell_operations import pour, size_of

MAX_LEASE = 7 * 24 * 3600.0
MAX_TOKEN = 64
# The answers of terminals are shorter.
MAX_ANSWER = 64


async def attach(guest: Guest, call: ClientCall) -> None:
    """Show the terminal and type into it, until the client leaves."""
    name = call.target("shell")
    shell, shell_access = guest.shell(name), guest.shell_access(name)
    seat = Seat(
        token=call.optional("token", MAX_TOKEN) or secrets.token_hex(8),
        actor=str(call.actor()),
        size=size_of(call, shell.size),
        view=call.frame.head.get("view") is True,
    )
    tail = call.integer("tail", 0, low=0)
    start = min(call.integer("offset", max(shell.log.start, shell.log.end - tail), low=0), shell.log.end)
    with shell_access.seated(seat, force=call.frame.head.get("take") is True):
        standing = _standing(shell, shell_access, seat)
        await call.send("attached", offset=start, typed=seat.typed, answers=True, takes=True, **standing)
        shown = asyncio.create_task(pour(call, shell, start, lambda: None))
        serving = asyncio.create_task(_serve(call, shell, shell_access, seat, guest.keyboards[name]))
        tasks = [shown, serving, asyncio.create_task(_send_changes(call, shell, shell_access, seat))]
        try:
            await asyncio.wait((shown, serving), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    await call.finish("closed", reason="detached" if serving.done() and not serving.cancelled() else "closed")


async def _serve(
    call: ClientCall, shell: Shell, shell_access: ShellAccess, seat: Seat, keyboard: Keyboard
) -> None:
    while True:
        frame = await call.connection.receive()
        match frame.op:
            case "input":
                await _input(call, ClientCall(call.connection, frame), shell_access, seat, keyboard)
            case "answer":
                await _answer(frame.payload, shell, shell_access, seat)
            case "resize":
                shell_access.resized(seat, size_of(ClientCall(call.connection, frame), seat.size))
            case "take":
                shell_access.taken(seat)
            case "give_back":
                if shell_access.writes(seat):  # else another actor holds it, and the client knows
                    shell_access.give_back(seat.actor)
            case "detach":
                return
            case other:
                raise RequestRefused("invalid", f"cannot do {other or 'nothing'} while attached")


async def _input(
    call: ClientCall, given: ClientCall, shell_access: ShellAccess, seat: Seat, keyboard: Keyboard
) -> None:
    """Type only new input: after a lost connection a client repeats input that possibly did not arrive."""
    data = given.frame.payload
    at = given.integer("at", seat.typed, low=0)
    data = data[max(0, seat.typed - at) :]
    seat.typed = max(seat.typed, at + len(given.frame.payload))
    if not data:
        return
    if not shell_access.typing(seat):
        await call.send("refused", count=seat.typed, bytes=len(data))
        return
    # The connection may end meanwhile; what counts as typed must be typed.
    await asyncio.shield(asyncio.create_task(keyboard.type(seat.actor, data)))
    await call.send("typed", count=seat.typed)


async def _answer(data: bytes, shell: Shell, shell_access: ShellAccess, seat: Seat) -> None:
    """Type a terminal's answer to a program's query, unless no program waits for it.

    A program that queries reads keys, not lines. The shell at its prompt would take the answer for typed
    text, and so would a program that reads lines. The person did not type it, so neither journal nor
    recording has it.
    """
    terminal = shell.terminal
    if terminal is None or len(data) > MAX_ANSWER or not shell_access.writes(seat):
        return
    canonical, _ = terminal.line_modes()
    if not canonical and terminal.foreground() not in (None, terminal.pid):
        await asyncio.shield(asyncio.create_task(terminal.write(data)))


async def _send_changes(call: ClientCall, shell: Shell, shell_access: ShellAccess, seat: Seat) -> None:
    """Send the client its right to write and the terminal's size, whenever they change."""
    sent = _standing(shell, shell_access, seat)
    while True:
        await shell_access.changed()
        now = _standing(shell, shell_access, seat)
        if now != sent:
            sent = now
            await call.send("standing", **now)


def _standing(shell: Shell, shell_access: ShellAccess, seat: Seat) -> dict[str, object]:
    holder = shell_access.lease.holder
    size = shell.size
    return {"writes": shell_access.writes(seat), "holder": holder, "rows": size.rows, "cols": size.columns}


async def lease(guest: Guest, call: ClientCall) -> None:
    """Show, take, return or hand over the lease."""
    shell_access = guest.shell_access(call.target("shell"))
    actor = str(call.actor())
    seconds = call.seconds("seconds")
    if seconds is not None and seconds > MAX_LEASE:
        raise RequestRefused("invalid", "cannot hold the lease for more than 7 days")
    match call.text("action", "show"):
        case "show":
            pass
        case "take":
            shell_access.take(actor, seconds=seconds, force=call.frame.head.get("force") is True)
        case "return":
            shell_access.give_back(actor)
        case "give":
            shell_access.give(actor, _recipient(call), seconds=seconds)
        case other:
            raise RequestRefused("invalid", f"cannot do {other} with the lease: show, take, return or give")
    await call.finish("lease", **shell_access.describe())


def _recipient(call: ClientCall) -> str:
    try:
        return str(Actor.parse(call.text("to")))
    except ValueError as error:
        raise RequestRefused("invalid", f"cannot hand over the lease: {error}") from None


async def look(guest: Guest, call: ClientCall) -> None:
    """Send the output's present end, and the terminal state that the end alone does not show."""
    shell = guest.shell(call.target("shell"))
    await call.finish(
        "look",
        start=shell.log.start,
        offset=shell.log.end,
        rows=shell.size.rows,
        cols=shell.size.columns,
        **shell.screen_modes.describe(),
    )


async def recording(guest: Guest, call: ClientCall) -> None:
    """Send the index of a part of the output, segment by segment."""
    shell = guest.shell(call.target("shell"))
    end = min(call.integer("end", shell.log.end, low=0), shell.log.end)
    start = min(max(call.integer("start", 0, low=0), shell.log.start), end)
    await call.send("recording", offset=start, next=end)
    for number in shell.recording.segments(start, end):
        if segment := shell.recording.read(number):
            await call.send("segment", segment)
    await call.finish("eof")


OPERATIONS: Operations = {"attach": attach, "lease": lease, "look": look, "recording": recording}
