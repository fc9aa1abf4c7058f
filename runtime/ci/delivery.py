"""Delivery of captures to where they outlive this machine: a file or a registry; otherwise they stay here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import own_folders
from holdfast.base.suggestion import quoted
from holdfast.errors import StoreError
from holdfast.runtime.ci.job_summary import KeptCapture

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.transfer.push_pull import Exported, Pushed

READABLE = "anyone who gets it can read them; encrypt with --encrypt-to KEY or --passphrase"
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class DeliveryTarget:
    """The destination of snapshots: files of a folder, a reference of a registry, or, without both, none.

    `options` are the options of `Snapshot.export` and `Snapshot.push`: the signing key, the recipients of
    encryption.
    """

    folder: Path | None = None
    reference: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self, home: Home, note: Callable[[str], None]) -> None:
        """Check that delivery is possible, before the job spends an hour on its result.

        Without a signing key, one is made, which is reported to `note`.

        Raises:
            InvalidArgument: the reference is not valid; the signing key is missing or locked.
            StoreError: the folder cannot be made.
        """
        if self.reference is None and self.folder is None:
            return
        from holdfast.runtime.transfer import transfer_options
        from holdfast.snapshots.bundle.keys import Keys

        if self.reference is not None:
            from holdfast.snapshots.registry.reference import Reference

            Reference.parse(self.reference)
        if self.folder is not None:
            _make(self.folder)
        key, new = Keys(home).sending(self.options.get("key"), self.options.get("passphrase"))
        if new:
            note(transfer_options.made_key(key.public))


class Deliveries:
    """All deliveries of one job; no two get the same name."""

    def __init__(self, destination: DeliveryTarget) -> None:
        self._destination = destination
        self._names: set[str] = set()

    def name(self, wanted: str) -> str:
        """Return a name for the next one, from a test's id or the like."""
        base = _PLAIN.sub("-", wanted).strip("-.")[:80].lower() or "failure"
        name, number = base, 2
        while name in self._names:
            name, number = f"{base}-{number}", number + 1
        self._names.add(name)
        return name

    def place(self, name: str) -> str | None:
        """Return the argument with which to thaw a snapshot of that name; None if it stays here."""
        if self._destination.reference is not None:
            return self._reference(name)
        folder = self._destination.folder
        return None if folder is None else str(folder / f"{name}{own_folders.BUNDLE}")

    def deliver(self, snapshot: Snapshot, name: str, title: str, note: Callable[[str], None]) -> KeptCapture:
        """Export or push it; `note` gets messages for its recipients.

        Raises:
            HoldfastError: it failed; the snapshot is still here.
        """
        place = self.place(name)
        if place is None:
            return KeptCapture(title, command(snapshot.name), snapshot.size, snapshot.kind)
        if self._destination.reference is not None:
            pushed = snapshot.push(place, **self._destination.options)
            place = pushed.pinned  # the tag may be someone else's by the time it is used
            sent: Exported | Pushed = pushed
        else:
            _make(Path(place).parent)
            sent = snapshot.export(Path(place), **self._destination.options)
        for warning in sent.warnings:
            note(warning)
        options = self._destination.options
        if sent.warnings and not (options.get("encrypt_to") or options.get("bundle_passphrase")):
            note(READABLE)
        snapshot.remove()
        return KeptCapture(title, command(place), sent.sent, snapshot.kind)

    def _reference(self, name: str) -> str:
        """Return `registry/ci:run-7` for the failure itself, `registry/ci:run-7-a-test` for others."""
        reference = self._destination.reference or ""
        if name == "failure":
            return reference
        repository, colon, tag = reference.rpartition(":")
        if not colon or "/" in tag:
            return f"{reference}:{name}"
        return f"{repository}:{tag}-{name}"[: len(repository) + 129]


def _make(folder: Path) -> None:
    try:
        own_folders.make(folder)
    except OSError as error:
        raise StoreError(f"cannot make {folder}: {error.strerror or error}") from error


def command(place: str) -> str:
    """Return the command that thaws it."""
    return f"holdfast thaw {quoted(place)}"
