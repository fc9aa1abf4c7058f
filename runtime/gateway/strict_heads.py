"""Whether all readers find the same request in a head. Pure.

mitmproxy passes on requests that hosts can read differently: a bare carriage return, which ends a line for
some, a host that is named twice, a folded line (RFC 9112, 2.2, 3.2, 5.2). A host, or a proxy in front of
it, could then find a second request that was not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET = re.compile(rb"[^\x00-\x20\x7f]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")
_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0")
_ONCE = (b"host", b"content-length", b"transfer-encoding")


def ambiguity(
    method: bytes, target: bytes, version: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> str | None:
    """Return the ambiguity on which readers of a request's head can differ; None if there is none."""
    if version not in _VERSIONS:
        return "its version is not 1.0 or 1.1"
    if not _METHOD.fullmatch(method) or not _TARGET.fullmatch(target):
        return "its first line has a character that is not allowed"
    seen: set[bytes] = set()
    for name, value in headers:
        if not _METHOD.fullmatch(name) or not _VALUE.fullmatch(value):
            return "a header has a character that is not allowed"
        known = name.lower()
        if known in _ONCE and known in seen:
            return f"it has {known.decode()} twice"
        seen.add(known)
    return None
