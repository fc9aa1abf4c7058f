"""docs/security.md promises nothing that is not tested, or says that it is a limit."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLUMNS = ["threat", "what stops it", "test"]


def rows() -> list[tuple[str, str]]:
    """Threat and tests of each row."""
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    start = lines.index(f"| {' | '.join(COLUMNS)} |")
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines[start + 2 :]
        if line[:1] == "|"
    ]
    assert {len(row) for row in cells} == {3}
    return [(row[0], row[2]) for row in cells]


def functions(path: Path) -> set[str]:
    """The names of the functions of a file."""
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_each_threat_has_a_test_or_is_a_limit() -> None:
    """By the file and the name of the function."""
    missing = []
    for threat, said in rows():
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", said)
        missing += (
            [f"{threat}: neither a test nor a limit"] if not named and not said.startswith("limit") else []
        )
        missing += [
            f"{threat}: {file}::{name}"
            for file, name in named
            if not (ROOT / file).exists() or name not in functions(ROOT / file)
        ]
        assert said.count("::") == len(named), said
    assert len(rows()) > 20
    assert missing == []
