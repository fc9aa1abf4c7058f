"""Signing and verification of bundles: an Ed25519 signature over a statement of a bundle's content. Pure.

The statement names both manifests by their digests, and through them every byte of the bundle. A key is
written as `ed25519:` and its 32 bytes in the URL-safe base64 alphabet; people compare this text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from holdfast.errors import BundleRefused
from holdfast.snapshots.bundle import form, media, sealing
from holdfast.snapshots.bundle.endpoints import BlobDescriptor

PREFIX = "ed25519:"
PUBLIC = re.compile(r"ed25519:[A-Za-z0-9_-]{43}")


class Signer(Protocol):
    """A holder of a private key."""

    @property
    def public(self) -> str:
        """The public key."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature of data."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key."""

    private: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """The public key."""
        raw = self.private.public_key().public_bytes_raw()
        return PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def sign(self, data: bytes) -> bytes:
        """Return the signature of data."""
        return self.private.sign(data)

    @property
    def opens(self) -> X25519PrivateKey:
        """The key that opens data encrypted for this one."""
        return sealing.derived(self.private.private_bytes_raw())


def is_public(text: str) -> bool:
    """Return whether it is the written form of a valid key."""
    if not PUBLIC.fullmatch(text):
        return False
    try:
        return len(_raw(text)) == 32
    except binascii.Error:
        return False


def statement(image: BlobDescriptor, snapshot: BlobDescriptor, sealed: str = "") -> bytes:
    """Return the statement to sign. Its first field distinguishes it from other uses of such a key."""
    fields = {"holdfast": "snapshot 1", "image": image.digest, "snapshot": snapshot.digest, "sealed": sealed}
    return form.dumps(fields)


def signed(
    signer: Signer, image: BlobDescriptor, snapshot: BlobDescriptor, sealed: str = ""
) -> dict[str, str]:
    """Return a signature in the form stored in the index."""
    made = signer.sign(statement(image, snapshot, sealed))
    return {media.KEY: signer.public, media.SIGNATURE: base64.b64encode(made).decode()}


def signed_by(given: Mapping[str, str], image: BlobDescriptor, snapshot: BlobDescriptor) -> str | None:
    """Return the key that signed a bundle; None if it is not signed.

    Raises:
        BundleRefused: there is a signature, but not of this bundle.
    """
    public, signature = given.get(media.KEY), given.get(media.SIGNATURE)
    if public is None and signature is None:
        return None
    forged = BundleRefused(
        "cannot import: its signature does not match its content",
        hint="it was changed after it was signed, or was never signed: get it again from its author",
    )
    if public is None or signature is None or not is_public(public):
        raise forged
    try:
        raw = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(_raw(public)).verify(
            raw, statement(image, snapshot, given.get(media.SEALED, ""))
        )
    except (InvalidSignature, ValueError) as error:
        raise forged from error
    return public


def is_signature(public: str, signature: str, data: bytes) -> bool:
    """Return whether a key, in its written form, has made a signature (base64) of data."""
    if not is_public(public):
        return False
    try:
        raw = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(_raw(public)).verify(raw, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _raw(public: str) -> bytes:
    return base64.b64decode(public.removeprefix(PREFIX) + "=", altchars=b"-_", validate=True)
