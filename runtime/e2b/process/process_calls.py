"""The calls that follow processes: start one, connect to one.

A client that leaves ends nothing. When its time is over, a process that it started is killed, as E2B does;
one that it connected to continues.
"""

from __future__ import annotations

import contextlib
import posixpath
from typing import Any

from holdfast.errors import GuestError
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.e2b_errors import SandboxUnavailable
from holdfast.runtime.e2b.process import process_messages, sandbox_processes
from holdfast.runtime.e2b.process.process_bodies import ProcessChoice, StartBody
from holdfast.runtime.e2b.process.sandbox_processes import SandboxProcess
from holdfast.runtime.e2b.rpc_streams import DEADLINE
from holdfast.runtime.e2b.sandbox_facts import ACCOUNT, SandboxFacts
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.calls.followed_calls import OVERHEAD, Emit, ServedCall

ROOT_HOME = "/root"
EARLY = 2.0
"""Seconds before the end of its time, at most a quarter of it, in which a client that leaves has not left by
choice: it has the same time, and its clock began before ours."""


def start_call(asked: StartBody, user: str | None, seconds: float | None) -> ServedCall:
    """Start a process and follow it; `seconds` is the time that the client gave."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        patience.begin()
        facts = SandboxFacts.of(found.row)
        env = {**(facts.env if facts is not None else {}), **asked.process.envs}
        who, cwd = acting(facts, user, asked.process.cwd)
        process = sandbox_processes.start(found, asked, env, who, cwd)
        if _followed(process, patience, emit):
            return {}
        if _late(patience, seconds):
            with contextlib.suppress(GuestError):  # it has just ended
                process.signal("KILL")
            return DEADLINE
        raise _left(process)

    return call


def acting(facts: SandboxFacts | None, user: str | None, cwd: str | None) -> tuple[str | None, str | None]:
    """Return as whom a process runs, and where; None for the session's own user and directory.  Pure."""
    if facts is None or facts.home is None:
        return None if user in (None, "", ACCOUNT) else user, cwd or None
    name = user or ACCOUNT
    home = ROOT_HOME if name in ("root", "0") else facts.home
    if not cwd:
        place = facts.home
    elif cwd == "~" or cwd.startswith("~/"):
        place = home + cwd[1:]
    else:
        place = posixpath.join(home, cwd)
    # An image may list no account of this name: the number is root's everywhere.
    return "0" if name == "root" else name, place


def connect_call(choice: ProcessChoice) -> ServedCall:
    """Follow a process, which may have ended, from its beginning."""

    def call(found: Session, patience: Patience, emit: Emit | None) -> dict[str, Any]:
        patience.begin()
        process = sandbox_processes.known(found, choice)
        if _followed(process, patience, emit):
            return {}
        if patience.ended:
            raise _left(process)
        return DEADLINE

    return call


def _followed(process: SandboxProcess, patience: Patience, emit: Emit | None) -> bool:
    """Report all of a process; whether it has ended."""
    if emit is None:
        return process.follow(patience, lambda _stream, _data: None) is not None
    emit(process_messages.started(process.pid), OVERHEAD)
    end = process.follow(
        patience, lambda stream, data: emit(process_messages.wrote(stream, data), len(data) + OVERHEAD)
    )
    if end is not None:
        emit(process_messages.ended(end), OVERHEAD)
    return end is not None


def _late(patience: Patience, seconds: float | None) -> bool:
    if seconds is None:
        return False
    left = patience.left()
    return not patience.ended or (left is not None and left <= min(EARLY, seconds / 4))


def _left(process: SandboxProcess) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"cannot follow process {process.pid} further: the server stops, or its client has left",
        hint="connect to it again",
    )
