"""The keys of a home: its own, which sign, and trusted keys of others.

    keys/NAME.pem        a private key (PKCS 8), readable by the owner only; encrypted if it has a passphrase
    keys/trusted.json    keys of others, by name

A home without a key that sends something gets one, so that nothing leaves unsigned.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.base import locks, private_files
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, StoreError
from holdfast.snapshots.bundle import form, sealing, signing
from holdfast.snapshots.bundle.sealing import Opener
from holdfast.snapshots.bundle.signing import SigningKey

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key. `own`: its private half is here; `locked`: behind a passphrase, so that even its public half
    is known only from the file next to it. `recipient` is the key that others encrypt for.
    """

    name: str
    public: str
    own: bool
    locked: bool = False
    recipient: str = ""


class Keys:
    """All keys of one home."""

    def __init__(self, home: Home) -> None:
        self._folder = home.root / "keys"
        self._locks = home.locks

    def known(self) -> list[KnownKey]:
        """Return own keys, then trusted ones."""
        own = []
        for path in sorted(self._folder.glob("*.pub")):
            if path.with_suffix(".pem").exists():
                public, _, to = path.read_text().strip().partition(" ")
                locked = _locked(path.with_suffix(".pem"))
                own.append(KnownKey(path.stem, public, own=True, locked=locked, recipient=to))
        return own + [KnownKey(name, public, own=False) for name, public in sorted(self._trusted().items())]

    def new(self, name: str = DEFAULT, passphrase: str | None = None) -> KnownKey:
        """Make a key.

        Raises:
            InvalidArgument: the name is taken.
            SessionBusy: another process is making one, and does not finish.
            StoreError: it cannot be written.
        """
        _check(name)
        with self._alone():
            return self._new(name, passphrase)

    def _new(self, name: str, passphrase: str | None) -> KnownKey:
        key = SigningKey(Ed25519PrivateKey.generate())
        locking: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            locking = serialization.BestAvailableEncryption(passphrase.encode())
        pem = key.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locking
        )
        path = self._folder / f"{name}.pem"
        if path.exists():
            raise InvalidArgument(
                f"cannot make key {name}: a key of that name exists",
                hint=f"`holdfast key list`; choose a different name, or `holdfast key rm {name}`",
            )
        to = sealing.recipient(key.opens)
        # If this is killed, a public half without its private one does not count as a key.
        self._write(path.with_suffix(".pub"), f"{key.public} {to}\n")
        self._write(path, pem)
        return KnownKey(name, key.public, own=True, locked=bool(passphrase), recipient=to)

    def sending(self, name: str | None = None, passphrase: str | None = None) -> tuple[SigningKey, bool]:
        """Return the key that signs outgoing bundles, and whether it was made for lack of one.

        The passphrase, if given, also becomes a new key's.

        Raises:
            InvalidArgument: as `signer`.
            SessionBusy, StoreError: as `new`.
        """
        if (key := self.signer(name, passphrase)) is not None:
            return key, False
        with self._alone():
            if (key := self.signer(name, passphrase)) is not None:  # another process was faster
                return key, False
            return self._open(self._new(DEFAULT, passphrase), passphrase), True

    def signer(self, name: str | None = None, passphrase: str | None = None) -> SigningKey | None:
        """Return the signing key: the named one, else the only one or the default; None if there is none.

        Raises:
            InvalidArgument: the choice is ambiguous, or the key does not exist or cannot be opened.
        """
        own = [one for one in self.known() if one.own]
        if name is None and not own:
            return None
        chosen = [one for one in own if name in (one.name, one.public)] if name else own
        if len(chosen) > 1:
            chosen = [one for one in chosen if one.name == DEFAULT]
        if not chosen:
            wanted = form.shown(name) if name else "none of them is called default"
            raise InvalidArgument(
                f"cannot sign: unknown key {wanted}"
                if name
                else f"cannot sign: there are several keys, {wanted}",
                hint="name one of `holdfast key list`",
            )
        return self._open(chosen[0], passphrase)

    def opener(self, passphrase: str | None = None, key_passphrase: str | None = None) -> Opener:
        """Return the means by which this home opens bundles: its key, unless that is locked, and a
        passphrase.

        Raises:
            InvalidArgument: a passphrase for its key was given, and is wrong.
        """
        own = [one for one in self.known() if one.own and (key_passphrase or not one.locked)]
        chosen = [one for one in own if one.name == DEFAULT] or own[:1]
        private = self._open(chosen[0], key_passphrase).opens if chosen else None
        return Opener(private, passphrase)

    def trust(self, public: str, name: str | None = None) -> KnownKey:
        """Trust this key's signatures like this home's own.

        Raises:
            InvalidArgument: it is not a key, or the name is another key's.
        """
        public = public.strip()
        if not signing.is_public(public):
            raise InvalidArgument(
                f"cannot trust '{form.shown(public)[:80]}': it is not a key",
                hint=(
                    "a key looks like ed25519:… and 43 characters; `holdfast key list` shows it to its owner"
                ),
            )
        trusted = self._trusted()
        for known, key in trusted.items():
            if key == public:
                return KnownKey(known, public, own=False)
        name = name or public.removeprefix(signing.PREFIX)[:8].lstrip("-_.") or "key"
        _check(name)
        if name in trusted:
            raise InvalidArgument(
                f"cannot trust this key as {name}: a different key has that name",
                hint=f"choose a different name, or `holdfast key rm {name}`",
            )
        self._write_trusted(trusted | {name: public})
        return KnownKey(name, public, own=False)

    def trusted(self, public: str) -> str | None:
        """Return the name of a key whose signatures count here; None if they do not."""
        return next((one.name for one in self.known() if one.public == public), None)

    def remove(self, name: str) -> KnownKey:
        """Forget a key, given by name or in its written form.

        Raises:
            InvalidArgument: there is no such key.
        """
        found = next((one for one in self.known() if name in (one.name, one.public)), None)
        if found is None:
            raise InvalidArgument(
                f"cannot remove key {form.shown(name)[:80]}: no key has that name",
                hint="`holdfast key list`",
            )
        if found.own:
            for suffix in (".pem", ".pub"):
                (self._folder / f"{found.name}{suffix}").unlink(missing_ok=True)
        else:
            self._write_trusted({key: value for key, value in self._trusted().items() if key != found.name})
        return found

    def _open(self, known: KnownKey, passphrase: str | None) -> SigningKey:
        path = self._folder / f"{known.name}.pem"
        try:
            secret = passphrase.encode() if passphrase and known.locked else None
            private = serialization.load_pem_private_key(path.read_bytes(), secret)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            why = "the passphrase is wrong" if known.locked and passphrase else str(error) or "it is damaged"
            if known.locked and not passphrase:
                why = "it needs its passphrase"
            raise InvalidArgument(
                f"cannot sign with key {known.name}: {why}",
                hint="give it in the environment as HOLDFAST_KEY_PASSPHRASE"
                if known.locked
                else f"see {path}",
            ) from error
        if not isinstance(private, Ed25519PrivateKey) or SigningKey(private).public != known.public:
            raise InvalidArgument(f"cannot sign with key {known.name}: {path} holds a different key")
        return SigningKey(private)

    def _trusted(self) -> dict[str, str]:
        try:
            found = json.loads((self._folder / "trusted.json").read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise StoreError(
                f"cannot tell which keys are trusted: {self._folder}/trusted.json cannot be read ({error})"
            ) from error
        return {str(name): str(public) for name, public in found.items()} if isinstance(found, dict) else {}

    def _write_trusted(self, trusted: dict[str, str]) -> None:
        self._write(self._folder / "trusted.json", json.dumps(trusted, indent=2, sort_keys=True) + "\n")

    def _alone(self) -> AbstractContextManager[None]:
        return locks.exclusive(self._locks, "keys", "make a key", locks.LOCK_SECONDS)

    def _write(self, path: Path, text: str | bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            private_files.replace(path, text)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(f"cannot write to {self._folder}: {error.strerror or error}")


def _locked(path: Path) -> bool:
    return b"ENCRYPTED" in path.read_bytes()[:100]


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"cannot name a key '{form.shown(name)[:80]}'", hint="letters, digits, dots, dashes, underscores"
        )
