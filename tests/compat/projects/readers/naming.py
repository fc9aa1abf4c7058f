"""Names of cases that occur more than once. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def counted(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return outcomes by name; the second case of a name is `name (2)`, and so on."""
    cases: dict[str, str] = {}
    seen: dict[str, int] = {}
    for name, outcome in found:
        seen[name] = number = seen.get(name, 0) + 1
        cases[name if number == 1 else f"{name} ({number})"] = outcome
    return cases
