"""Which session a request is for, on whichever wire of a server it comes.  Pure.

A reverse proxy asks for that before it sends the request to the node that has the session. What cannot be
read names no session, and any node answers it: whether the request is let in is decided there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

URI, HOST, SANDBOX = "x-original-uri", "x-original-host", "x-original-sandbox"
"""Headers in which a proxy passes on the path, the host, and the `E2b-Sandbox-Id` that it was asked for."""
_REF = r"([A-Za-z0-9][A-Za-z0-9_.-]{0,62})"
_PATHS = tuple(
    re.compile(text)
    for text in (
        rf"/v1/sessions/{_REF}(?:/|$)",
        rf"/sandboxes/{_REF}(?:/|$)",
        rf"/v2/sandboxes/{_REF}(?:/|$)",
        rf"/swerex/{_REF}(?:/|$)",
        rf"/jupyter/{_REF}/api(?:/|$)",
    )
)
_PORT_NAME = re.compile(r"\d{1,5}-(?:[a-z0-9-]{1,60}-)?([a-z0-9]{1,64})\.")


def session_of(headers: Mapping[str, str]) -> str:
    """Return the session that a request names, by the headers of the question; empty if it names none."""
    if sandbox := headers.get(SANDBOX):
        return sandbox if re.fullmatch(_REF, sandbox) else ""
    if found := _PORT_NAME.match(headers.get(HOST, "")):
        return found[1]
    try:
        path = unquote(urlsplit(headers.get(URI, "")).path)
    except ValueError:
        return ""
    return next((found[1] for pattern in _PATHS if (found := pattern.match(path))), "")
