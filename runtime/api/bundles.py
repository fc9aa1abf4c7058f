"""What handles can do about bundles: a snapshot's part that sends them, a controller's that takes them in.

How it is done is in `runtime.transfer`, imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow
    from holdfast.runtime.transfer.bundle_transfer import Exported, Pushed

Progress = Callable[[int, int], None]


def _quiet(_done: int, _all: int) -> None:
    return None


class Outgoing:
    """Sends one snapshot to files and registries."""

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
        from holdfast.runtime.transfer import bundle_transfer
        from holdfast.runtime.transfer.transfer_options import SendOptions

        options = SendOptions.signed(
            self._context.home,
            (key, passphrase),
            (encrypt_to, bundle_passphrase),
            compression=compression,
            secrets=secrets,
            progress=progress,
        )
        return bundle_transfer.export(self._context, self._row, Path(path), options)

    def push(
        self,
        reference: str,
        *,
        key: str | None = None,
        passphrase: str | None = None,
        compression: str = "gzip",
        secrets: str | None = None,
        encrypt_to: Sequence[str] = (),
        bundle_passphrase: str | None = None,
        plain_http: bool = False,
        progress: Progress = _quiet,
    ) -> Pushed:
        """Send it to a registry, under a reference that any home which trusts the key can pull.

        What the registry has is not sent again, and what was cut off goes on. Nothing is found under the
        reference before all of it is there. Credentials are those of `docker login`, or
        HOLDFAST_REGISTRY_USER and HOLDFAST_REGISTRY_PASSWORD.

        Args:
            reference: `host[:port]/name[:tag]`; without a tag, `latest`.
            key: as for `export`, like all that is not named here.
            passphrase: of the key, if it has one.
            compression: of the image's layers.
            secrets: about those found in memory and files.
            encrypt_to: keys of those who may open it, all of it. It is no ordinary image then, and nothing of
                it is shared with what is there.
            bundle_passphrase: that opens it, too.
            plain_http: without TLS, also to a registry that is not on this machine.
            progress: is called with bytes done, and of how many.

        Raises:
            SecretsFound: it holds some, and is refused then.
            RegistryDenied, RegistryUnavailable, RegistryError: the registry does not let us, or not answer.
            SnapshotDamaged, SnapshotNotFound, InvalidArgument, StoreError, EngineError: it cannot be sent.
        """
        from holdfast.runtime.transfer import bundle_transfer
        from holdfast.runtime.transfer.transfer_options import SendOptions

        wire = bundle_transfer.way(reference, plain_http=plain_http)
        options = SendOptions.signed(
            self._context.home,
            (key, passphrase),
            (encrypt_to, bundle_passphrase),
            compression=compression,
            secrets=secrets,
            progress=progress,
        )
        return bundle_transfer.push(self._context, self._row, wire, options)


class Incoming:
    """Takes snapshots in from files and registries."""

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
        from holdfast.runtime.transfer import bundle_transfer
        from holdfast.runtime.transfer.transfer_options import ReceiveOptions
        from holdfast.snapshots.bundle.keys import Keys

        opener = Keys(self._context.home).opener(passphrase, key_passphrase)
        wanted = ReceiveOptions(label, files_only, opener, options, progress)
        return Snapshot(self._context, bundle_transfer.import_(self._context, Path(path), wanted))

    def pull(
        self,
        /,
        reference: str,
        *,
        label: str | None = None,
        files_only: bool = False,
        passphrase: str | None = None,
        key_passphrase: str | None = None,
        plain_http: bool = False,
        progress: Progress = _quiet,
        **options: Any,
    ) -> Snapshot:
        """Take a snapshot in from a registry, where `Snapshot.push` sent it.

        Args:
            reference: `host[:port]/name[:tag][@digest]`.
            label: a name for it here; by default the one it had, if that is free.
            files_only: leave memory and processes; needs no trust in who signed it.
            passphrase: that it was encrypted with. What was encrypted for a key of this home needs none.
            key_passphrase: of that key, if it has one.
            plain_http: without TLS, also from a registry that is not on this machine.
            progress: is called with bytes done, and of how many.
            options: network, allow, memory, cpus, pids, user, workdir of sessions made of it; those of the
                bundle do not count.

        Raises:
            ReferenceNotFound, RegistryDenied, RegistryUnavailable, RegistryError: it cannot be had.
            BundleUntrusted: it is signed by nobody who is trusted here.
            BundleRefused: it is damaged, forged, or more than may come in.
            StoreError, EngineError: it cannot be kept. Nothing is left of it in any case.
        """
        from holdfast.runtime.api.snapshot import Snapshot
        from holdfast.runtime.transfer import bundle_transfer
        from holdfast.runtime.transfer.transfer_options import ReceiveOptions
        from holdfast.snapshots.bundle.keys import Keys

        wire = bundle_transfer.way(reference, plain_http=plain_http)
        opener = Keys(self._context.home).opener(passphrase, key_passphrase)
        wanted = ReceiveOptions(label, files_only, opener, options, progress)
        return Snapshot(self._context, bundle_transfer.pull(self._context, wire, wanted))
