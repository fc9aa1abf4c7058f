"""The pause around a capture: no client, no socket, until the host reports the process's new identity.

A captured process can wake as itself, or as a copy in another container with a new name. A connection to
the outside could not be captured, so there is none, and the host speaks through a file. The ticks of an
interval timer poll for it: unlike the loop's own timers, that one is captured with the time it has left,
and works whatever the clock says after a restore. No other code runs in the meantime: a capture in the
middle of reading a process would hold files of it open that a copy is not given.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.identity.identity import read_object
from holdfast.runtime.guest.own_process import SteadyLoop
from holdfast.runtime.guest.wire.call import ClientCall
from holdfast.runtime.guest.wire.connection import RequestRefused
from holdfast.runtime.guest.wire.supervisor_server import Server

TICK = 0.002
PATIENCE = 10.0
"""Seconds after which the session listens again on its own: its controller may be dead, and no other came
that would have ended the pause. An overloaded machine takes some of them to begin a capture.
"""
OUTCOME_TICK = 0.02
OUTCOME_PATIENCE = 600.0
"""Seconds after which a capture whose outcome was not reported has failed: its controller is dead."""
ROOM_BYTES = 64 << 10
ROOM_FILES = 8
"""Free space needed in the shared folder: for two small files of each side, and the socket."""

_OUTCOMES = ("resumed", "restored", "again", "later")

logger = logging.getLogger(__name__)


class Pause:
    """Ends all connections on request, and listens again on the host's request or after a timeout."""

    def __init__(self, loop: SteadyLoop, guest: Guest, server: Server) -> None:
        self._loop = loop
        self._guest = guest
        self._server = server
        self._token = ""
        self._began = 0.0
        self._waking: asyncio.Task[None] | None = None
        self._owed = ""
        self._owed_since = 0.0

    async def prepare(self, call: ClientCall) -> None:
        """Answer once only this connection is left; it is closed right after."""
        guest, layout = self._guest, self._guest.layout
        self._settle(last=True)
        _check_room(layout.run)
        await guest.hooks.settled()
        token = secrets.token_hex(16)
        try:
            layout.wake.unlink(missing_ok=True)
            for shell_access in guest.accesses.values():
                shell_access.cut()
            guest.captures.pausing()
            await _without_ssh(guest)
            await self._server.close(spare=call.connection)
            for end_watch in tuple(guest.watches.values()):
                end_watch()
            for cut in tuple(guest.port_cuts):
                cut()
            await _without_ssh(guest)  # of a connection that has just begun
            self._hold(hold=True)
            for shell in guest.shells.values():
                shell.drain()
                shell.recording.flush()
            for keyboard in guest.keyboards.values():
                keyboard.flush()
            guest.jobs.drain()
            guest.engine_files.look()
            guest.lineage.look()
            guest.watch.hold()
            moment = guest.moment()
            guest.journal.pause()
            guest.reaper.keeper.settle()
            layout.paused(token).touch()
            await call.finish(
                "prepared",
                token=token,
                generation=guest.identity.generation,
                **moment,
            )
        except BaseException:
            # The client went away: no capture will follow.
            layout.paused(token).unlink(missing_ok=True)
            self._hold(hold=False)
            guest.journal.resume()
            for shell_access in guest.accesses.values():
                shell_access.woken(copy=False)
            guest.captures.woken("aborted", "")
            guest.watch.resume()
            self._waking = self._loop.create_task(self._server.listen_again())
            raise
        self._begin(token)

    def _hold(self, *, hold: bool) -> None:
        """Stop the terminals' output, or let it continue."""
        for shell in self._guest.shells.values():
            shell.hold(hold=hold)
        self._guest.jobs.hold(hold=hold)

    def _begin(self, token: str) -> None:
        logger.info("paused for a capture")
        self._token = token
        self._loop.look()
        self._loop.watchful = True
        self._began = self._loop.time()
        self._loop.add_signal_handler(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)

    def _tick(self) -> None:
        if not self._token or self._server.connected:
            return
        with _signals_kept():
            while not self._ended():
                signal.pause()

    def _ended(self) -> bool:
        """Return whether the pause is over: the host ended it, or it timed out."""
        layout = self._guest.layout
        now = self._loop.time()  # however the pause ends: what passed since the last look may be a jump
        if layout.wake.exists():
            word = read_object(layout.wake)
            if word is not None and word.get("token") == self._token:
                self._end(word)
                return True
        if now - self._began > PATIENCE:
            logger.warning("no controller ended the pause in %.0f s", PATIENCE)
            self._end(read_object(layout.session) or {})
            return True
        return False

    def _end(self, fields: dict[str, Any]) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._loop.watchful = False
        guest, owed = self._guest, fields.get("event") == "later"
        # First of all: a process that finds it during the freeze relies on the pause being complete.
        guest.layout.paused(self._token).unlink(missing_ok=True)
        self._owed, self._token = self._token if owed else "", ""
        self._hold(hold=False)
        if not owed:  # else the outcome may have replaced it by now
            guest.layout.wake.unlink(missing_ok=True)
        guest.journal.resume()
        event = fields.get("event")
        for shell_access in guest.accesses.values():
            shell_access.woken(copy=event == "restored")
        # The controller asks first, once the last process of the copy runs.
        guest.arriving = event == "restored"
        guest.become(fields, event if event in _OUTCOMES else "aborted")
        if owed:
            guest.watch.defer_kills()
        else:
            guest.watch.excuse_kills(_copies_killed(fields))
        guest.watch.resume()
        logger.info("%s as %s", fields.get("event", "woke"), guest.identity)
        self._waking = self._loop.create_task(self._server.listen_again())
        if owed:
            self._owed_since = self._loop.time()
            guest.settle = self._settle
            self._loop.call_later(OUTCOME_TICK, self._await_outcome)

    def _await_outcome(self) -> None:
        self._settle()
        if self._owed:
            self._loop.call_later(OUTCOME_TICK, self._await_outcome)

    def _settle(self, *, last: bool = False) -> None:
        """Record the outcome of a capture whose pause ended before, once the host has reported it.

        `last`: no report can follow, which means that there is no snapshot.
        """
        if not self._owed:
            return
        guest = self._guest
        word = read_object(guest.layout.wake) or {}
        if word.get("token") != self._owed or word.get("event") == "later":
            if not last and self._loop.time() - self._owed_since < OUTCOME_PATIENCE:
                return
            word = {}
        self._owed = ""
        guest.settle = None
        guest.layout.wake.unlink(missing_ok=True)
        event = word.get("event")
        guest.watch.excuse_kills(_copies_killed(word))
        guest.learn(event if event in ("resumed", "again") else "aborted", word)


def _copies_killed(word: dict[str, Any]) -> int:
    """Return how many copies of processes, which a capture had made, the kernel killed for their memory."""
    killed = word.get("copies_killed", 0)
    return killed if isinstance(killed, int) else 0


async def _without_ssh(guest: Guest) -> None:
    if guest.ssh is not None:
        await guest.ssh.cut()


def _check_room(folder: Path) -> None:
    """Refuse to pause where the host could not write its file, or this process its socket."""
    room = os.statvfs(folder)
    few = room.f_files and room.f_favail < ROOM_FILES
    if few or room.f_bavail * room.f_frsize < ROOM_BYTES:
        raise RequestRefused(
            "no_room", f"cannot pause: {folder} is full; remove files of the session from it"
        )


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep signals that arrive while the loop is stopped; the ticks alone would be too many for it."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    loops = signal.set_wakeup_fd(writing)
    try:
        yield
    finally:
        signal.set_wakeup_fd(loops)
        with suppress(BlockingIOError):
            came = os.read(reading, 1 << 16).replace(bytes([signal.SIGALRM]), b"")
            os.write(loops, came)
        os.close(reading)
        os.close(writing)
