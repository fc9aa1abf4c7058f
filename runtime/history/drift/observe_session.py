"""Asks the engine and the guest for the present state of a session. The driver of drift: makes no
decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from holdfast.engine.engine import Engine
from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.guest_value import GuestValue, listed, whole
from holdfast.runtime.guest_rpc.wire_fields import GREATEST
from holdfast.runtime.history.drift import changed_paths, holdings, packages
from holdfast.runtime.history.drift.changed_paths import PathEntry, Table
from holdfast.runtime.history.drift.holdings import Holdings
from holdfast.runtime.history.drift.packages import Package

MAX_PATHS = 200_000
PER_REQUEST = 40_000
"""Paths of one request: 8 MiB are enough for paths of 200 bytes each."""
MAX_RECORDS = 2000
_REQUEST_BYTES = 6 << 20
_Stamp = Annotated[int, Field(ge=-(2**63), le=GREATEST), AfterValidator(lambda stamp: max(stamp, 0))]
_Kind = Annotated[str, whole(100), AfterValidator(lambda text: text[:1])]
_Owner = Annotated[int, Field(ge=-1, le=GREATEST)]
_Number = Annotated[int, Field(strict=False, ge=0, lt=100_000)]
_Version = Annotated[str, whole(100_000), AfterValidator(lambda text: text[:64])]
Fact = Annotated[tuple[_Kind, _Stamp, _Stamp, _Stamp, _Owner], Field(strict=False)]
"""Kind, size, ctime, mtime and owner of a file, see `Entry`."""


class Facts(GuestValue):
    """The facts on files, in the order in which they were requested; none on missing ones."""

    facts: Annotated[list[Fact | None], listed(MAX_PATHS)]


class Versions(GuestValue):
    """The versions of packages, `new` and `old`, by their number in the request."""

    versions: dict[_Number, dict[str, _Version]]


def held(client: GuestClient) -> Holdings:
    """Return the session's holdings besides files."""
    return holdings.parse(wire_fields.body(client.request("holdings")))


def differing(engine: Engine, container: str, layers: Sequence[Path] | None = None) -> list[tuple[str, int]]:
    """Return paths that differ from the container's image, with the engine's number for how; own files left
    out. `layers` are the container's if they are known.
    """
    found = engine.files.differences(container, layers)
    return [(path, kind) for path, kind in found if not path.startswith(_OWN)]


_OWN = ("/var/lib/holdfast", "/run/holdfast", "/opt/holdfast")


def table(
    client: GuestClient, differing: Sequence[tuple[str, int]], found: Sequence[Package], since: float
) -> tuple[dict[str, PathEntry], dict[int, dict[str, str]]]:
    """Return the facts on each path, and versions of the packages by their number.

    Args:
        client: the client of the session.
        differing: the result of that function.
        found: the packages whose files these may be.
        since: the earliest time of interest (Unix seconds).
    """
    records = [[one.manager, one.name, one.record] for one in found[:MAX_RECORDS]]
    there = [path for path, kind in differing if kind != 2]
    known: dict[str, Fact | None] = {}
    versions: dict[int, dict[str, str]] = {}
    for some in _portions(there):
        payload = json.dumps({"paths": some, "records": records, "since": since}).encode()
        facts, versions = _ask(client, payload)
        known.update(zip(some, facts, strict=False))
    if not there and records:
        _, versions = _ask(client, json.dumps({"paths": [], "records": records, "since": since}).encode())
    return {path: _entry(kind, known.get(path)) for path, kind in differing}, versions


def packages_among(changes: Iterable[changed_paths.FileChange]) -> list[Package]:
    """Return the packages that paths alone identify."""
    return packages.find(changes)


def candidates(differing: Sequence[tuple[str, int]]) -> list[Package]:
    """Return packages that can have changed since the image."""
    return packages.find(
        changed_paths.FileChange(path, changed_paths.OF_ENGINE.get(kind, "changed"))
        for path, kind in differing
    )


def _ask(client: GuestClient, payload: bytes) -> tuple[list[Fact | None], dict[int, dict[str, str]]]:
    facts: list[Fact | None] = []
    for frame in client.call("files", payload=payload):
        if wire_fields.event(frame) == "facts":
            facts += Facts.of({"facts": wire_fields.json_of(frame)}).facts
            if len(facts) > MAX_PATHS:
                raise ProtocolError("cannot understand the session: it describes too many files")
        elif wire_fields.event(frame) == "versions":
            return facts, Versions.of({"versions": wire_fields.body(frame)}).versions
    raise ProtocolError("cannot understand the session: its answer lacks the files")


def _entry(kind: int, facts: Fact | None) -> PathEntry:
    change = changed_paths.OF_ENGINE.get(kind, "changed")
    return PathEntry(change) if facts is None or change == "deleted" else PathEntry(change, *facts)


def _portions(every: Sequence[str]) -> Iterable[list[str]]:
    some: list[str] = []
    size = 0
    for path in every[:MAX_PATHS]:
        some.append(path)
        size += len(path) * 6 + 4  # as JSON may encode it at worst
        if len(some) == PER_REQUEST or size > _REQUEST_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


__all__ = ["Table", "candidates", "differing", "held", "packages_among", "table"]
