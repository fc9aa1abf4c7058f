"""The history that travels with a snapshot: the entries of its session's journal up to that point.

A bundle from elsewhere is not trusted: its entries are parsed like those of any session, and limited. The
first line has the form's number; to versions before it was added, that line is not an entry.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from holdfast.errors import BundleRefused
from holdfast.runtime.journal import journal_query
from holdfast.runtime.journal.journal_query import Filter
from holdfast.runtime.store.entry import CheckedLine, Entry, parse_line
from holdfast.runtime.store.timelines import journal_of
from holdfast.snapshots import form_number
from holdfast.snapshots.bundle import form

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow

FILE = "journal.jsonl.gz"
FORMAT = 1
MOST = 50_000
"""The most entries; of more, the newest."""
MAX_BYTES = 64 << 20
_FIRST = 1000
"""Bytes that the first line is shorter than."""


def collect(
    context: Context, snapshot: SnapshotRow, scrubbed: Callable[[dict[str, Any]], dict[str, Any]]
) -> bytes:
    """Return the entries before a snapshot for a bundle, without secrets; deterministic."""
    return pack(before(context, snapshot), scrubbed)


def pack(entries: list[Entry], scrubbed: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """Return the newest entries that fit, encoded for export."""
    first = json.dumps({form_number.FIELD: FORMAT}).encode() + b"\n"
    lines: list[bytes] = []
    room = MAX_BYTES - len(first)
    for entry in reversed(entries[-MOST:]):
        own: dict[str, Any] = {"seq": entry.seq, "at": entry.at, "kind": entry.kind, "actor": entry.actor}
        all_of_it = {**scrubbed(dict(entry.details)), **own}
        line = json.dumps(all_of_it, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return gzip.compress(b"".join((first, *reversed(lines))), compresslevel=6, mtime=0)


def before(context: Context, snapshot: SnapshotRow) -> list[Entry]:
    """Yield the entries of a session's line up to a snapshot, without this host's."""
    journal = journal_of(snapshot)
    last = snapshot.details.moment.journal_seq
    return [
        entry
        for entry in journal_query.read(context, journal, Filter())
        if not entry.host and (entry.session_id != journal or (last is not None and entry.seq <= last))
    ]


def variables(entries: Iterable[Entry]) -> set[str]:
    """Return the names of all variables that shells were ever seen to have."""
    found: set[str] = set()
    for entry in entries:
        changed = entry.details.get("variables") if entry.kind == "changed" else None
        if isinstance(changed, dict):
            found |= {str(name) for name in changed}
    return found


def read(packed: bytes) -> list[CheckedLine]:
    """Parse the entries of a bundle.

    Raises:
        BundleNewer: a newer version wrote them.
        BundleRefused: they are not valid, or too many.
    """
    try:
        opening = zlib.decompressobj(wbits=31)
        data = opening.decompress(packed, MAX_BYTES + 1)
    except zlib.error as error:
        raise BundleRefused("cannot import: its journal cannot be decompressed") from error
    if len(data) > MAX_BYTES:
        raise BundleRefused("cannot import: its journal is too long")
    lines = data.splitlines(keepends=True)
    if form_number.newer_than(number := _number(lines[0] if lines else b""), FORMAT):
        raise form.newer(form_number.in_words(number, FORMAT))
    found = [entry for entry in map(parse_line, lines[: MOST + 1]) if entry is not None]
    return sorted(found[:MOST], key=lambda entry: entry.seq)


def _number(line: bytes) -> Any:
    """Return the number of the form; None without one, as of versions before it was added."""
    try:
        found = json.loads(line) if len(line) < _FIRST else None
    except (ValueError, RecursionError):
        return None
    return found.get(form_number.FIELD) if isinstance(found, dict) else None
