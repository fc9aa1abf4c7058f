"""The upgrade of a home in which sessions of an older version run: refused, unless they are to be left
behind.

Takes what the store and the engine say; knows neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.errors import EngineError, StoreError

VARIABLE = "HOLDFAST_LEAVE_RUNNING"
_SHOWN = 5


def check(home: Path, sessions: Mapping[str, str], running: Callable[[], set[str]]) -> None:
    """Check that the upgrade leaves no running session behind, or that the user chose that.

    Args:
        home: the state directory.
        sessions: the names, by container, of sessions that run according to the store.
        running: returns the containers of the home that run. Raises EngineError.

    Raises:
        StoreError: some run, or the engine does not say which.
    """
    if not sessions or os.environ.get(VARIABLE):
        return
    try:
        there = running()
    except EngineError as error:
        raise StoreError(
            f"cannot open {home} with this version: it holds {_counted(list(sessions.values()), '')} of an "
            f"older one, and the engine does not say whether they run ({error})",
            hint=f"start the engine; {VARIABLE}=1 upgrades the home anyway; running processes are lost",
        ) from error
    left = [name for container, name in sessions.items() if container in there]
    if left:
        raise StoreError(
            f"cannot open {home} with this version: it holds {_counted(left, 'running ')} of an older one, "
            "which this version could not reach",
            hint=(
                f"suspend or remove them with that version first; {VARIABLE}=1 upgrades the home "
                "anyway, and their uncaptured state is lost"
            ),
        )


def _counted(names: Sequence[str], what: str) -> str:
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} {what}session{'s' if len(names) > 1 else ''} ({shown})"
