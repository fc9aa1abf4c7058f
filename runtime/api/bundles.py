"""Bundles, as handles offer them: sending a snapshot, and importing one.

How it is done is in `runtime.transfer`, imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow
    from holdfast.runtime.transfer.push_pull import Exported, Pushed

Progress = Callable[[int, int], None]


def _quiet(_done: int, _all: int) -> None:
    return None


@contextmanager
def transferring(context: Context, text: str, progress: Progress) -> Iterator[Progress]:
    """Yield a function that passes amounts on to a caller's, and reports them as a step."""
    report = context.doing_bytes(text)

    def tell(done: int, total: int) -> None:
        progress(done, total)
        report(done, total)

    try:
        yield tell
    finally:
        context.idle()


class Outgoing:
    """Sends one snapshot to files and registries."""

    def __init__(self, context: Context, row: SnapshotRow) -> None:
        self._context = context
        self._row = row

    def export(
        self,
        path: Path | str | int,
        *,
        key: str | None = None,
        passphrase: str | None = None,
        compression: str = "gzip",
        secrets: str | None = None,
        encrypt_to: Sequence[str] = (),
        bundle_passphrase: str | None = None,
        shared: bool = False,
        thin: bool = False,
        progress: Progress = _quiet,
    ) -> Exported:
        """Write it to a file, which any home that trusts the key can import.

        Args:
            path: the file; an existing one is replaced when everything is written. Or the number of an
                open descriptor, such as of a pipe, to which it is written as it is made.
            key: the name of the key to sign with; by default the only one, or the one called default. If
                there is none at all, one is made.
            passphrase: of the key, if it has one.
            compression: of the image's layers: `gzip`, or `zstd` for engines since Docker 23.
            secrets: for those found in memory and files: `warn`, `refuse` or `ignore`; None for what
                scrub.json says. Those in texts are scrubbed, unless they are ignored.
            encrypt_to: keys (`x25519:…`, see `holdfast key list`) that may open it; all of it is
                encrypted.
            bundle_passphrase: a passphrase that also opens it.
            shared: write its parts to `blobs` beside the file, unless another export of that folder has
                written them; the file only leads to them.
            thin: leave out the layers of Holdfast's session image. Only engines that have that very image can
                import it: it was loaded there, not built there.
            progress: called with the bytes done, and the total.

        Raises:
            SecretsFound: it holds secrets, and they were to be refused.
            SnapshotDamaged, SnapshotNotFound, InvalidArgument, StoreError, EngineError: nothing was written.
        """
        from holdfast.runtime.transfer import push_pull
        from holdfast.runtime.transfer.transfer_options import SendOptions

        options = partial(
            SendOptions.signed,
            self._context.home,
            (key, passphrase),
            (encrypt_to, bundle_passphrase),
            compression=compression,
            secrets=secrets,
        )
        where = path if isinstance(path, int) else Path(path)
        if shared and isinstance(where, int):
            raise InvalidArgument("cannot share parts with others through a pipe", hint="name a file")
        with transferring(self._context, f"exporting {self._row.name}", progress) as told:
            how = options(progress=told)
            return push_pull.export(self._context, self._row, where, how, shared=shared, thin=thin)

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

        Parts that the registry has are not sent again, and an interrupted push continues. The reference
        appears only when everything has arrived. Credentials are those of `docker login`, or
        HOLDFAST_REGISTRY_USER and HOLDFAST_REGISTRY_PASSWORD.

        Args:
            reference: `host[:port]/name[:tag]`; without a tag, `latest`.
            key: as for `export`, like all others that are not described here.
            passphrase: of the key, if it has one.
            compression: of the image's layers.
            secrets: for those found in memory and files.
            encrypt_to: keys that can open it. The encrypted bundle is not an ordinary image, and shares
                nothing with what the registry has.
            bundle_passphrase: a passphrase that also opens it.
            plain_http: without TLS, even to a registry on another machine.
            progress: called with the bytes done, and the total.

        Raises:
            SecretsFound: it holds secrets, and they were to be refused.
            RegistryDenied, RegistryUnavailable, RegistryError: the registry refuses, or does not answer.
            SnapshotDamaged, SnapshotNotFound, InvalidArgument, StoreError, EngineError: it cannot be sent.
        """
        from holdfast.runtime.transfer import push_pull
        from holdfast.runtime.transfer.transfer_options import SendOptions

        wire = push_pull.registry_wire(reference, plain_http=plain_http)
        options = partial(
            SendOptions.signed,
            self._context.home,
            (key, passphrase),
            (encrypt_to, bundle_passphrase),
            compression=compression,
            secrets=secrets,
        )
        with transferring(self._context, f"pushing {self._row.name}", progress) as told:
            return push_pull.push(self._context, self._row, wire, options(progress=told))


class Incoming:
    """Imports snapshots from files and registries."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def import_(
        self,
        /,
        path: Path | str | int,
        *,
        label: str | None = None,
        files_only: bool = False,
        passphrase: str | None = None,
        key_passphrase: str | None = None,
        progress: Progress = _quiet,
        **options: Any,
    ) -> Snapshot:
        """Import a snapshot from a file that `Snapshot.export` wrote.

        Args:
            path: the file, or the number of an open descriptor, which is read to its end first.
            label: a name for it here; by default its label at the sender, if that is free.
            files_only: leave out memory and processes; the signer does not have to be trusted.
            passphrase: it was encrypted with. A bundle encrypted for a key of this home needs none.
            key_passphrase: of that key, if it has one.
            progress: called with the bytes done, and the total.
            options: network, allow, deny, memory, cpus, pids, user, workdir of sessions made of it; those of
                the bundle do not count.

        Raises:
            BundleUntrusted: this home does not trust its signer.
            BundleRefused: it is damaged, forged, or exceeds a limit.
            StoreError, EngineError: it cannot be read or stored. Nothing is left of it in any case.
        """
        from holdfast.runtime.api.snapshot import Snapshot
        from holdfast.runtime.transfer import push_pull
        from holdfast.runtime.transfer.transfer_options import ReceiveOptions
        from holdfast.snapshots.bundle.keys import Keys

        opener = Keys(self._context.home).opener(passphrase, key_passphrase)
        file = path if isinstance(path, int) else Path(path)
        with transferring(self._context, "importing", progress) as told:
            wanted = ReceiveOptions(label, files_only, opener, options, told)
            return Snapshot(self._context, push_pull.import_(self._context, file, wanted))

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
        """Import a snapshot from a registry, where `Snapshot.push` sent it.

        Args:
            reference: `host[:port]/name[:tag][@digest]`.
            label: a name for it here; by default its label at the sender, if that is free.
            files_only: leave out memory and processes; the signer does not have to be trusted.
            passphrase: it was encrypted with. A bundle encrypted for a key of this home needs none.
            key_passphrase: of that key, if it has one.
            plain_http: without TLS, even from a registry on another machine.
            progress: called with the bytes done, and the total.
            options: network, allow, deny, memory, cpus, pids, user, workdir of sessions made of it; those of
                the bundle do not count.

        Raises:
            ReferenceNotFound, RegistryDenied, RegistryUnavailable, RegistryError: it cannot be fetched.
            BundleUntrusted: this home does not trust its signer.
            BundleRefused: it is damaged, forged, or exceeds a limit.
            StoreError, EngineError: it cannot be stored. Nothing is left of it in any case.
        """
        from holdfast.runtime.api.snapshot import Snapshot
        from holdfast.runtime.transfer import push_pull
        from holdfast.runtime.transfer.transfer_options import ReceiveOptions
        from holdfast.snapshots.bundle.keys import Keys

        wire = push_pull.registry_wire(reference, plain_http=plain_http)
        opener = Keys(self._context.home).opener(passphrase, key_passphrase)
        with transferring(self._context, f"pulling {plain(reference, 100)}", progress) as told:
            wanted = ReceiveOptions(label, files_only, opener, options, told)
            return Snapshot(self._context, push_pull.pull(self._context, wire, wanted))
