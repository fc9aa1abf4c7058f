"""Asks the engine and the guest for the present state of a session. The driver of drift: it decides
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.engine import overlay
from holdfast.engine.engine import Engine
from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.history.drift import changed_paths, holdings, packages
from holdfast.runtime.history.drift.changed_paths import PathEntry, Table
from holdfast.runtime.history.drift.holdings import Holdings
from holdfast.runtime.history.drift.packages import Package

MAX_PATHS = 200_000
PER_REQUEST = 40_000
"""Paths of one request: 8 MiB are enough for paths of 200 bytes each."""
MAX_RECORDS = 2000
_REQUEST_BYTES = 6 << 20


def held(client: GuestClient) -> Holdings:
    """Return what the session holds besides files."""
    return holdings.parse(wire_fields.body(client.request("holdings")))


def differing(engine: Engine, container: str) -> list[tuple[str, int]]:
    """Return paths that differ from the container's image, with the engine's number for how; own files left
    out.
    """
    layers = engine.files.layers(container)
    quick = overlay.changes(layers[0], layers[1:]) if layers else None
    found = engine.files.changes(container) if quick is None else quick
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
    known: dict[str, Any] = {}
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
    """Return packages that may have changed since the image."""
    return packages.find(
        changed_paths.FileChange(path, changed_paths.OF_ENGINE.get(kind, "changed"))
        for path, kind in differing
    )


def _ask(client: GuestClient, payload: bytes) -> tuple[list[Any], dict[int, dict[str, str]]]:
    facts: list[Any] = []
    for frame in client.call("files", payload=payload):
        if wire_fields.event(frame) == "facts":
            try:
                some = json.loads(frame.payload)
            except (ValueError, RecursionError) as error:
                raise ProtocolError("cannot understand the session: its facts are not JSON") from error
            if not isinstance(some, list) or len(facts) + len(some) > MAX_PATHS:
                raise ProtocolError("cannot understand the session: its facts are not a list")
            facts += some
        elif wire_fields.event(frame) == "versions":
            return facts, _versions(wire_fields.body(frame))
    raise ProtocolError("cannot understand the session: its answer lacks the files")


def _entry(kind: int, facts: Any) -> PathEntry:
    change = changed_paths.OF_ENGINE.get(kind, "changed")
    if facts is None or change == "deleted":
        return PathEntry(change)
    if not isinstance(facts, list) or len(facts) != 5 or not isinstance(facts[0], str):
        raise ProtocolError("cannot understand the session: a fact about a file is not valid")
    size, ctime, mtime, owner = (_whole(fact) for fact in facts[1:])
    return PathEntry(change, facts[0][:1], max(size, 0), max(ctime, 0), max(mtime, 0), owner)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ProtocolError("cannot understand the session: a fact about a file is not an integer")
    return value


def _versions(answer: Mapping[str, Any]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for number, one in answer.items():
        if number.isdecimal() and len(number) < 6 and isinstance(one, dict):
            found[int(number)] = {key: value[:64] for key, value in one.items() if isinstance(value, str)}
    return found


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
