"""The programs that judge copies from inside must not complain of overlayfs's own effects."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A witness of files in a folder of its own."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "inside"))
    made = importlib.import_module("witness.tree").Tree(tmp_path)
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] == "witness"]:
        del sys.modules[name]


def test_a_file_being_written_can_lose_its_other_name(tree: Any) -> None:
    """It was captured in the middle of a write, which in the copy reaches one of two names only."""
    tree.nodes["two"] = tree.nodes["one"] = tree._write("one", b"before")
    shutil.copy2(tree.top / "one", tree.top / "two")
    (tree.top / "one").write_bytes(b"behind")
    tree.nodes["one"].content[:] = b"behind"
    tree.at_hand = [tree.nodes["one"]]
    tree.host = "another machine"

    assert tree.look() == ""
    assert tree.look() == ""
    assert (tree.top / "two").read_bytes() == b"behind"


def test_any_other_difference_is_a_complaint(tree: Any) -> None:
    """Also in a copy that was just made."""
    tree._write("one", b"before")
    (tree.top / "one").write_bytes(b"behind")
    tree.host = "another machine"

    assert tree.look() == "one: 6 bytes instead of 6, the first other one at 2; also called nothing else"
