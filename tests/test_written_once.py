"""The product says a thing once: ceilings that only fall. `python -m tests.written_once` lists the places."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests import written_once
from tests.test_layers import GRAPH, MODULES

ROOT = Path(__file__).parents[1]
SPELLINGS = 375
"""Places that spell a record of seven fields or more, the class of each record among them."""
SPELLED_OFTEN = 55
"""Records with three places or more."""
SERVING_ONE = 195
"""Modules that one other module imports."""
LONGEST = 500
LONGER = {"src/holdfast/errors.py": 696, "runtime/e2b/sandbox_access.py": 540}
"""Files that are longer: the tree of errors, of which most commands load all families; and one to divide."""
WITHOUT_A_FACT = 990
"""Tests without a docstring."""


def test_a_record_is_spelled_in_few_places() -> None:
    """A class, and hardly any table, call, parameter list or second class that repeats most of its fields."""
    found = written_once.spellings()
    counts = [len(places) for places in found.values()]
    assert len(counts) > 100
    assert sum(counts) <= SPELLINGS
    assert sum(count >= 3 for count in counts) <= SPELLED_OFTEN


def test_few_modules_serve_a_single_other_one() -> None:
    """Such a module is often half of the other one."""
    importers = Counter(name for imported in GRAPH.values() for name in imported)
    alone = [name for name in MODULES if importers[name] == 1]
    assert len(MODULES) > 700
    assert len(alone) <= SERVING_ONE


def test_files_have_a_length_that_can_be_read() -> None:
    """Half a thousand lines at most."""
    long = {}
    for name, _ in written_once.modules():
        lines = len((ROOT / name).read_text().splitlines())
        if lines > LONGER.get(name, LONGEST):
            long[name] = lines
    assert long == {}


def test_tests_state_their_fact() -> None:
    """In a docstring; a new test has one."""
    without = 0
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                without += ast.get_docstring(node) is None
    assert without <= WITHOUT_A_FACT
