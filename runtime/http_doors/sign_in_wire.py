"""The parts that both ends of a sign-in share: paths, safe URLs, and the nonce of a device login.  Pure."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from urllib.parse import urlsplit

FIRST = "/sign-in"
ISSUERS, SHORT_KEYS, END = FIRST, f"{FIRST}/key", f"{FIRST}/end"
CHALLENGES, TOKENS = f"{FIRST}/challenges", f"{FIRST}/tokens"


def checked_url(url: str, what: str) -> str:
    """Return a URL that is reached over TLS, or on this machine.

    Raises:
        ValueError: it is not.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    local = host == "localhost" or host.endswith(".localhost") or _is_loopback(host)
    wrong = not host or parts.username is not None or parts.query or parts.fragment
    if wrong or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise ValueError(f"{what} begins with https://, or http://localhost, and ends with its path")
    return url


def nonce_for(host: str, challenge: str) -> str:
    """Return the nonce by which an identity token is for one sign-in at one server, and no other.

    A server that passes a challenge of a second one on gets a token that is useless there.
    """
    text = f"holdfast sign-in\n{host.lower()}\n{challenge}"
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
