"""The results file of the matrix: one row for each cell, from its last recorded run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.machines.scenario import Step

FILE = Path(__file__).parent / "matrix.json"


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one cell.

    `versions` has the versions of `engine`, `containerd`, `runc` and `kernel`, empty if unknown, and the
    version of `cgroup`; `engine` is the engine's name and store in words; `user` says who used it.
    """

    cell: str
    engine: str
    user: str
    versions: dict[str, str]
    steps: tuple[Step, ...]


def load(path: Path = FILE) -> list[Row]:
    """Return the rows of the file; an empty list if the file is missing."""
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    return [Row(**{**row, "steps": tuple(Step(**step) for step in row["steps"])}) for row in found]


def merged(old: Sequence[Row], new: Row, order: Sequence[str]) -> list[Row]:
    """Return the rows with one added or replaced, in the order of the cells; rows without a cell are
    dropped."""
    found = {row.cell: row for row in [*old, new]}
    return [found[name] for name in order if name in found]


def save(rows: Sequence[Row], path: Path = FILE) -> None:
    """Write the file.

    Raises:
        OSError: it cannot be written.
    """
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
