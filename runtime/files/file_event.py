"""What a session says about changes of its files, validated. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.errors import ProtocolError
from holdfast.runtime.files.session_file import LONGEST_PATH, bytes_in
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields

EventKind = Literal["created", "modified", "removed", "renamed", "attributes", "lost"]
KINDS: tuple[EventKind, ...] = ("created", "modified", "removed", "renamed", "attributes", "lost")
REASONS = {
    "overflow": "they came faster than the kernel keeps them",
    "slow": "they came faster than they were read",
    "capture": "too much to compare was there when a snapshot was taken",
    "gone": "the session was rewound or resumed, or its reader was away for long",
}
"""Why changes were lost, by the word that the session has for it."""
MOST = 5000
"""Changes in one batch."""


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One change of a file or folder of a session.

    `seq` counts from 1 without gaps. `path` is absolute; names that are no UTF-8 have lone surrogates
    (os.fsdecode). `to` is the new path of what was renamed, else None. With the kind `lost` there were
    changes that are not known: `path` is what is watched, and `why` the reason; list it again.
    """

    seq: int
    kind: EventKind
    path: str
    folder: bool = False
    to: str | None = None
    why: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs, without what is absent."""
        found = {"seq": self.seq, "kind": self.kind, "path": self.path, "folder": self.folder}
        return found | {key: value for key in ("to", "why") if (value := getattr(self, key)) is not None}


@dataclass(frozen=True, slots=True)
class Places:
    """The folder at which paths begin, and what in it is watched: a name in it, or the folder itself."""

    root: str
    watched: str


def places(frame: Frame) -> Places:
    """Return the places of a watch.

    Raises:
        ProtocolError: they are not valid.
    """
    told = wire_fields.body(frame)
    root, watched = (bytes_in(wire_fields.text(told, key), LONGEST_PATH) for key in ("root", "watched"))
    if not root.startswith("/") or not watched.startswith("/"):
        raise ProtocolError("cannot understand the session: it watches something that is no path")
    return Places(root, watched)


def changes(frame: Frame, where: Places, last: int) -> list[FileEvent]:
    """Return the events in one batch, which begins after the number `last`.

    Raises:
        ProtocolError: one of them is not valid, or out of order.
    """
    rows = wire_fields.json_of(frame)
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST:
        raise ProtocolError("cannot understand the session: a batch of changes is not valid")
    found = []
    for row in rows:
        event = _event(wire_fields.table(row, "a change"), where)
        if event.seq != last + 1:
            raise ProtocolError("cannot understand the session: changes of its files are out of order")
        found.append(event)
        last = event.seq
    return found


def _event(row: Mapping[str, Any], where: Places) -> FileEvent:
    kind, root = wire_fields.choice(row, "kind", KINDS), where.root
    return FileEvent(
        seq=wire_fields.integer(row, "seq", 1),
        kind=kind,
        path=where.watched if kind == "lost" else _below(root, wire_fields.text(row, "path")),
        folder=wire_fields.flag(row, "folder"),
        to=_below(root, wire_fields.text(row, "to")) if kind == "renamed" else None,
        why=REASONS[wire_fields.choice(row, "why", tuple(REASONS))] if kind == "lost" else None,
    )


def _below(root: str, path: str) -> str:
    if not path:
        return root
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ProtocolError("cannot understand the session: a change leads out of what is watched")
    return f"{root.rstrip('/')}/{bytes_in(path, LONGEST_PATH)}"
