"""Drives real terminals: each runs a command on its own screen and reports its content afterwards."""

from __future__ import annotations

import base64
import json
import os
import select
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PROBE = Path(__file__).with_name("probe.py")
SECONDS = 120
# tmux as trusting as it can be set: programs inside may set the clipboard and names, and reach its outside.
TMUX = """
set -g exit-empty off
set -s set-clipboard on
set -g allow-passthrough on
set -g allow-rename on
set -g status off
set -g default-terminal xterm-256color
"""
XTERM = (
    "*allowWindowOps: true",
    "*disallowedWindowOps: ",
    "*allowTitleOps: true",
    "*allowColorOps: true",
    "*disallowedColorOps: ",
    "*allowFontOps: true",
    "*allowTcapOps: true",
    "*allowMouseOps: true",
    "*c132: true",
    "*answerbackString: answered",
    "*utf8: 2",
)


def program(name: str) -> str:
    """Return the path of a program that the tests need."""
    found = shutil.which(name)
    assert found, f"cannot test: there is no {name}; `setup/terminals` installs it"
    return found


class Tmux:
    """A tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self._name = f"holdfast-test-{uuid.uuid4().hex[:12]}"
        (folder / "tmux.conf").write_text(TMUX)
        self._command = [program("tmux"), "-L", self._name, "-f", str(folder / "tmux.conf")]
        self("start-server")

    def __call__(self, *arguments: str) -> str:
        """Run a command of tmux and return its output."""
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, timeout=SECONDS, check=False, env=environment
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.decode()

    def run(self, command: Sequence[str], size: tuple[int, int] = (24, 80)) -> str:
        """Run a command in a new session until it ends, and return the name of its pane, which stays."""
        pane, told = self.start(command, size)
        self("wait-for", told)
        return pane

    def start(self, command: Sequence[str], size: tuple[int, int] = (24, 80)) -> tuple[str, str]:
        """Start a command in a new session, and return the name of its pane and the text to wait for."""
        told = uuid.uuid4().hex
        ended = shlex.join([*self._command, "wait-for", "-S", told])
        line = f"{shlex.join(command)}; {ended}; exec cat >/dev/null"
        rows, cols = size
        at = ("-d", "-P", "-F", "#{pane_id}", "-x", str(cols), "-y", str(rows), "-n", "window")
        return self("new-session", *at, line).strip(), told

    def held(self, pane: str) -> str:
        """Return values that programs must not set: the buffers, the title and the name of the window."""
        return self("display-message", "-p", "-t", pane, "#{pane_title} #{window_name}") + self(
            "list-buffers"
        )

    def screen(self, pane: str) -> str:
        """Return its content, with colors."""
        return self("capture-pane", "-p", "-e", "-t", pane)

    def close(self) -> None:
        """End the server."""
        self("kill-server")


@contextmanager
def tmux(folder: Path) -> Iterator[Tmux]:
    """A tmux server that is ended."""
    made = Tmux(folder)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def display() -> Iterator[str]:
    """An X display that no one sees."""
    reading, writing = os.pipe()
    arguments = ["-displayfd", str(writing), "-screen", "0", "1024x768x24", "-nolisten", "tcp"]
    server = subprocess.Popen(
        [program("Xvfb"), *arguments],
        pass_fds=[writing],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        assert select.select([reading], [], [], SECONDS)[0], "cannot test: Xvfb does not start"
        number = os.read(reading, 32).decode().strip()
        assert number, "cannot test: Xvfb ended"
        yield f":{number}"
    finally:
        os.close(reading)
        server.terminate()
        server.wait()


def _in_tmux(folder: Path, command: Sequence[str]) -> str:
    with tmux(folder) as server:
        return server.held(server.run(command))


def _in_screen(folder: Path, command: Sequence[str]) -> str:
    (folder / "screenrc").write_text("startup_message off\ndefutf8 on\nterm xterm-256color\n")
    sockets = folder / "sockets"
    sockets.mkdir(mode=0o700)
    environment = {**os.environ, "SCREENDIR": str(sockets), "LC_ALL": "C.UTF-8"}
    name = ["-U", "-D", "-m", "-c", str(folder / "screenrc"), "-S", "probe"]
    subprocess.run([program("screen"), *name, *command], env=environment, timeout=SECONDS, check=True)
    return ""


def _in_xterm(_folder: Path, command: Sequence[str]) -> str:
    settings = [word for line in XTERM for word in ("-xrm", line)]
    with display() as name:
        environment = {**os.environ, "DISPLAY": name, "LC_ALL": "C.UTF-8"}
        subprocess.run(
            [program("xterm"), *settings, "-e", *command], env=environment, timeout=SECONDS, check=True
        )
    return ""


TERMINALS = {"tmux": _in_tmux, "screen": _in_screen, "xterm": _in_xterm}


def answers(terminal: str, cases: Sequence[bytes], folder: Path) -> tuple[list[bytes], str]:
    """Return a terminal's answer to each case, and its final state as far as it reports it."""
    asked, said = folder / "asked.json", folder / "said.json"
    asked.write_text(json.dumps([base64.b64encode(case).decode() for case in cases]))
    held = TERMINALS[terminal](folder, [sys.executable, str(PROBE), str(asked), str(said)])
    return [base64.b64decode(each) for each in json.loads(said.read_text())], held
