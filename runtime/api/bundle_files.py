"""What handles can do about files: a snapshot's part that exports, and a controller's that imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.scrubbing.secret_finding import Finding
    from holdfast.runtime.store.rows import SnapshotRow

Progress = Callable[[int, int], None]


def _quiet(_done: int, _all: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Exported:
    """A snapshot in a file: its path, the digest of the bundle, bytes, and the key that signed it.

    `warnings` say what is in it that others should perhaps not have, in words; `findings` which secrets were
    found where, `scrubbed` how many of each rule were taken out of texts. `new_key`: there was no key, and
    this one was made for it.
    """

    path: Path
    digest: str
    bytes: int
    signed_by: str
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    scrubbed: Mapping[str, int] = field(default_factory=dict)
    new_key: bool = False


class Exporting:
    """Writes one snapshot to a file."""

    def __init__(self, context: Context, row: SnapshotRow) -> None:
        self._context = context
        self._row = row

    def export(
        self,
        path: Path | str,
        *,
        key: str | None = None,
        passphrase: str | None = None,
        compression: str = "gzip",
        secrets: str | None = None,
        encrypt_to: Sequence[str] = (),
        bundle_passphrase: str | None = None,
        progress: Progress = _quiet,
    ) -> Exported:
        """Write it to a file, which any home that trusts the key can import.

        Args:
            path: of the file; one of that name is replaced when all is written.
            key: the name of the key to sign with; by default the only one, or the one called default. If
                there is none at all, one is made.
            passphrase: of the key, if it has one.
            compression: of the image's layers: `gzip`, or `zstd` for engines since Docker 23.
            secrets: about those found in memory and files: `warn`, `refuse` or `ignore`; None for what
                scrub.json says. Those in texts are scrubbed, unless they are ignored.
            encrypt_to: keys (`x25519:…`, see `holdfast key list`) of those who may open it, all of it.
            bundle_passphrase: that opens it, too.
            progress: is called with bytes done, and of how many.

        Raises:
            SecretsFound: it holds some, and is refused then.
            SnapshotDamaged, SnapshotNotFound, InvalidArgument, StoreError, EngineError: nothing was written.
        """
        from holdfast.runtime.transfer.file_transfer import export

        sealed_for = (tuple(encrypt_to), bundle_passphrase)
        return export(
            self._context,
            self._row,
            Path(path),
            (key, passphrase),
            sealed_for=sealed_for,
            compression=compression,
            secrets=secrets,
            progress=progress,
        )


class Importing:
    """Imports snapshots from files."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def import_(
        self,
        /,
        path: Path | str,
        *,
        label: str | None = None,
        files_only: bool = False,
        passphrase: str | None = None,
        key_passphrase: str | None = None,
        progress: Progress = _quiet,
        **options: Any,
    ) -> Snapshot:
        """Take a snapshot in from a file that `Snapshot.export` wrote.

        Args:
            path: of the file.
            label: a name for it here; by default the one it had, if that is free.
            files_only: leave memory and processes; needs no trust in who signed it.
            passphrase: that it was encrypted with. What was encrypted for a key of this home needs none.
            key_passphrase: of that key, if it has one.
            progress: is called with bytes done, and of how many.
            options: network, allow, memory, cpus, pids, user, workdir of sessions made of it; those of the
                bundle do not count.

        Raises:
            BundleUntrusted: it is signed by nobody who is trusted here.
            BundleRefused: it is damaged, forged, or more than may come in.
            StoreError, EngineError: it cannot be read, or not be kept. Nothing is left of it in any case.
        """
        from holdfast.runtime.api.snapshot import Snapshot
        from holdfast.runtime.transfer.file_transfer import import_

        row = import_(
            self._context,
            Path(path),
            label,
            files_only=files_only,
            passphrases=(passphrase, key_passphrase),
            options=options,
            progress=progress,
        )
        return Snapshot(self._context, row)
