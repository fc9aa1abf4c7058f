"""Resolution of the names, ids and prefixes that people type.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, SessionNotFound, SnapshotNotFound


def resolve(ref: str, known: Iterable[tuple[str, str]], what: str = "session") -> str:
    """Return the id that `ref` refers to, among pairs of id and name.

    An exact id wins, then an exact name, then a unique prefix of an id.

    Raises:
        SessionNotFound, SnapshotNotFound: nothing matches.
        InvalidArgument: several ids begin with it.
    """
    pairs = list(known)
    shown = plain(ref, 80)
    for identity, _ in pairs:
        if identity == ref:
            return identity
    named = [identity for identity, name in pairs if name == ref]
    if len(named) == 1:
        return named[0]
    begun = [pair for pair in pairs if ref and pair[0].startswith(ref)]
    if len(begun) == 1:
        return begun[0][0]
    if begun:
        some = ", ".join(f"{identity} ({plain(name, 63)})" for identity, name in sorted(begun)[:5])
        raise InvalidArgument(
            f"cannot tell which {what} '{shown}' is: {len(begun)} ids begin like that",
            hint=f"give more digits, or a name: {some}",
        )
    missing = SnapshotNotFound if what == "snapshot" else SessionNotFound
    verb = "snapshots" if what == "snapshot" else "ls"
    raise missing(f"cannot find {what} '{shown}': no such name or id", hint=f"`holdfast {verb}` lists them")
