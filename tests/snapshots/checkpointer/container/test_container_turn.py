"""One at a time with a container; a waiting caller asks for its memory."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

import pytest

from holdfast.snapshots.checkpointer.container import container_turn
from holdfast.snapshots.checkpointer.container.container_turn import ContainerBusy, asked_to_load, turn

NAME = "c" * 64


def test_turns_are_taken_one_after_the_other_and_leave_nothing(tmp_path: Path) -> None:
    inside, most, done = [0], [0], []

    def take() -> None:
        for _ in range(50):
            with turn(NAME, tmp_path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
        done.append(True)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 6
    assert most == [1]
    assert list(tmp_path.iterdir()) == []


def test_waiting_callers_load_the_memory(tmp_path: Path) -> None:
    taken = threading.Event()

    def capture() -> None:
        with turn(NAME, tmp_path):
            taken.set()

    with turn(NAME, tmp_path), asked_to_load(NAME, tmp_path) as wish:
        assert not select.select([wish], [], [], 0)[0]
        waiting = threading.Thread(target=capture)
        waiting.start()
        assert select.select([wish], [], [], 30)[0]
        assert not taken.is_set()
    waiting.join(30)
    assert taken.is_set()
    assert list(tmp_path.iterdir()) == []


def test_an_endless_turn_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_turn, "LIMIT", 0.05)
    with turn(NAME, tmp_path), pytest.raises(ContainerBusy), turn(NAME, tmp_path):
        pass


def test_leftovers_of_a_killed_checkpointer_do_no_harm(tmp_path: Path) -> None:
    """A lock that is not held, a FIFO without a reader; or a link of that name."""
    (tmp_path / f"{NAME}.lock").touch()
    os.mkfifo(tmp_path / f"{NAME}.load")
    with turn(NAME, tmp_path):
        container_turn._ask_to_load(NAME, tmp_path)
        with asked_to_load(NAME, tmp_path) as wish:
            for _ in range(100_000):  # more than fits into the pipe
                container_turn._ask_to_load(NAME, tmp_path)
            assert os.read(wish, 1) == b"!"
    (tmp_path / "elsewhere").touch()
    (tmp_path / f"{NAME}.lock").symlink_to("elsewhere")
    with pytest.raises(OSError, match=r"symbolic link|Too many levels"), turn(NAME, tmp_path):
        pass
