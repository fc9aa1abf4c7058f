"""Places that spell the fields of a record again: `test_written_once.py` counts them.

A record is a class with at least seven fields. A place is the body of a class, a table with names, a call
with keywords, or the parameters of a function; it spells a record if it repeats most of its fields.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("src/holdfast", "runtime", "snapshots", "images", "kernels")
MADE = "runtime/client/blocking/"
FEWEST = 7
SHARE = 0.6


class Place(NamedTuple):
    """A place that spells names: `file:line`, its kind, and its name there."""

    where: str
    kind: str
    called: str
    names: frozenset[str]


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield each module of the product that a person wrote."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(MADE) and not any(each.is_symlink() for each in path.parents):
                yield name, ast.parse(path.read_text())


def _fields(node: ast.ClassDef) -> frozenset[str]:
    """Return the annotated names of a class, except for its private ones."""
    return frozenset(
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and not each.target.id.startswith("_")
        and "ClassVar" not in ast.unparse(each.annotation)
    )


def _places(name: str, tree: ast.Module) -> Iterator[Place]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            kind, called, names = "class", node.name, _fields(node)
        elif isinstance(node, ast.Dict):
            texts = [each.value for each in node.keys if isinstance(each, ast.Constant)]
            kind, called, names = "table", "", frozenset(text for text in texts if isinstance(text, str))
        elif isinstance(node, ast.Call):
            kind, called = "call", ast.unparse(node.func)
            names = frozenset(each.arg for each in node.keywords if each.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            args = node.args
            kind, called = "parameters", node.name
            names = frozenset(
                each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs) if each.arg != "self"
            )
        else:
            continue
        if len(names) >= FEWEST * SHARE:
            yield Place(f"{name}:{node.lineno}", kind, called, names)


def spellings() -> dict[Place, list[Place]]:
    """Return the places that spell each record, its own class among them."""
    places = [place for name, tree in modules() for place in _places(name, tree)]
    records = [place for place in places if place.kind == "class" and len(place.names) >= FEWEST]
    naming: dict[str, list[int]] = defaultdict(list)
    for number, place in enumerate(places):
        for name in place.names:
            naming[name].append(number)
    found = {}
    for record in records:
        shared: dict[int, int] = defaultdict(int)
        for name in record.names:
            for number in naming[name]:
                shared[number] += 1
        found[record] = [
            places[number] for number, count in sorted(shared.items()) if count >= SHARE * len(record.names)
        ]
    return found


def told(found: dict[Place, list[Place]]) -> str:
    """Format records that are spelled again, the worst first."""
    lines = []
    for record, places in sorted(found.items(), key=lambda pair: -len(pair[1])):
        if len(places) > 1:
            lines.append(f"{len(places)} {record.called} ({len(record.names)} fields)")
            lines += [f"    {place.where} {place.kind} {place.called}".rstrip() for place in places]
    return "\n".join(lines)


if __name__ == "__main__":
    FOUND = spellings()
    COUNTS = [len(places) for places in FOUND.values()]
    TIMES = f"{sum(COUNTS)} spellings, {sum(count >= 3 for count in COUNTS)} records spelled three times"
    sys.stdout.write(f"{told(FOUND)}\n{len(FOUND)} records, {TIMES}\n")
