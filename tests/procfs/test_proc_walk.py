"""The walk of a tree in /proc, tried on this process and a child of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.procfs import walk


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its input."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        yield process
        assert process.stdin is not None
        process.stdin.close()


def test_a_tree_has_its_root_first(child: subprocess.Popen[bytes]) -> None:
    """Parents come before their children."""
    found = walk.tree(os.getpid())

    assert found.whole
    assert found.pids[0] == os.getpid()
    assert child.pid in found.pids


def test_a_process_is_described(child: subprocess.Popen[bytes]) -> None:
    """Status, words, namespaces and descriptors of a living process."""
    told = walk.status_of(child.pid)

    assert told is not None
    assert told.parent == os.getpid()
    assert walk.command_of(child.pid).startswith(sys.executable)
    assert walk.namespaces_of(child.pid) == walk.namespaces_of(os.getpid())
    assert {0, 1, 2} <= set(walk.descriptors(child.pid))
    link, info = walk.link_of(child.pid, 0), walk.fdinfo_of(child.pid, 0)
    assert link is not None
    assert info is not None
    assert (link.kind, info.access) == ("pipe", "r")


def test_an_ended_process_is_left_out(child: subprocess.Popen[bytes]) -> None:
    """Whatever is asked of it, the answer is empty and no error."""
    child.kill()
    child.wait()

    assert walk.tree(child.pid).pids == ()
    assert walk.status_of(child.pid) is None
    assert walk.descriptors(child.pid) == []
    assert walk.link_of(child.pid, 0) is None
    assert walk.stat_of(child.pid, 0) is None
    assert walk.namespaces_of(child.pid) == {}


def test_a_walk_is_bounded(monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]) -> None:
    """A tree with more processes than the limit is reported as incomplete."""
    monkeypatch.setattr(walk, "MAX_PROCESSES", 1)

    found = walk.tree(os.getpid())

    assert child.pid not in found.pids
    assert not found.whole


def test_texts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of a file is read than was requested."""
    monkeypatch.setattr(walk, "PROC", tmp_path)
    (tmp_path / "text").write_bytes(b"x" * 100_000)

    assert len(walk.read("text", 70_000) or b"") == 70_000
