"""A browser's end of Web Push: keys of its own, and its reading of a message (RFC 8291, RFC 8188)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def plain(text_: str) -> bytes:
    return base64.urlsafe_b64decode(text_ + "=" * (-len(text_) % 4))


class PushBrowser:
    """One subscription, as a browser has it."""

    def __init__(self, private: int | None = None, auth: bytes | None = None) -> None:
        curve = ec.SECP256R1()
        self._key = ec.derive_private_key(private, curve) if private else ec.generate_private_key(curve)
        self.auth = auth or os.urandom(16)
        self.public = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def keys(self) -> dict[str, str]:
        """The keys as `PushSubscription.toJSON()` has them."""
        return {"p256dh": text(self.public), "auth": text(self.auth)}

    def read(self, body: bytes) -> bytes:
        """Return the message of a body; raises InvalidTag if it is not for this browser."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert len(record) <= size <= 4096
        shared = self._key.exchange(
            ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        )
        # HKDF by hand, so that a mistake in the use of a library is not made twice.
        key = _expanded(_mac(self.auth, shared), b"WebPush: info\0" + self.public + sender, 32)
        start = _mac(salt, key)
        cipher = AESGCM(_expanded(start, b"Content-Encoding: aes128gcm\0", 16))
        found = cipher.decrypt(_expanded(start, b"Content-Encoding: nonce\0", 12), record, None)
        message, mark, _ = found.rpartition(b"\x02")
        assert mark == b"\x02"
        return message


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def _expanded(key: bytes, info: bytes, length: int) -> bytes:
    return _mac(key, info + b"\x01")[:length]
