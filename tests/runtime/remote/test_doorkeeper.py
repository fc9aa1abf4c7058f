"""The doorkeeper with real command lines, and the relay's end of it, without an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import __version__
from holdfast.runtime.remote.relay_frames import (
    BEGIN,
    ERRORS,
    EXIT,
    INPUT,
    OUTPUT,
    SIGNAL,
    SIZE,
    TAKEN,
    frame,
    frames,
)

PIPES = {"input": "pipe", "output": "pipe", "errors": "pipe", "size": [24, 80]}
TERMINAL = {"input": "terminal", "output": "terminal", "errors": "terminal", "size": [31, 97]}
_SERVE = """
import sys
from pathlib import Path
from holdfast.runtime.remote import doorkeeper
doorkeeper.IN_USE = Path(sys.argv[1])
command = sys.argv[2:]
if command:
    doorkeeper.COMMAND = tuple(command)
sys.exit(doorkeeper.serve())
"""


class Door:
    """A doorkeeper, and its answers."""

    def __init__(self, lock: Path, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(lock), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._frames = frames()
        self._pending: list[tuple[bytes, bytes]] = []
        self.output: dict[bytes, bytes] = {OUTPUT: b"", ERRORS: b"", TAKEN: b""}

    def send(self, kind: bytes, body: bytes = b"") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(frame(kind, body))
        self.process.stdin.flush()

    def begin(self, streams: dict[str, Any], *arguments: str, **environment: str) -> None:
        self.send(BEGIN, json.dumps({"arguments": arguments, "environment": environment, **streams}).encode())

    def until(self, text: bytes) -> None:
        """Read until the command has written this."""
        while text not in self.output[OUTPUT] + self.output[ERRORS]:
            assert self._next() is None, self.output

    def end(self) -> int:
        """Return the exit code of the command."""
        while (code := self._next()) is None:
            pass
        return code

    def _next(self) -> int | None:
        assert self.process.stdout is not None
        while not self._pending:
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, self.output
            self._pending += self._frames.feed(data)
        kind, body = self._pending.pop(0)
        if kind == EXIT:
            return int(body)
        if kind in self.output:
            self.output[kind] += body + (b" " if kind == TAKEN else b"")
        return None


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Any]:
    made: list[Door] = []

    def start(*command: str) -> Door:
        made.append(Door(tmp_path / "in-use", *command))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.wait()
        for pipe in (each.process.stdin, each.process.stdout):
            assert pipe is not None
            pipe.close()


def test_the_doorkeeper_runs_the_command_holdfast(door: Any) -> None:
    one = door()
    one.begin(PIPES, "--version")
    assert one.end() == 0
    assert one.output[OUTPUT].decode() == f"{__version__}\n"
    assert one.process.wait(30) == 0


def test_streams_stay_separate_and_the_code_is_the_commands(door: Any) -> None:
    one = door("sh", "-c", 'cat; echo "$GIVEN" >&2; exit 7')
    one.begin(PIPES, GIVEN="yes")
    one.send(INPUT, b"some input")
    one.send(INPUT)
    assert one.end() == 7
    assert one.output == {OUTPUT: b"some input", ERRORS: b"yes\n", TAKEN: b"10 "}


def test_a_terminal_has_the_callers_size_and_its_keys(door: Any) -> None:
    one = door(
        "sh",
        "-c",
        "trap 'stty size' WINCH; trap 'echo interrupted; exit 3' INT; stty size; while :; do sleep 0.1; done",
    )
    one.begin(TERMINAL)
    one.until(b"31 97")
    one.send(SIZE, b"[40, 120]")
    one.until(b"40 120")
    one.send(INPUT, b"\x03")
    assert one.end() == 3
    assert b"interrupted" in one.output[OUTPUT]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_are_passed_on(name: str, code: int, door: Any) -> None:
    one = door("sleep", "60")
    one.begin(PIPES)
    one.send(SIGNAL, name.encode())
    assert one.end() == code


def test_signals_that_do_not_exist_are_ignored(door: Any) -> None:
    one = door("sh", "-c", "cat; exit 4")
    one.begin(PIPES)
    one.send(SIGNAL, b"SIGNONSENSE")
    one.send(INPUT)
    assert one.end() == 4


def test_a_vanished_caller_is_a_hangup(door: Any, tmp_path: Path) -> None:
    one = door(
        "sh", "-c", f"trap 'echo gone >{tmp_path}/seen; exit' HUP; echo ready; while :; do sleep 0.1; done"
    )
    one.begin(PIPES)
    one.until(b"ready")
    one.process.stdin.close()
    assert one.process.wait(30) == 0
    assert (tmp_path / "seen").read_text() == "gone\n"


def test_input_that_nothing_reads_keeps_no_signal_waiting(door: Any) -> None:
    one = door("sh", "-c", "echo ready; exec sleep 60")
    one.begin(PIPES)
    one.until(b"ready")
    for _ in range(4):
        one.send(INPUT, bytes(60000))
    one.send(SIGNAL, b"SIGTERM")
    assert one.end() == 143


def test_another_protocol_is_not_served(door: Any) -> None:
    one = door("true")
    one.send(INPUT, b"hello")
    assert one.process.wait(30) == 2
