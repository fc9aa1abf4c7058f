r"""The stream between the source of a move and its receiver.  Pure: bytes in, bytes out.

    receiver   holdfast-receive {"protocol": 1, "version": "…"}\n
    source     {"do": "…", …, "bytes": N}\n  and N bytes
    receiver   {"ok": true, …}\n  or  {"error": "code", "text": "…", "hint": "…"}\n

A `put` does not have a reply of its own: its failure is the reply to the next request. Lines are bounded on
both sides. Text before the greeting is skipped: shells of other machines can print when they start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from holdfast.base.text import plain
from holdfast.errors import HoldfastError

PROTOCOL = 1
GREETING = b"holdfast-receive "
LINE = 1 << 20
"""Bytes of a line, at most."""
NOISE = 1 << 16
"""Bytes that can come before the greeting."""
_TEXT = 2000
_REMARKS = 100
"""Remarks of a receiver about a session, at most."""


class WireBroken(Exception):
    """The other side ended, or violated this protocol; the message says which."""


class Refused(Exception):
    """The receiver refused a request. `code` is its error's code."""

    def __init__(self, code: str, text: str, hint: str) -> None:
        super().__init__(text)
        self.code = code
        self.hint = hint


def line(fields: Mapping[str, Any]) -> bytes:
    """Return a request or a reply in its sent form."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def greeting(version: str) -> bytes:
    """Return a receiver's greeting."""
    return GREETING + line({"protocol": PROTOCOL, "version": version})


def error(failure: HoldfastError) -> dict[str, Any]:
    """Return a failure as a reply."""
    return {"error": failure.code, "text": str(failure)[:_TEXT], "hint": failure.hint[:_TEXT]}


def read_line(stream: BinaryIO) -> dict[str, Any]:
    """Read a request or a reply.

    Raises:
        WireBroken: the stream ended, or this is not one.
    """
    text = stream.readline(LINE + 1)
    if not text.endswith(b"\n"):
        raise WireBroken("the connection ended" if len(text) <= LINE else "it sent an endless line")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise WireBroken(f"it sent {_shown(text)}, which is not of this protocol")
    return found


def read_greeting(stream: BinaryIO) -> str:
    """Read up to the greeting, and return the version of the receiver.

    Raises:
        WireBroken: there is none, or it is of another protocol.
    """
    noise = b""
    while len(noise) < NOISE:
        try:
            text = stream.readline(NOISE)
        except WireBroken:  # it is silent after that
            if not noise.strip():
                raise
            text = b""
        if not text:
            break
        if text.startswith(GREETING):
            return _checked(text.removeprefix(GREETING))
        noise += text
    if noise.strip():
        raise WireBroken(f"it sent {_shown(noise)} instead of a greeting")
    raise WireBroken("the connection ended")


def reply(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a reply that is not a refusal.

    Raises:
        Refused: it is one.
    """
    if "error" in fields or fields.get("ok") is not True:
        raise Refused(*(plain(str(fields.get(key) or ""), _TEXT) for key in ("error", "text", "hint")))
    return fields


@dataclass(frozen=True, slots=True)
class SessionThere:
    """A receiver's report of the session that it has started.

    `deviations` list the differences there from the captured state, `hooks` the programs whose hooks
    failed.
    """

    id: str
    deviations: tuple[str, ...]
    hooks: tuple[str, ...]


def session_there(fields: Mapping[str, Any]) -> SessionThere:
    """Return the session that a reply describes.

    Raises:
        WireBroken: it does not describe one: its receiver has not reported that it runs there.
    """
    known = fields.get("session")
    if not isinstance(known, str) or not re.fullmatch(r"[0-9a-f]{12}", known):
        raise WireBroken("it does not say which session it has started")
    return SessionThere(known, _remarks(fields, "deviations"), _remarks(fields, "hooks"))


def _remarks(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    given = fields.get(key) or []
    if not isinstance(given, list):
        raise WireBroken(f"its {key} are not a list")
    return tuple(plain(str(one), _TEXT) for one in given[:_REMARKS])


def state_of(fields: Mapping[str, Any]) -> str:
    """Return the state that a reply says a session has.

    Raises:
        WireBroken: it says none.
    """
    state = fields.get("state")
    if not isinstance(state, str) or not re.fullmatch(r"[a-z_]{1,20}", state):
        raise WireBroken("it does not say in which state the session is")
    return state


def count_of(fields: Mapping[str, Any], key: str, most: int) -> int:
    """Return a number of a reply, from 0 to `most`.

    Raises:
        WireBroken: it has none.
    """
    count = fields.get(key)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= most:
        raise WireBroken(f"it answers with an invalid number of {key}")
    return count


def size_of(fields: Mapping[str, Any]) -> int:
    """Return how many bytes follow a request.

    Raises:
        WireBroken: it does not say so.
    """
    size = fields.get("bytes", 0)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise WireBroken("it sent an invalid size")
    return size


def _checked(text: bytes) -> str:
    try:
        found = json.loads(text)
        protocol, version = found["protocol"], str(found["version"])
    except (ValueError, RecursionError, TypeError, KeyError):
        raise WireBroken(f"it greets with {_shown(text)}") from None
    if protocol != PROTOCOL:
        raise WireBroken(
            f"its version {plain(version, 40)} moves sessions by protocol {plain(str(protocol), 10)}, "
            f"this one by {PROTOCOL}"
        )
    return plain(version, 40)


def _shown(text: bytes) -> str:
    return repr(plain(text.strip().decode("utf-8", "replace"), 80))
