"""Code shared by the trials of both suites: sessions that are removed at the end, the versions they
ran on.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from holdfast import Holdfast, Session, __version__
from holdfast.errors import HoldfastError
from holdfast.snapshots import service

Say = Callable[[str], None]


def note(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextmanager
def scratch(controller: Holdfast) -> Iterator[list[Session]]:
    """Give a list for sessions; remove its sessions at the end, with their snapshots."""
    sessions: list[Session] = []
    try:
        yield sessions
    finally:
        ours = {session.id for session in sessions}
        for session in reversed(sessions):
            # One that cannot be removed does not keep the others.
            with suppress(HoldfastError):
                session.remove()
        for snapshot in reversed(controller.snapshots()):
            if snapshot.session_id in ours:
                with suppress(HoldfastError):
                    snapshot.remove()


def versions(controller: Holdfast) -> dict[str, str]:
    """Return the versions a result depends on, without names of machines."""
    with service.ask(controller.engine, controller.home, controller.context.progress, "hello") as link:
        told = link.until("done")
    return {
        "Holdfast": __version__,
        "CRIU": str(told.get("criu", "?")),
        "Docker": str(controller.engine.info().get("ServerVersion", "?")),
        "Linux": platform.release(),
        "on": platform.machine(),
    }
