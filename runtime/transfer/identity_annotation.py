"""What the index of a bundle says of its session, so that a push notices another machine that runs it.

An index is not encrypted, and anybody who may read the registry reads it: session and tenures are there as
digests. It is not signed: a registry that forges it can only have a push refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from holdfast.runtime.sessions.tenures import Tenures

NAME = "io.holdfast.identity"
_MOST = 20_000


def made(session_id: str, tenures: Tenures) -> dict[str, str]:
    """Return the annotation; none without tenures."""
    if not tenures.chain:
        return {}
    chain = [_digest(each.id) for each in tenures.chain]
    return {NAME: json.dumps({"session": _digest(session_id), "tenures": chain}, separators=(",", ":"))}


def passes(annotations: Mapping[str, str], session_id: str, tenures: Tenures) -> bool:
    """Return whether a session with these tenures may take the place of what has these annotations.

    It may, unless that is of the same session, and of a tenure that this one does not know: another machine
    has continued it.
    """
    text = annotations.get(NAME, "")
    try:
        found: Any = json.loads(text) if len(text) < _MOST else None
        same, chain = found["session"] == _digest(session_id), [str(each) for each in found["tenures"]]
    except (ValueError, RecursionError, KeyError, TypeError):
        return True
    return not same or not chain or chain[-1] in {_digest(each.id) for each in tenures.chain}


def _digest(text: str) -> str:
    return hashlib.sha256(f"holdfast {text}".encode()).hexdigest()[:24]
