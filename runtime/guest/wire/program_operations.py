"""The operations on programs: start, follow, give input, signal, list. Thin: `program.py` decides."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.identity.identity import with_identity
from holdfast.runtime.guest.layout import MAIN
from holdfast.runtime.guest.programs.program import NotStarted, Program, ProgramOrder
from holdfast.runtime.guest.shells.shell_output import CHUNK
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.shell_operations import SIGNALS

MAX_ARGUMENTS = 2 << 20
"""Bytes of arguments and environment; the kernel takes 2 MiB, see execve(2)."""
MAX_NAME = 64
PATIENCE = 10.0
"""Seconds after which a caller whose input is not taken gets an answer."""


async def start(guest: Guest, call: ClientCall) -> None:
    """Start a program, or find it if its id is known."""
    program = guest.programs.known(call.id())
    if program is None:
        try:
            program = guest.programs.start(_order(guest, call))
        except NotStarted as error:
            raise RequestRefused(error.code, str(error)) from None
    await call.finish("program", **program.as_dict())


async def list_(guest: Guest, call: ClientCall) -> None:
    """Send a description of all programs, or of one."""
    found = guest.programs.all() if call.frame.head.get("id") is None else [_program(guest, call)]
    await call.finish("programs", programs=[program.as_dict() for program in found])


async def follow(guest: Guest, call: ClientCall) -> None:
    """Send a program's output, each stream from an offset, and its end."""
    program = _program(guest, call)
    places = {name: call.integer(name, 0, low=0) for name in program.streams}
    reader, finished = call.text("reader"), False
    try:
        while True:
            over = program.over
            for name, stream in program.streams.items():
                stream.hold(reader, places[name])
            if await _send_some(call, program, places):
                continue
            if over:
                break
            await program.changed()
        finished = True
    finally:
        for stream in program.streams.values():
            stream.release(reader, finished=finished)
    await call.finish("finished", **program.as_dict())


async def _send_some(call: ClientCall, program: Program, places: dict[str, int]) -> bool:
    """Send the next piece of each stream; return whether there was any."""
    sent = False
    for name, stream in program.streams.items():
        at, log = places[name], stream.log
        limit = log.end if stream.end is None else stream.end
        if at < log.start:
            await call.send("gap", stream=name, offset=at, size=log.start - at)
            at = log.start
            sent = True
        if at < limit:
            data = log.read(at, min(CHUNK, limit - at))
            await call.send("output", data, stream=name, offset=at)
            at += len(data)
            sent = True
        places[name] = at
    return sent


async def write(guest: Guest, call: ClientCall) -> None:
    """Send a program input from an offset; its end, if `end` is set."""
    program, takes = _program(guest, call), True
    try:
        async with asyncio.timeout(PATIENCE):
            takes = await program.write(call.frame.payload, call.integer("offset", low=0))
    except TimeoutError:  # it does not read; the caller continues from where it is
        pass
    except ValueError as error:
        raise RequestRefused("invalid", f"cannot give it input: {error}") from None
    if call.frame.head.get("close") is True:
        await program.close_input()
        takes = False
    await call.finish("ok", takes=takes, accepted=program.accepted)


async def send_signal(guest: Guest, call: ClientCall) -> None:
    """Send a signal to a program and all that it started."""
    program, name = _program(guest, call), call.text("signal", "TERM").removeprefix("SIG")
    if name not in SIGNALS:
        raise RequestRefused("invalid", f"cannot send signal {name}: use one of {', '.join(SIGNALS)}")
    program.killed_by = str(call.actor())
    guest.programs.signal(program, signal.Signals[f"SIG{name}"])
    await call.finish("ok")


def _program(guest: Guest, call: ClientCall) -> Program:
    program = guest.programs.known(call.id())
    if program is None:
        raise RequestRefused(
            "unknown_program", f"cannot find program {call.id()}: it does not exist, or is too old"
        )
    return program


def _order(guest: Guest, call: ClientCall) -> ProgramOrder:
    asked = _asked(call)
    name = call.optional("name", MAX_NAME) or ""
    if not name.isprintable():
        raise RequestRefused("invalid", "cannot run it: its name must be one line")
    account = call.account(guest.account)
    kept = guest.shell(MAIN).kept
    base = kept.exported() if call.frame.head.get("user") is None else account.environment(os.environ)
    env = {name: value for name, value in base.items() if not name.startswith("HOLDFAST_")}
    return ProgramOrder(
        id=call.id(),
        name=name,
        argv=asked["argv"],
        cwd=os.path.join(kept.cwd(), asked["cwd"]) if asked["cwd"] else kept.cwd(),  # noqa: PTH118
        env={**with_identity(env, os.environ), **asked["env"], "HOLDFAST_JOB": call.id()},
        account=account,
        actor=str(call.actor()),
        takes_input=call.frame.head.get("input") is True,
    )


def _asked(call: ClientCall) -> dict[str, Any]:
    """Return the checked arguments, environment and directory of a request."""
    if len(call.frame.payload) > MAX_ARGUMENTS:
        raise RequestRefused("invalid", f"cannot run it: its arguments take more than {MAX_ARGUMENTS} bytes")
    try:
        asked = json.loads(call.frame.payload)
        argv, env, cwd = asked["argv"], asked["env"], asked["cwd"]
        texts = [*argv, *env.keys(), *env.values(), cwd]
        data = b"".join(map(os.fsencode, texts))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise RequestRefused("invalid", "cannot run it: arguments and environment must be texts") from None
    if not isinstance(argv, list) or not argv or not argv[0]:
        raise RequestRefused("invalid", "cannot run it: the program is missing")
    if b"\0" in data or any(not name or "=" in name for name in env):
        raise RequestRefused("invalid", "cannot run it: an argument has a NUL, or a variable an invalid name")
    return {"argv": argv, "env": env, "cwd": cwd}


OPERATIONS: Operations = {
    "program_start": start,
    "program_list": list_,
    "program_follow": follow,
    "program_write": write,
    "program_signal": send_signal,
}
