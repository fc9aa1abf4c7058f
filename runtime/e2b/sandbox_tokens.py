"""The tokens and signatures by which clients reach one sandbox.  Pure.

They are made from the server's own token and the id of the session, so nothing of them is kept; a restore or
fork has another id, and refuses those of its parent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileSignature:
    """What a signed address for one file says. `expiration` is in seconds since 1970."""

    path: str
    operation: str
    user: str
    signature: str
    expiration: int | None

    def expired(self, now: float) -> bool:
        """Return whether its time is over."""
        return self.expiration is not None and now > self.expiration


class SandboxTokens:
    """The tokens of all sandboxes of a server with this secret."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def access(self, sandbox: str) -> str:
        """Return the token for processes and files of a sandbox."""
        return self._made("access", sandbox)

    def traffic(self, sandbox: str) -> str:
        """Return the token for other ports of a sandbox."""
        return self._made("traffic", sandbox)

    def is_access(self, sandbox: str, given: str) -> bool:
        """Return whether this is the token for processes and files of a sandbox."""
        return hmac.compare_digest(given.encode(), self.access(sandbox).encode())

    def is_traffic(self, sandbox: str, given: str) -> bool:
        """Return whether this is the token for other ports of a sandbox."""
        return hmac.compare_digest(given.encode(), self.traffic(sandbox).encode())

    def signed(self, sandbox: str, asked: FileSignature) -> bool:
        """Return whether a signature was made with the access token of a sandbox, for just this."""
        expected = self.signature(sandbox, asked.path, asked.operation, asked.user, asked.expiration)
        return hmac.compare_digest(asked.signature.encode(), expected.encode())

    def signature(self, sandbox: str, path: str, operation: str, user: str, expiration: int | None) -> str:
        """Return the signature of an address, made with the access token of a sandbox.

        Its form is that of E2B's clients: base64 without padding of the SHA-256 of
        `path:operation:user:token[:expiration]`.
        """
        parts = [path, operation, user, self.access(sandbox)]
        if expiration is not None:
            parts.append(str(expiration))
        digest = hashlib.sha256(":".join(parts).encode()).digest()
        return "v1_" + base64.b64encode(digest).decode().rstrip("=")

    def _made(self, purpose: str, sandbox: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{sandbox}".encode(), hashlib.sha256).hexdigest()
