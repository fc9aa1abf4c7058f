"""The table of `docs/images.md`: which capability works in which image. All but reading and writing is pure.

The results are in a file, one row for each image, from its last recorded run. Nothing else is in the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.wording import cell

RESULTS = Path(__file__).parent / "image_table.json"
PAGE = Path(__file__).parents[2] / "docs" / "images.md"
BEGIN, END = "<!-- written by a run of the images with HOLDFAST_WRITE=1 -->", "<!-- end of the table -->"

CAPABILITIES = (
    *("exec", "question", "cell", "pulse", "live snapshot", "drift", "restore", "three forks"),
    *("export", "thaw elsewhere"),
)
IMAGES = {
    "debian-13": "Debian 13, minimal",
    "debian-12": "Debian 12, minimal",
    "debian-11": "Debian 11, minimal",
    "debian-sid": "Debian sid, minimal",
    "jupyter-12": "Debian 12 with python3-ipykernel",
    "jupyter-11": "Debian 11 with python3-ipykernel",
    "musl": "a program with musl's loader and libc, and nothing else",
    "busybox": "busybox alone, static",
    "one-file": "one file that is no program",
    "user": "user 1000 that is not listed, without home",
    "odd": "`/opt` closed, no `/tmp`, variables of Python and bash with folders that are missing, "
    "a health check, a volume, an ENTRYPOINT that fails",
    "large": "3 GB",
    "debian-13+read-only": "Debian 13, minimal, with `--read-only`",
    "jupyter-12+read-only": "Debian 12 with python3-ipykernel, with `--read-only`",
    "one-file+read-only": "one file that is no program, with `--read-only`",
    "user+read-only": "user 1000 that is not listed, without home, with `--read-only`",
}
"""The images in the order of the table, and how it calls them; with `+`, options of their sessions."""

Row = Mapping[str, str]
"""Capabilities, each with `ok` or why it did not work."""


def load() -> dict[str, Row]:
    """Return the recorded rows by image."""
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else {}


def record(image: str, row: Row) -> None:
    """Write a row to the results and to the page."""
    rows = load() | {image: dict(row)}
    rows = {name: rows[name] for name in IMAGES if name in rows}
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(of(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


def of(text: str, rows: Mapping[str, Row]) -> str:
    """Return the page with the table of these results in place of its present table.

    Raises:
        ValueError: the page lacks the marks of the table.
    """
    head, begins, rest = text.partition(BEGIN)
    _, ends, tail = rest.partition(END)
    if not (begins and ends):
        raise ValueError("the page lacks the marks of the table")
    return f"{head}{BEGIN}\n\n{table(rows)}\n\n{END}{tail}"


def table(rows: Mapping[str, Row]) -> str:
    """Return the table, and the reason of everything in it that did not work."""
    lines = [f"| image | {' | '.join(CAPABILITIES)} |", f"|{'---|' * (len(CAPABILITIES) + 1)}"]
    notes = []
    for image, row in rows.items():
        shown = ["ok" if row.get(each) == "ok" else "**no**" for each in CAPABILITIES]
        lines.append(f"| {' | '.join([IMAGES[image], *shown])} |")
        notes += [
            f"- {IMAGES[image]}, {each}: {cell(row.get(each, 'not run'))}"
            for each in CAPABILITIES
            if row.get(each) != "ok"
        ]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def red(row: Row) -> Sequence[str]:
    """Return the failures, with their reasons."""
    return [f"{each}: {row.get(each, 'not run')}" for each in CAPABILITIES if row.get(each) != "ok"]
