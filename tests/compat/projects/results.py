"""The results file: the row of each project, from its last recorded run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.compat.projects.outcome import Outcome, from_dict

FILE = Path(__file__).parent / "results.json"


def load(path: Path = FILE) -> list[Outcome]:
    """Return the rows of the file; an empty list if the file is missing."""
    if not path.exists():
        return []
    return [from_dict(found) for found in json.loads(path.read_text(encoding="utf-8"))]


def merged(old: Sequence[Outcome], new: Iterable[Outcome], order: Sequence[str]) -> list[Outcome]:
    """Return the rows with new ones replaced, in the order of the declarations; others are dropped."""
    found = {one.name: one for one in [*old, *new]}
    return [found[name] for name in order if name in found]


def save(rows: Sequence[Outcome], path: Path = FILE) -> None:
    """Write the file.

    Raises:
        OSError: it cannot be written.
    """
    path.write_text(json.dumps([one.as_dict() for one in rows], indent=1) + "\n", encoding="utf-8")
