"""Which session a request is for, on whichever wire of a server it comes.  Pure.

A reverse proxy asks for that before it sends the request to the node that has the session. An unreadable
request names no session, and any node answers it: its admission is decided there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

URI, HOST, SANDBOX = "x-original-uri", "x-original-host", "x-original-sandbox"
"""Headers in which a proxy passes on the path, the host, and the `E2b-Sandbox-Id` that it was asked for."""
CHANNELS = "/v1/channels"
"""The path of WebSockets, whose query names the session that their calls are for."""
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
        asked = urlsplit(headers.get(URI, ""))
        path = unquote(asked.path)
        if path == CHANNELS:
            named = parse_qs(asked.query, max_num_fields=10).get("session", [""])
            return named[0] if re.fullmatch(_REF, named[0]) else ""
    except ValueError:
        return ""
    return next((found[1] for pattern in _PATHS if (found := pattern.match(path))), "")


def session_in(scope: Mapping[str, Any]) -> str:
    """Return the session that a request itself names; empty if it names none."""
    given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return session_of(
        {
            URI: f"{quote(scope['path'])}?{scope.get('query_string', b'').decode('latin-1')}",
            HOST: given.get("host", ""),
            SANDBOX: given.get("e2b-sandbox-id", ""),
        }
    )
