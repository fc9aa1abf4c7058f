"""Snapshots to files and from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.bundle_files import Exported, Progress
from holdfast.runtime.scrubbing import rules_file
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.runtime.transfer import receive, send
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin
from holdfast.snapshots.bundle.sealing import Sealing

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


def export(
    context: Context,
    snapshot: SnapshotRow,
    path: Path,
    key: tuple[str | None, str | None],
    *,
    sealed_for: tuple[tuple[str, ...], str | None] = ((), None),
    compression: str,
    secrets: str | None = None,
    progress: Progress,
) -> Exported:
    """Write a snapshot to a file; `key` is a name and a passphrase.

    Raises as `sending.send`, and InvalidArgument.
    """
    encrypt = Sealing.new(*sealed_for) if any(sealed_for) else None
    rules = rules_file.read(context.home)
    scrubs = rules_file.action(secrets, rules) != "ignore"
    name = Scrubber(rules.matcher()).text(snapshot.name) if scrubs else snapshot.name
    sign, new_key = Keys(context.home).sending(*key)
    with FileDestination(path, name) as destination:
        sent = send.send(
            context,
            snapshot,
            destination,
            sign=sign,
            encrypt=encrypt,
            compression=compression,
            secrets=secrets,
            progress=progress,
        )
    return Exported(
        Path(sent.where),
        sent.digest,
        path.stat().st_size,
        sign.public,
        sent.warnings,
        sent.findings,
        sent.scrubbed,
        new_key,
    )


def import_(
    context: Context,
    path: Path,
    label: str | None,
    *,
    files_only: bool,
    passphrases: tuple[str | None, str | None] = (None, None),
    options: Mapping[str, Any],
    progress: Progress,
) -> SnapshotRow:
    """Take a snapshot in from a file. Raises as `receiving.receive`."""
    with FileOrigin(path) as origin:
        return receive.receive(
            context,
            origin,
            label=label,
            files_only=files_only,
            opener=Keys(context.home).opener(*passphrases),
            options=options,
            progress=progress,
        )
