"""A session's description of one of its files, validated. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.base.text import lines
from holdfast.base.value_classes import as_table
from holdfast.errors import ProtocolError
from holdfast.runtime.guest.defaults import LONGEST_LINE
from holdfast.runtime.guest.files.file_facts import LONGEST_ATTRIBUTES
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields

Kind = Literal["file", "folder", "link", "fifo", "socket", "device"]
KINDS: tuple[Kind, ...] = ("file", "folder", "link", "fifo", "socket", "device")
LONGEST_NAME = 255
"""Bytes of a name, and of a path: limits.h, NAME_MAX and PATH_MAX."""
LONGEST_PATH = 4096
EARLIEST = -(2**62)


@dataclass(frozen=True, slots=True)
class SessionFile:
    """One file of a session, as of the session's report.

    Names that are not UTF-8 have lone surrogates (`fsdecode`). `size` is in bytes, `mode` has the twelve
    bits of chmod(2), `mtime_ns` nanoseconds since 1970. `version` differs when the content can have
    changed; `target` is where a link leads. `attributes` are its extended attributes below "user.", by
    their names without that, where they were asked for.
    """

    name: str
    kind: Kind
    size: int
    mode: int
    mtime_ns: int
    uid: int
    gid: int
    version: str
    target: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any], *, attributes: bool = False) -> SessionFile:
        """Read it from an answer, with its attributes if they were asked for.

        Raises:
            ProtocolError: it is not valid.
        """
        kind = wire_fields.choice(raw, "kind", KINDS)
        return cls(
            name=_bytes_in(wire_fields.text(raw, "name"), LONGEST_NAME),
            kind=kind,
            size=wire_fields.integer(raw, "size"),
            mode=wire_fields.integer(raw, "mode") & 0o7777,
            mtime_ns=_moment(raw),
            uid=wire_fields.integer(raw, "uid"),
            gid=wire_fields.integer(raw, "gid"),
            version=wire_fields.text(raw, "version")[:200],
            target=_bytes_in(wire_fields.text(raw, "target"), LONGEST_PATH) if kind == "link" else None,
            attributes=_attributes(raw) if attributes else {},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {**as_table(self, "version", "attributes"), "mode": f"{self.mode:04o}"}


def listed(frame: Frame, known: set[str], *, attributes: bool = False) -> list[SessionFile]:
    """Return the files in one frame of a list; their names are added to the known ones.

    Raises:
        ProtocolError: one of them is not valid, or appears twice, or has a name that no file can have.
    """
    return listed_in(wire_fields.json_of(frame), known, attributes=attributes)


def listed_in(found: object, known: set[str], *, attributes: bool = False) -> list[SessionFile]:
    """Return the files in a list; raises as `listed` does."""
    if not isinstance(found, list):
        raise ProtocolError("cannot understand the session: a list of files is not valid")
    files = [SessionFile.of(wire_fields.table(each, "a file"), attributes=attributes) for each in found]
    for file in files:
        if not file.name or file.name in (".", "..") or "/" in file.name or file.name in known:
            raise ProtocolError("cannot understand the session: a folder has impossible names")
        known.add(file.name)
    return files


def place_in(told: Mapping[str, Any]) -> str:
    """Return the absolute path that the session reports, which prefixes each of the following names.

    Raises:
        ProtocolError: a file cannot have this path.
    """
    path = _bytes_in(wire_fields.text(told, "path"), LONGEST_PATH)
    if not path.startswith("/"):
        raise ProtocolError("cannot understand the session: a path is not absolute")
    return path


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A search result: a file, or one line of a file if the search was for a text.

    `path` is absolute. `kind` and `size` (bytes) are of a file that was found by its name. `line` counts
    from 1, and `text` is that line, at most 1000 bytes of it; bytes that are not UTF-8 show as �.
    """

    path: str
    kind: Kind | None = None
    size: int | None = None
    line: int | None = None
    text: str | None = None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> FoundFile:
        """Read the value from an answer.

        Raises:
            ProtocolError: it is not valid.
        """
        path = place_in(raw)
        if raw.get("line") is not None:
            text = lines(wire_fields.text(raw, "text"))[:LONGEST_LINE]
            return cls(path, line=wire_fields.integer(raw, "line", 1), text=text)
        return cls(path, wire_fields.choice(raw, "kind", KINDS), wire_fields.integer(raw, "size"))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {name: value for name, value in as_table(self).items() if value is not None}


def found_in(frame: Frame) -> list[FoundFile]:
    """Return the files in one frame of a search.

    Raises:
        ProtocolError: one of them is not valid.
    """
    found = wire_fields.json_of(frame)
    if not isinstance(found, list):
        raise ProtocolError("cannot understand the session: a list of files is not valid")
    return [FoundFile.of(wire_fields.table(each, "a file")) for each in found]


def asked(**paths: str | None) -> bytes:
    """Return paths as the payload of a request."""
    return json.dumps(paths).encode()


def _attributes(raw: Mapping[str, Any]) -> dict[str, str]:
    found = wire_fields.table(raw.get("attributes", {}), "the attributes of a file")
    texts = [*found, *found.values()]
    if not all(isinstance(each, str) for each in texts) or sum(map(len, texts)) > LONGEST_ATTRIBUTES:
        raise ProtocolError("cannot understand the session: the attributes of a file are not valid")
    return dict(found)


def _moment(raw: Mapping[str, Any]) -> int:
    """Return when the file changed. Years before 1823 and after 2262 do not fit, and become the nearest."""
    value = raw.get("mtime_ns")
    if isinstance(value, int) and not isinstance(value, bool):
        return max(EARLIEST, min(value, wire_fields.GREATEST))
    return wire_fields.integer(raw, "mtime_ns", EARLIEST)


def _bytes_in(text: str, most: int) -> str:
    try:
        size = len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        size = most + 1
    if size > most or "\0" in text:
        raise ProtocolError("cannot understand the session: a name is too long or invalid")
    return text
