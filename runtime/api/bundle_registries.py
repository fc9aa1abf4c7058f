"""What handles can do about registries: a snapshot's part that pushes, and a controller's that pulls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
class Pushed:
    """A snapshot in a registry: its reference, the digest of the bundle, and the key that signed it.

    `bytes` is what it takes there altogether, `sent` what was not there before. `warnings` say what is in it
    that others should perhaps not have, in words; `findings` which secrets were found where, `scrubbed` how
    many of each rule were taken out of texts. `new_key`: there was no key, and this one was made for it.
    """

    reference: str
    digest: str
    bytes: int
    sent: int
    signed_by: str
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    scrubbed: Mapping[str, int] = field(default_factory=dict)
    new_key: bool = False

    @property
    def pinned(self) -> str:
        """The reference with the digest: this very snapshot, also when the tag has gone on."""
        return f"{self.reference}@{self.digest}"


class Pushing:
    """Sends one snapshot to a registry."""

    def __init__(self, context: Context, row: SnapshotRow) -> None:
        self._context = context
        self._row = row

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
            key: the name of the key to sign with; by default the only one, or the one called default. If
                there is none at all, one is made.
            passphrase: of the key, if it has one.
            compression: of the image's layers: `gzip`, or `zstd` for engines since Docker 23.
            secrets: about those found in memory and files: `warn`, `refuse` or `ignore`; None for what
                scrub.json says. Those in texts are scrubbed, unless they are ignored.
            encrypt_to: keys (`x25519:…`, see `holdfast key list`) of those who may open it, all of it. It is
                no ordinary image then, and nothing of it is shared with what is there.
            bundle_passphrase: that opens it, too.
            plain_http: without TLS, also to a registry that is not on this machine.
            progress: is called with bytes done, and of how many.

        Raises:
            SecretsFound: it holds some, and is refused then.
            RegistryDenied, RegistryUnavailable, RegistryError: the registry does not let us, or not answer.
            SnapshotDamaged, SnapshotNotFound, InvalidArgument, StoreError, EngineError: it cannot be sent.
        """
        from holdfast.runtime.transfer.registry_transfer import push

        return push(
            self._context,
            self._row,
            reference,
            (key, passphrase),
            sealed_for=(tuple(encrypt_to), bundle_passphrase),
            compression=compression,
            secrets=secrets,
            plain_http=plain_http,
            progress=progress,
        )


class Pulling:
    """Imports snapshots from registries."""

    def __init__(self, context: Context) -> None:
        self._context = context

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
        from holdfast.runtime.transfer.registry_transfer import pull

        row = pull(
            self._context,
            reference,
            label,
            files_only=files_only,
            plain_http=plain_http,
            passphrases=(passphrase, key_passphrase),
            options=options,
            progress=progress,
        )
        return Snapshot(self._context, row)
