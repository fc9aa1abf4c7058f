"""Journal entries without secrets, for bundles that leave this machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.runtime.scrubbing.matcher import Matcher
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.runtime.store.entry import Entry


def without_secrets(entries: Iterable[Entry], matcher: Matcher) -> list[Entry]:
    """Return the entries with everything that the matcher finds removed from their details."""
    scrubber = Scrubber(matcher)
    return [replace(entry, details=scrubber.value(dict(entry.details))) for entry in entries]
