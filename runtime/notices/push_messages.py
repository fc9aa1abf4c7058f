"""Messages of Web Push: encrypted for one browser, signed for its push service.  Pure.

RFC 8291 and RFC 8188 (one record), RFC 8292 (VAPID). The push service sees the size and the sender, and not
the content. Knows no network.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from holdfast.errors import InvalidArgument

RECORD = 4096
MOST_BYTES = 3072
"""Bytes of a message; push services take no more than 4096 of the encrypted one."""
TOKEN_SECONDS = 12 * 3600
"""For which a push service takes a token: at most a day."""
_POINT = 65


@dataclass(frozen=True, slots=True)
class PushKeys:
    """The keys of a browser's subscription: its public key, and a secret of 16 bytes."""

    public: bytes
    auth: bytes

    @classmethod
    def read(cls, p256dh: str, auth: str) -> PushKeys:
        """Read both from base64url, as browsers write them.

        Raises:
            InvalidArgument: they are not keys.
        """
        try:
            keys = cls(decoded(p256dh), decoded(auth))
            ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), keys.public)
        except (ValueError, binascii.Error) as error:
            raise InvalidArgument(
                "cannot subscribe: `p256dh` is not a point on P-256, in base64url",
                hint="send what `PushSubscription.toJSON()` gives",
            ) from error
        if len(keys.public) != _POINT or len(keys.auth) != 16:
            raise InvalidArgument(
                "cannot subscribe: `p256dh` has 65 bytes and `auth` 16, in base64url",
                hint="send what `PushSubscription.toJSON()` gives",
            )
        return keys


def encrypted(
    message: bytes, to: PushKeys, *, salt: bytes = b"", key: ec.EllipticCurvePrivateKey | None = None
) -> bytes:
    """Return the body that a push service passes on; salt and key are chosen at random.

    Raises:
        InvalidArgument: the message is longer than push services take.
    """
    if len(message) > MOST_BYTES:
        raise InvalidArgument(f"cannot push {len(message)} bytes: {MOST_BYTES} is the limit")
    own = key or ec.generate_private_key(ec.SECP256R1())
    salt = salt or secrets.token_bytes(16)
    theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), to.public)
    point = _point(own.public_key())
    shared = own.exchange(ec.ECDH(), theirs)
    material = _derived(shared, to.auth, b"WebPush: info\0" + to.public + point, 32)
    cipher = AESGCM(_derived(material, salt, b"Content-Encoding: aes128gcm\0", 16))
    nonce = _derived(material, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD.to_bytes(4, "big") + bytes([len(point)]) + point
    return head + cipher.encrypt(nonce, message + b"\x02", None)  # 2: the last record


class PushSigner:
    """The key by which push services know this server.

    Args:
        private: in PEM; `new_key` makes one.
    """

    def __init__(self, private: bytes) -> None:
        found = serialization.load_pem_private_key(private, None)
        if not isinstance(found, ec.EllipticCurvePrivateKey) or not isinstance(found.curve, ec.SECP256R1):
            raise ValueError("it is not a key on P-256")
        self._key = found
        self.public = encoded(_point(found.public_key()))
        """As browsers take it for `applicationServerKey`."""

    def authorization(self, endpoint: str, contact: str, now: float) -> str:
        """Return the header by which the push service of an endpoint lets a message in."""
        at = urlsplit(endpoint)
        claims = {"aud": f"{at.scheme}://{at.netloc}", "exp": int(now) + TOKEN_SECONDS, "sub": contact}
        head = {"typ": "JWT", "alg": "ES256"}
        signed = ".".join(
            encoded(json.dumps(each, separators=(",", ":")).encode()) for each in (head, claims)
        )
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"vapid t={signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}, k={self.public}"


def new_key() -> bytes:
    """Return a new private key for `PushSigner`, in PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def encoded(data: bytes) -> str:
    """Return bytes in base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text: str) -> bytes:
    """Return the bytes of a text in base64url.

    Raises:
        ValueError: it is not.
    """
    return base64.b64decode(
        text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True
    )


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def _derived(material: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(material)
