"""A survey of an unchanging tree, tried on this process: it is complete, or counts what it left out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.record import kernel_record as looking
from holdfast.snapshots.checkpointer.record.kernel_record import look


def test_all_descriptors_of_one_process_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session can have more in one process than one survey reads: none of its descriptors goes unjudged."""
    monkeypatch.setattr(walk, "MAX_DESCRIPTORS", 2)
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    # In a process of its own: threads of this one may end between two reads.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=opened) as child:
        found = look([child.pid], child.pid)
        assert child.stdin is not None
        child.stdin.close()
    for one in opened:
        os.close(one)

    assert set(opened) <= {one["fd"] for one in found["processes"][0]["descriptors"]}
    assert found["left_out"] == 0


def test_descriptors_that_are_not_examined_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors that are left out are never restored: the judge is given their number."""
    monkeypatch.setattr(looking, "MAX_DESCRIPTORS", 2)

    assert look([os.getpid()], os.getpid())["left_out"] > 0


def test_threads_that_are_not_examined_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are threads, each of which has rights of its own."""
    monkeypatch.setattr(walk, "MAX_THREADS", 0)

    assert look([os.getpid()], os.getpid())["left_out"] > 0


def test_names_too_long_in_total_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A long name that is open a hundred thousand times is not reported as often."""
    monkeypatch.setattr(looking, "MAX_NAMES", 1000)
    (tmp_path / ("x" * 200)).touch()
    opened = [os.open(tmp_path / ("x" * 200), os.O_RDONLY) for _ in range(10)]
    try:
        found = look([os.getpid()], os.getpid())
    finally:
        for one in opened:
            os.close(one)

    assert found["left_out"] > 0
    assert sum(len(one["what"]) for one in found["processes"][0]["descriptors"]) < 1500


def test_sockets_are_found_in_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the network if there is one at least: to list them takes the kernel long."""
    asked: list[str] = []
    read = walk.read

    def listening(name: str, *arguments: int, **more: int) -> bytes | None:
        asked.append(name.rpartition("/")[2])
        return read(name, *arguments, **more)

    monkeypatch.setattr(walk, "read", listening)
    one, other = socket.socketpair()
    code = "import os, sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, pass_fds=(one.fileno(),)
    ) as child:
        told = look([child.pid], child.pid)
        assert [found["kind"] for found in told["sockets"]] == ["unix stream"]
        assert "tcp" not in asked
        child.kill()
    one.close()
    other.close()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = look([os.getpid()], os.getpid())
        port = listener.getsockname()[1]
        assert ("tcp", port) in {
            (found["kind"], found["local_port"]) for found in told["sockets"] if "local_port" in found
        }
