"""Errors of failed captures: the reason in the words of the survivability report, and what to do."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import CaptureFailed, HoldfastError, LiveUnsupported, StoreError
from holdfast.snapshots import explain
from holdfast.snapshots.link import CheckpointerFailed

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow


def of_capture(
    session: SessionRow, root: Path, refusal: CheckpointerFailed, names: Mapping[tuple[int, int | None], str]
) -> HoldfastError:
    """Return the error for a refusal of the checkpointer; `names` has commands by pid and descriptor."""
    if refusal.kind != "criu":
        return CaptureFailed(
            f"cannot snapshot session {session.name}: {refusal}", hint="the session continues"
        )
    reason = explain.named(explain.explain(refusal.errors), names)
    if reason.no_space:
        return full(session, root)
    message = f"cannot take a live snapshot of session {session.name}: {reason.text}"
    hint = f"{reason.advice}; the session continues; `--kind filesystem` keeps its files only"
    if not reason.known:
        return CaptureFailed(message, hint=hint)
    finding = {
        "verdict": "blocks",
        "kind": reason.kind,
        "pid": reason.pid,
        "fd": reason.fd,
        "command": names.get((reason.pid, None), "") if reason.pid is not None else "",
        "what": names.get((reason.pid, reason.fd), "") if reason.pid is not None else "",
        "reason": reason.text,
        "advice": reason.advice,
    }
    return LiveUnsupported(message, hint=hint, findings=(finding,))


def unwritable(session: SessionRow, root: Path, error: OSError) -> StoreError:
    """Return the error for a state directory that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full(session, root)
    return StoreError(
        f"cannot snapshot session {session.name}: {root} cannot be written ({error.strerror or error})",
        hint="the session continues",
    )


def full(session: SessionRow, root: Path) -> StoreError:
    """Return the error for a state directory without space; what had been written of the snapshot is gone."""
    try:
        free = f"more than the {shutil.disk_usage(root).free >> 20} MiB that are free"
    except OSError:
        free = "all space"
    return StoreError(
        f"cannot snapshot session {session.name}: no space left in {root}: it takes {free}",
        hint="make room, or set HOLDFAST_HOME to a folder on a larger disk; the session continues",
    )
