"""Encryption and decryption of bundles. Pure.

A sealed stream is a header and pieces of 1 MiB, each with ChaCha20-Poly1305 under a key for this stream only.
The number of a piece, and whether it is the last, are in its nonce: pieces cannot be left out, moved or
repeated, nor the end cut off. The key of a bundle is generated for it alone; recipients receive it wrapped,
with X25519 or with a passphrase (scrypt).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import BundleRefused, InvalidArgument
from holdfast.snapshots import form_number
from holdfast.snapshots.bundle import form
from holdfast.snapshots.bundle.bundle_segments import ReadableStream

PREFIX = "x25519:"
RECIPIENT = re.compile(r"x25519:[A-Za-z0-9_-]{43}")
PIECE = 1 << 20
_TAG = 16
_SALT = 16
_LAST = 1 << 63
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 15, 8, 1
"""32 MiB and about 0.1 s for each guess at a passphrase (RFC 7914)."""
MOST_WRAPS = 16

Text = Annotated[str, Field(max_length=200)]


class Wrap(BaseModel):
    """The key of a bundle for one recipient. `who` is the public half of an X25519 pair made for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["x25519", "scrypt"]
    salt: Text
    who: Text = ""
    key: Text


class Seal(BaseModel):
    """The encryption of a bundle, as written in the index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    wraps: Annotated[list[Wrap], Field(min_length=1, max_length=MOST_WRAPS)]


@dataclass(frozen=True, slots=True)
class Opener:
    """The means to open a bundle: a private key, a passphrase, or both."""

    private: X25519PrivateKey | None = None
    passphrase: str | None = None


def recipient(private: X25519PrivateKey) -> str:
    """Return the name by which others seal for a key."""
    raw = private.public_key().public_bytes_raw()
    return PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def derived(seed: bytes) -> X25519PrivateKey:
    """Return the decryption key that belongs to a signing key."""
    return X25519PrivateKey.from_private_bytes(_derive(seed, b"", b"holdfast bundle recipient 1"))


class Sealing:
    """The key of one bundle: made for recipients, or recovered by one of them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def new(cls, recipients: Sequence[str], passphrase: str | None = None) -> tuple[Sealing, Seal]:
        """Generate a key, and wrap it for all recipients.

        Raises:
            InvalidArgument: there is no recipient, or one is not a valid key.
        """
        if not recipients and not passphrase:
            raise InvalidArgument(
                "cannot encrypt: a recipient is missing",
                hint="name a recipient's x25519:… key, or give a passphrase",
            )
        key = os.urandom(32)
        wraps = [_for_recipient(key, each) for each in dict.fromkeys(recipients)]
        if passphrase:
            wraps.append(_for_passphrase(key, passphrase))
        return cls(key), Seal(wraps=wraps[:MOST_WRAPS])

    @classmethod
    def opened(cls, seal: Seal, opener: Opener) -> Sealing:
        """Recover the key.

        Raises:
            BundleRefused: it was not sealed for this opener.
        """
        for wrap in seal.wraps:
            secret = _secret(wrap, opener)
            if secret is None:
                continue
            try:
                key = ChaCha20Poly1305(secret).decrypt(bytes(12), _bytes(wrap.key), b"holdfast wrap 1")
            except (InvalidTag, ValueError):
                continue
            if len(key) == 32:
                return cls(key)
        locked = any(wrap.kind == "scrypt" for wrap in seal.wraps)
        raise BundleRefused(
            "cannot import: it is encrypted, but not for a key of this home",
            hint="give its passphrase in the environment as HOLDFAST_BUNDLE_PASSPHRASE"
            if locked
            else "export it with `--encrypt-to` and a recipient that `holdfast key list` shows",
        )

    def seal(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a stream of bytes, sealed."""
        salt = os.urandom(_SALT)
        yield salt
        cipher = self._cipher(salt)
        held, number = bytearray(), 0
        for piece in pieces:
            held += piece
            while len(held) > PIECE:
                yield cipher.encrypt(_nonce(number), bytes(held[:PIECE]), None)
                del held[:PIECE]
                number += 1
        yield cipher.encrypt(_nonce(number | _LAST), bytes(held), None)

    def open(self, stream: ReadableStream) -> Iterator[bytes]:
        """Reverse `seal`. Nothing is yielded before it is authenticated.

        Raises:
            BundleRefused: it is a different stream, changed, or cut short.
        """
        cipher = self._cipher(_exactly(stream, _SALT))
        number, held = 0, _exactly(stream, PIECE + _TAG)
        while True:
            following = _exactly(stream, PIECE + _TAG) if len(held) == PIECE + _TAG else b""
            last = 0 if following else _LAST
            try:
                yield cipher.decrypt(_nonce(number | last), held, None)
            except (InvalidTag, ValueError) as error:
                raise BundleRefused(
                    "cannot import: an encrypted part of it was changed or cut short",
                    hint="get it again from its author",
                ) from error
            if last:
                return
            number, held = number + 1, following

    def _cipher(self, salt: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(_derive(self._key, salt, b"holdfast stream 1"))


def sealed_size(size: int) -> int:
    """Return the sealed size of a stream of this many bytes."""
    return _SALT + size + _TAG * max(1, -(-size // PIECE))


def is_recipient(text: str) -> bool:
    """Return whether it is the written form of a key to seal for."""
    return RECIPIENT.fullmatch(text) is not None


def _for_recipient(key: bytes, to: str) -> Wrap:
    if not is_recipient(to):
        raise InvalidArgument(
            f"cannot encrypt for {to[:60]!r}: it is not a key",
            hint="it looks like x25519:… and 43 characters",
        )
    own = X25519PrivateKey.generate()
    who, salt = own.public_key().public_bytes_raw(), os.urandom(_SALT)
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(_public(to)))
    except ValueError as error:
        raise InvalidArgument(f"cannot encrypt for {to[:60]!r}: it is not a key") from error
    wrapped = _wrap(_derive(shared, salt, _context(who, _public(to))), key)
    return Wrap(kind="x25519", salt=_text(salt), who=_text(who), key=_text(wrapped))


def _for_passphrase(key: bytes, passphrase: str) -> Wrap:
    salt = os.urandom(_SALT)
    return Wrap(kind="scrypt", salt=_text(salt), key=_text(_wrap(_stretched(passphrase, salt), key)))


def _secret(wrap: Wrap, opener: Opener) -> bytes | None:
    try:
        salt = _bytes(wrap.salt)
        if wrap.kind == "scrypt":
            return _stretched(opener.passphrase, salt) if opener.passphrase else None
        if opener.private is None:
            return None
        who = _bytes(wrap.who)
        shared = opener.private.exchange(X25519PublicKey.from_public_bytes(who))
        return _derive(shared, salt, _context(who, opener.private.public_key().public_bytes_raw()))
    except (ValueError, binascii.Error):
        return None


def _wrap(secret: bytes, key: bytes) -> bytes:
    # The secret is used once: each wrap has a fresh salt.
    return ChaCha20Poly1305(secret).encrypt(bytes(12), key, b"holdfast wrap 1")


def _context(who: bytes, to: bytes) -> bytes:
    return b"holdfast x25519 1" + hashlib.sha256(who + to).digest()


def _stretched(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P).derive(passphrase.encode())


def _derive(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=salt or None, info=info).derive(secret)


def _nonce(number: int) -> bytes:
    return bytes(4) + number.to_bytes(8, "big")


def _exactly(stream: ReadableStream, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (data := stream.read(size - len(found))):
        found += data
    return bytes(found)


def _public(text: str) -> bytes:
    return base64.b64decode(text.removeprefix(PREFIX) + "=", altchars=b"-_", validate=True)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def parse(text: str) -> Seal:
    """Parse the encryption of a bundle from its index.

    Raises:
        BundleNewer: a newer version encrypted it.
        BundleRefused: it is not valid, or of an unknown kind.
    """
    form.unambiguous(text)
    try:
        return Seal.model_validate_json(text)
    except ValidationError as error:
        if forms := form_number.difference(error):
            raise form.newer(forms) from error
        raise BundleRefused("cannot import: its encryption is not known here") from error
