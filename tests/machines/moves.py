"""A session that moves to the second machine: its maker, and its checks."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.machines.second import Machine

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

REMOTE = f"{sys.executable} -m holdfast"
COUNTING = "i=0; while :; do i=$((i+1)); echo $i >/tmp/next; mv /tmp/next /tmp/count; sleep 0.05; done &"


@dataclass
class There:
    """The second machine, as one that ssh reaches; and how that fails."""

    machine: Machine
    folder: Path

    def fails(self, do: str, when: str, nth: int = 1, *, lost: bool = False) -> None:
        """Let the connection fail at a request; `lost`: and the host not be reachable from then on."""
        (self.folder / "fault").write_text(json.dumps({"do": do, "when": when, "nth": nth}))
        if lost:
            (self.folder / "lost").touch()

    def returns(self) -> None:
        """Let the host be reachable again."""
        (self.folder / "unreachable").unlink()

    def cli(self, *arguments: str) -> str:
        """Return the output of the command `holdfast` there."""
        said = self.machine.cli(*arguments)
        assert said.returncode == 0, said.stderr
        return said.stdout.strip()

    def states(self) -> dict[str, str]:
        """Return the sessions there, and their states."""
        return {each["name"]: each["state"] for each in json.loads(self.cli("ls", "--json"))}

    def says(self, command: str) -> str:
        """Return the output of a command in the session there."""
        return self.cli("exec", "work", command)


def prepared(hf: Holdfast, **options: Any) -> Session:
    """Return a session with state in its shell, and a program that counts."""
    session = hf.new("work", **options)
    session.exec(f"cd /srv; export COLOR=green; echo kept >/srv/file; {COUNTING}", timeout=60)
    return session


def is_whole(says: Callable[[str], str]) -> None:
    """Check what `prepared` made, where it is now."""
    assert says("echo $PWD $COLOR $(cat file)") == "/srv green kept"
    counts = "a=$(cat /tmp/count); sleep 0.5; b=$(cat /tmp/count); [ $b -gt $a ] && echo on"
    assert says(counts) == "on"


def here(session: Session) -> Callable[[str], str]:
    """Return a function that runs commands in a session here."""
    return lambda command: session.exec(command, timeout=60).text.strip()


def wait_until(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until something happened; the process must not end before."""
    deadline = time.monotonic() + 120
    while not happened():
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline
        time.sleep(0.02)
