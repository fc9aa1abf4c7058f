"""Lists in pages: the rows that match a client's filters, and where its next page begins.  Pure.

A page ends with a token, the time and the id of its last row: rows that come or go between two pages neither
hide nor repeat others.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, unquote

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

MOST = 100
"""Rows of a page."""
NEXT = "x-next-token"
STATES = {"running": "running", "paused": "suspended"}
Listed = TypeVar("Listed", SessionRow, SnapshotRow)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The filters of a list."""

    metadata: Mapping[str, str]
    states: frozenset[str]
    template: str | None = None
    started_after: datetime | None = None

    @classmethod
    def parse(
        cls, metadata: str | None, states: Sequence[str], template: str | None, started_after: str | None
    ) -> ListQuery:
        """Parse the query of an address.

        Raises:
            InvalidArgument: a part of it has another form.
        """
        # Clients quote both, and then the whole of it again.
        pairs = parse_qsl(metadata or "", keep_blank_values=True)
        wanted = {unquote(key): unquote(value) for key, value in pairs}
        named = [name for each in states for name in each.split(",") if name] or list(STATES)
        for name in named:
            if name not in STATES:
                raise InvalidArgument(
                    f"cannot list sandboxes in state '{plain(name, 40)}': there are running and paused"
                )
        return cls(wanted, frozenset(STATES[name] for name in named), template, _moment(started_after))

    def fits(self, row: SessionRow) -> bool:
        """Return whether a session matches. One that no client made is not a sandbox."""
        facts = SandboxFacts.of(row)
        if facts is None or facts.ended or row.state not in self.states:
            return False
        if self.template is not None and facts.template != self.template:
            return False
        if self.started_after is not None and row.created_at <= self.started_after:
            return False
        return all(facts.metadata.get(key) == value for key, value in self.metadata.items())


@dataclass(frozen=True, slots=True)
class Page(Generic[Listed]):
    """One page, and the token for the next one; empty at the end."""

    rows: Sequence[Listed]
    next_token: str


def page(rows: Sequence[Listed], limit: int | None, token: str | None, *, oldest_first: bool) -> Page[Listed]:
    """Return a page of rows.

    Raises:
        InvalidArgument: the limit or the token is not valid.
    """
    size = MOST if limit is None else limit
    if not 1 <= size <= MOST:
        raise InvalidArgument(f"cannot list {size} at once: the number is from 1 to {MOST}")
    ordered = sorted(rows, key=_key, reverse=not oldest_first)
    if token:
        last = _read(token)
        ordered = [row for row in ordered if (_key(row) > last if oldest_first else _key(row) < last)]
    found = ordered[:size]
    return Page(found, _token(found[-1]) if len(ordered) > size else "")


def _key(row: SessionRow | SnapshotRow) -> tuple[str, str]:
    return row.created_at.astimezone(UTC).isoformat(timespec="microseconds"), row.id


def _token(row: SessionRow | SnapshotRow) -> str:
    return base64.urlsafe_b64encode("|".join(_key(row)).encode()).decode().rstrip("=")


def _read(token: str) -> tuple[str, str]:
    try:
        moment, bar, row_id = (
            base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().partition("|")
        )
    except (binascii.Error, ValueError):
        bar = ""
    if not bar:
        raise InvalidArgument("cannot continue the list: the token is not one of a page")
    return moment, row_id


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"cannot read '{plain(text, 60)}': it is no time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
