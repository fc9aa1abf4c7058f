"""The record of a capture, and its verification by the rules of a restore: processes, open files, names of
kernels. A session that continues already runs by then; one that is suspended ends only afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from holdfast.base.text import plain
from holdfast.errors import CaptureFailed, LiveUnsupported
from holdfast.runtime.capture import recorded_contents
from holdfast.runtime.guest import layout
from holdfast.runtime.history.drift.holdings import Holdings
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.verification import kernel_check
from holdfast.runtime.verification.gate import ALLOWED
from holdfast.snapshots import record, service, snapshot_policy
from holdfast.snapshots.link import CheckpointerFailed, LinkLost, Target
from holdfast.snapshots.record import RecordedTree, StateRecord
from holdfast.snapshots.snapshot_policy import Violation

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

# Files that the engine mounts over the image in each container.
_NOT_IN_IMAGE = ("/proc", "/sys", "/dev", "/run/secrets", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


def tree(context: Context, session: SessionRow, staging: Path, still: Target | None) -> RecordedTree:
    """Return the processes in the folder of a capture, if they can be restored.

    `still` is the session, if it stays frozen meanwhile.

    Raises:
        LiveUnsupported: a restore would refuse the capture.
        CaptureFailed: the process images cannot be read.
    """
    try:
        with service.ask(
            context.engine,
            context.home,
            context.progress,
            "describe",
            folder=staging.name,
            ours=True,
            **(still.fields() if still is not None else {}),
        ) as link:
            answer = link.until("done")
        found = RecordedTree.model_validate(answer["tree"])
        _judge(session, [*snapshot_policy.judge(found, ALLOWED), *snapshot_policy.strange(answer["strange"])])
    except (CheckpointerFailed, LinkLost, ValidationError) as error:
        raise CaptureFailed(
            f"cannot snapshot session {session.name}: its process images cannot be read ({_why(error)})",
            hint="the session continues; try again",
        ) from error
    return found


def remember(
    session: SessionRow, staging: Path, tree: RecordedTree, layers: Sequence[Path], held: Holdings | None
) -> None:
    """Write `record.json.gz` into the folder of a capture.

    Args:
        session: the session that was captured.
        staging: the folder.
        tree: its processes.
        layers: the folders of its image's layers, the topmost first; none if unknown.
        held: what the session reported before.

    Raises:
        LiveUnsupported: a restore would refuse a record of this size.
        OSError: the file cannot be written.
    """
    paths = [
        one.what
        for process in tree.processes
        for one in process.descriptors
        if one.kind == "file" and not one.deleted and one.what.startswith("/")
    ]
    mounts = [mount.target for mount in SessionOptions.parse(**session.options).mounts]
    elsewhere = (*_NOT_IN_IMAGE, str(layout.RUN_DIR), *mounts)
    files = recorded_contents.digests(paths, layers, elsewhere)
    try:
        record.write(staging, StateRecord(tree=tree, files=files, kernels=kernel_check.kernel_records(held)))
    except record.RecordTooLarge as error:
        raise _unrestorable(session, str(error)) from error


def _judge(session: SessionRow, violations: list[Violation]) -> None:
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise _unrestorable(session, f"{violations[0]}{more}")


def _unrestorable(session: SessionRow, why: str) -> LiveUnsupported:
    return LiveUnsupported(
        f"cannot take a live snapshot of session {session.name}: it could not be restored: {plain(why, 300)}",
        hint="the session continues, nothing was kept; `--kind filesystem` keeps its files only",
    )


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
