"""Imports from other packages name public modules only: private ones change with any release."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "runtime/gateway/": "runs in an image whose packages are those of its lock file",
    "runtime/adapters/inspect_sandbox.py": "inspect_ai has this error nowhere else, and loads the adapter",
}
"""Where private names are imported, and why that is not a risk for an installation."""
FOLDERS = ("src/holdfast", "runtime", "snapshots", "images", "kernels")


def guarded(tree: ast.AST) -> set[ast.AST]:
    """Return the code where a missing name is expected: below `suppress(ImportError)`, or in a `try`."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and "ImportError" in ast.unparse(node.items[0]):
            found |= set(ast.walk(node))
        elif isinstance(node, ast.Try) and any("ImportError" in ast.unparse(each) for each in node.handlers):
            found |= {below for each in node.body for below in ast.walk(each)}
    return found


def imported(path: Path) -> Iterator[str]:
    """Yield the dotted names that a module needs of others, also within functions."""
    tree = ast.parse(path.read_text())
    expected = guarded(tree)
    for node in ast.walk(tree):
        if node in expected:
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)


def modules() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            if not any(each.is_symlink() for each in path.parents):
                yield path


def test_no_private_name_of_another_package_is_imported() -> None:
    found, count = [], 0
    for path in modules():
        for name in imported(path):
            count += 1
            first, *rest = name.split(".")
            others = first not in sys.stdlib_module_names and first not in ("holdfast", "_typeshed")
            place = str(path.relative_to(ROOT))
            if not others or place.startswith(tuple(ALLOWED)):
                continue
            if any(part.startswith("_") and not part.startswith("__") for part in [first, *rest]):
                found.append(f"{place}: {name}")
    assert count > 5000
    assert found == []
