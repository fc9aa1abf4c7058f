"""The pause around a capture: no client, no socket, until the host says what became of this process.

A captured process may wake as itself, or as a copy in another container with another name. A connection to
the outside could not be captured, so there is none, and the host speaks through a file. It is looked for at
the ticks of an interval timer: unlike the loop's own timers, that one is captured with the time it has left,
and works whatever the clock says after a restore. Nothing else is done meanwhile: what would be captured in
the middle of a look at a process would have files of it open that a copy is not given.
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

from holdfast.runtime.guest.clock import SteadyLoop
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.identity.identity import read_object
from holdfast.runtime.guest.wire.call import Call
from holdfast.runtime.guest.wire.connection import Refusal
from holdfast.runtime.guest.wire.supervisor_server import Server

TICK = 0.002
PATIENCE = 10.0
"""Seconds after which the session listens again by itself: its controller may be dead, and no other one came,
which would have ended the pause. A machine with far too much to do takes some of them to begin a capture."""
ROOM_BYTES = 64 << 10
ROOM_FILES = 8
"""What has to be free in the shared folder: for two small files of each side, and the socket."""

logger = logging.getLogger(__name__)


class Pause:
    """Ends all connections on request, and listens again when told or after a while."""

    def __init__(self, loop: SteadyLoop, guest: Guest, server: Server) -> None:
        self._loop = loop
        self._guest = guest
        self._server = server
        self._token = ""
        self._began = 0.0
        self._waking: asyncio.Task[None] | None = None

    async def prepare(self, call: Call) -> None:
        """Answer when nothing but this connection is left; it is closed right after."""
        guest, layout = self._guest, self._guest.layout
        _check_room(layout.run)
        await guest.hooks.settled()
        token = secrets.token_hex(16)
        try:
            layout.wake.unlink(missing_ok=True)
            for desk in guest.desks.values():
                desk.cut()
            guest.captures.pausing()
            await self._server.close(spare=call.connection)
            self._hold(hold=True)
            for shell in guest.shells.values():
                shell.drain()
                shell.recording.flush()
            for keyboard in guest.keyboards.values():
                keyboard.flush()
            guest.tasks.drain()
            guest.engine_files.look()
            guest.lineage.look()
            guest.watch.hold()
            moment = guest.moment()
            guest.journal.pause()
            layout.paused(token).touch()
            await call.finish(
                "prepared",
                token=token,
                generation=guest.identity.generation,
                **moment,
            )
        except BaseException:
            # The client went away: nobody will capture.
            layout.paused(token).unlink(missing_ok=True)
            self._hold(hold=False)
            guest.journal.resume()
            for desk in guest.desks.values():
                desk.woken(copy=False)
            guest.captures.woken("aborted", "")
            guest.watch.resume()
            self._waking = self._loop.create_task(self._server.listen_again())
            raise
        self._begin(token)

    def _hold(self, *, hold: bool) -> None:
        """Keep the terminals still, or let them go on."""
        for shell in self._guest.shells.values():
            shell.hold(hold=hold)
        self._guest.tasks.hold(hold=hold)

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
            while not self._told():
                signal.pause()

    def _told(self) -> bool:
        """Whether the pause is over: somebody has said so, or nobody has for long."""
        layout = self._guest.layout
        if layout.wake.exists():
            told = read_object(layout.wake)
            if told is not None and told.get("token") == self._token:
                self._end(told)
                return True
        if self._loop.time() - self._began > PATIENCE:
            logger.warning("nobody ended the pause in %.0f s", PATIENCE)
            self._end(read_object(layout.session) or {})
            return True
        return False

    def _end(self, told: dict[str, Any]) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._loop.watchful = False
        guest = self._guest
        # First of all: who finds it while everything stands still may rely on all that a pause is.
        guest.layout.paused(self._token).unlink(missing_ok=True)
        self._token = ""
        self._hold(hold=False)
        guest.layout.wake.unlink(missing_ok=True)
        guest.journal.resume()
        event = told.get("event")
        for desk in guest.desks.values():
            desk.woken(copy=event == "restored")
        # Who asks first is the controller, when the last process of the copy runs.
        guest.arriving = event == "restored"
        guest.become(told, event if event in ("resumed", "restored") else "aborted")
        guest.watch.resume()
        logger.info("%s as %s", told.get("event", "woke"), guest.identity)
        self._waking = self._loop.create_task(self._server.listen_again())


def _check_room(folder: Path) -> None:
    """Refuse to pause where the host could not leave word, and this process could not make its socket."""
    room = os.statvfs(folder)
    few = room.f_files and room.f_favail < ROOM_FILES
    if few or room.f_bavail * room.f_frsize < ROOM_BYTES:
        raise Refusal("no_room", f"cannot pause: {folder} is full, remove what is not the supervisor's")


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep signals for the loop that come while it does not run; ticks alone would be too many for it."""
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
