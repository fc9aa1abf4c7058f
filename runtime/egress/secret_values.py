"""The values of secrets that are still needed: those whose placeholder a session or a snapshot has."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import SnapshotDamaged, SnapshotNewer
from holdfast.runtime.egress import vault
from holdfast.snapshots import manifest

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

_FRESH = 3600.0
"""Seconds in which a value is not garbage: its session may be about to be made."""


def unneeded(context: Context) -> list[str]:
    """Return the placeholders of values that are no longer needed."""
    before = time.time() - _FRESH
    old = [placeholder for placeholder, since in vault.kept(context.home) if since < before]
    return _without_needed(context, old)


def forget(context: Context, options: Mapping[str, Any]) -> None:
    """Remove the values of a session that is removed, except those that another session or a snapshot has."""
    for placeholder in _without_needed(context, placeholders(options)):
        vault.forget(context.home, placeholder)


def placeholders(options: Mapping[str, Any]) -> list[str]:
    """Return the placeholders in a session's options."""
    return [str(one["placeholder"]) for one in options.get("secrets") or ()]


def _without_needed(context: Context, candidates: Iterable[str]) -> list[str]:
    left = list(candidates)
    if left:  # most homes have no secrets; snapshots are not read then
        try:
            needed = set(_needed(context))
        except SnapshotNewer:  # what it needs is not known here, so nothing is removed
            return []
        left = [placeholder for placeholder in left if placeholder not in needed]
    return left


def _needed(context: Context) -> Iterator[str]:
    for session in context.store.sessions():
        yield from placeholders(session.options)
    for snapshot in context.store.snapshots(pending=True):
        try:
            yield from placeholders(manifest.read(context.home.snapshots / snapshot.id).options)
        except SnapshotDamaged:  # or not written yet: it has the same placeholders as its session
            owner = context.store.find_session(snapshot.session_id, removed=True)
            yield from placeholders(owner.options) if owner else ()
