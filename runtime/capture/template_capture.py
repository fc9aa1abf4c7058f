"""Templates: live snapshots with a reserved name, from which new sessions start.

A template is an ordinary snapshot that no policy deletes. Owns making and replacing them; how a session
starts from one is in `runtime/restore/template_start.py`.
"""

from __future__ import annotations

from contextlib import suppress

from holdfast.base import ids
from holdfast.errors import InvalidArgument, SnapshotInUse
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.operations.context import Context
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def make(
    context: Context, session: SessionRow, name: str, *, replace: bool = False, reason: str | None = None
) -> SnapshotRow:
    """Capture a session as a template; the session continues.

    Args:
        context: the context of the call.
        session: a running one.
        name: of the template, among the labels of snapshots.
        replace: let a template of this name be replaced. It stays until the new one is whole.
        reason: why, for people who read the tree later.

    Raises:
        InvalidArgument: the name is not valid, or taken; or it belongs to a snapshot that is not a template.
        LiveUnsupported, CaptureFailed, StoreError, SessionBusy, SessionDead: nothing was captured.
    """
    ids.check_name(name, "template")
    before = next((row for row in context.store.snapshots() if row.label == name), None)
    if before is not None:
        _require_replaceable(before, name, replace=replace)
    taken = snapshot_service.take(context, session, name if before is None else None, "live", reason)
    made = context.store.mark_template(taken.id, instead_of=before.id if before is not None else None)
    if before is not None:
        with suppress(SnapshotInUse):  # a session is suspended in it, or being restored from it
            snapshot_storage.remove_snapshot(context, before)
    return made


def _require_replaceable(before: SnapshotRow, name: str, *, replace: bool) -> None:
    if not before.details.template:
        raise InvalidArgument(
            f"cannot make template '{name}': a snapshot that is not a template has that name",
            hint=f"choose a different name, or `holdfast rmi {name}`",
        )
    if not replace:
        raise InvalidArgument(
            f"cannot make template '{name}': there is one already",
            hint="choose a different name, or replace it with --replace",
        )
