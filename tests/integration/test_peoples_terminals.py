"""A person in tmux looks at a hostile session: its output reaches their screen, and nothing else."""

from __future__ import annotations

import base64
import io
import json
import shlex
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hostile_output import COPIED, MARK, cases
from tests.terminals import real

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

# Modes of the pane that a shell expects: mouse, second screen, insert, keys, keypad, origin; cursor, wrap.
OFF = ("mouse_any_flag", "alternate_on", "insert_flag", "keypad_cursor_flag", "keypad_flag", "origin_flag")
ON = ("cursor_flag", "wrap_flag")
MODES = " ".join(f"#{{{name}}}" for name in (*OFF, *ON))
SANE = "0 0 0 0 0 0 1 1"
# Everything at once, then the terminal queries of an attack, then an end mark.
ATTACK = (
    b"\x1b\\".join(cases().values())
    + f"\x1b\\\x1b]52;c;{COPIED}\x07\x1b[6n\x1b[c\x1b]2;{MARK}\x07\x1b[?1003h\x1b[?1049h\x1b[?25l".encode()
    + b"\x1b[4h\x1b=\x1b[?1h\x1b[H\x1b[2Jattacked\r\n"
)
# Asks as Vim and prompt_toolkit do, in raw mode, and keeps the answers.
ASKS = """
import os, tty
tty.setraw(0)
os.write(1, b"\\x1b[H\\x1b[2Jasking\\x1b[6n\\x1b[c")
heard = b""
while not heard.endswith(b"c"):
    heard += os.read(0, 100)
open("/tmp/heard", "wb").write(heard)
"""


@pytest.fixture(scope="module")
def hostile(shared_hf: Holdfast, shared: Session) -> Session:
    """A session with a file of attacks, and a program that asks its terminal."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in (("attack", ATTACK), ("asks.py", ASKS.encode())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    shared_hf.engine.client.api.put_archive(str(shared.row.container_id), "/tmp", packed.getvalue())
    return shared


class Person:
    """A person in a tmux of their own."""

    def __init__(self, tmux: real.Tmux, cli: Any, folder: Path) -> None:
        self.tmux = tmux
        self._cli = cli
        self._answers = folder / "answers.json"
        self._cases = folder / "cases.json"
        self._cases.write_text(json.dumps([""]))

    def start(self, *arguments: str) -> tuple[str, str]:
        """Run `holdfast` in a shell, and then record what would have been typed into that shell."""
        self._answers.unlink(missing_ok=True)
        words = ["env", f"HOLDFAST_HOME={self._cli.environment['HOLDFAST_HOME']}"]
        line = shlex.join([*words, *self._cli.command("--as", "person:alice", *arguments)])
        tmux = 'tmux {} -p -t "$TMUX_PANE"'
        kept = f"{tmux.format('capture-pane')} > {shlex.quote(f'{self._answers}.screen')}"
        modes = f"{tmux.format('display-message')} '{MODES}' > {shlex.quote(f'{self._answers}.modes')}"
        probe = shlex.join([sys.executable, str(real.PROBE), str(self._cases), str(self._answers)])
        return self.tmux.start(["sh", "-c", f"{line}; {kept}; {modes}; {probe}"], (40, 120))

    def typed(self) -> bytes:
        """Return the terminal's input that no one typed."""
        return base64.b64decode(json.loads(self._answers.read_text())[0])

    def seen(self) -> str:
        """Return the screen at the end of `holdfast`."""
        return Path(f"{self._answers}.screen").read_text()

    def run(self, *arguments: str) -> str:
        """Run `holdfast` until it ends; return its pane."""
        pane, told = self.start(*arguments)
        self.tmux("wait-for", told)
        return pane

    def unharmed(self, pane: str) -> bool:
        """Check that nothing was typed into the shell, and nothing was copied, named or left switched on."""
        assert self.typed() == b""
        assert self.tmux("list-buffers") == ""
        assert MARK not in self.tmux.held(pane)
        assert Path(f"{self._answers}.modes").read_text().strip() == SANE
        return True

    def sees(self, pane: str, text: str) -> None:
        """Wait until the screen shows it."""
        until(lambda: text in self.tmux.screen(pane))


@pytest.fixture
def person(hostile: Session, shared_cli: Any, tmp_path: Path) -> Iterator[Person]:
    with real.tmux(tmp_path) as tmux:
        yield Person(tmux, shared_cli, tmp_path)


def until(true: Callable[[], object]) -> None:
    """Ask until it is so; the test's own time limit ends an endless wait."""
    while not true():
        pass


def test_exec_and_output_harm_no_terminal(person: Person, hostile: Session) -> None:
    """Of a command that runs now, and of a job that ran before."""
    pane = person.run("exec", "shared", "cat /tmp/attack; printf '\\033[?1049l\\nthe\\033[1m end\\033[0m\\n'")
    assert "the end" in person.seen()
    assert person.unharmed(pane)

    job = hostile.detach("cat /tmp/attack", name="attack")
    job.wait()
    assert person.unharmed(person.run("output", "shared", "attack"))
    assert person.unharmed(person.run("wait", "shared", "attack"))


def test_raw_passes_everything(person: Person, hostile: Session) -> None:
    """With `--raw` the attack succeeds, so the other tests would notice."""
    person.run("exec", "--raw", "shared", f"printf '\\033]52;c;{COPIED}\\007\\033[6n'")

    assert MARK in person.tmux("list-buffers")
    assert person.typed().endswith(b"R")


def test_replay_harms_no_terminal(person: Person, hostile: Session) -> None:
    """Also output shown long ago."""
    shown = hostile.exec("cat /tmp/attack")
    assert shown.ok
    assert "\x1b" in shown.output.decode("utf-8", "replace")
    pane = person.run("replay", "shared", "--speed", "10000", "--max-idle", "0")

    assert person.unharmed(pane)


def test_attach_harms_neither_shell(person: Person, hostile: Session) -> None:
    """Nothing is typed into the person's shell or the session's; programs that ask are answered."""
    pane, told = person.start("attach", "shared")
    person.sees(pane, "held by person:alice")
    person.tmux("send-keys", "-t", pane, "cat /tmp/attack; reset -I; echo cle''an-1", "Enter")
    person.sees(pane, "clean-1")
    # Anything typed into the shell would precede this.
    person.tmux("send-keys", "-t", pane, "echo cle''an-2", "Enter")
    person.sees(pane, "\nclean-2")
    assert person.tmux("list-buffers") == ""

    person.tmux(
        "send-keys", "-t", pane, 'python3 /tmp/asks.py; stty sane; cat -v /tmp/heard; echo "."', "Enter"
    )
    person.sees(pane, "^[[1;7R^[[?62;22c.")

    person.tmux(
        "send-keys",
        "-t",
        pane,
        "printf '\\033[?1003h\\033[?1h\\033[4h\\033[?25l\\033='; cat /tmp/attack",
        "Enter",
    )
    person.sees(pane, "attacked")
    person.tmux("send-keys", "-t", pane, "C-]")
    person.tmux("wait-for", told)
    assert person.unharmed(pane)


def test_the_status_line_stays_below_programs_and_is_nowhere_else(
    person: Person, shared_hf: Holdfast
) -> None:
    """Below full-screen programs, a scroll region, after a new size and a snapshot; others do not see it."""
    session = shared_hf.new("lined", network="none")
    session.shells.open("logs")
    pane, told = person.start("attach", "lined")

    def last() -> str:
        return person.tmux("capture-pane", "-p", "-t", pane).rstrip("\n").split("\n")[-1]

    def keys(*words: str) -> None:
        person.tmux("send-keys", "-t", pane, *words)

    def below(*seen: str) -> bool:
        for each in seen:
            person.sees(pane, each)
        until(lambda: last().startswith(" lined:main | "))
        return True

    until(lambda: "held by person:alice | person:alice (types) | shells: logs" in last())
    keys("stty size; seq 200", "Enter")
    assert below("199\n200\n")
    assert (session.shell().rows, session.shell().cols) == (39, 120)
    keys("seq 300 > /tmp/lines; less /tmp/lines", "Enter")
    assert below("\n38\n")
    keys("G")
    assert below("\n300\n")
    keys("C-b", "g", "q")
    keys("nano /tmp/lines", "Enter")
    assert below("GNU nano", "Exit")
    keys("C-v", "C-v", "C-x")
    keys("clear; printf '\\033[2;10r\\033[39;1Hbe''low\\n\\n\\n'; read x; printf '\\033[r'; clear", "Enter")
    assert below("below")
    keys("Enter")
    keys("read -rp 'Na''me: ' x", "Enter")
    until(lambda: "waits: Name:" in last())
    keys("x", "Enter")

    person.tmux("resize-window", "-t", pane, "-x", "100", "-y", "30")
    until(lambda: (session.shell().rows, session.shell().cols) == (29, 100))
    session.snapshot("under-it")
    keys("echo af''ter", "Enter")
    assert below("\nafter\n")
    for key, wanted in (("n", " lined:logs | "), ("p", " lined:main | ")):
        keys("C-^", key)
        until(lambda wanted=wanted: last().startswith(wanted))  # type: ignore[misc]
    keys("C-^", "s")
    until(lambda: session.shell().rows == 30)
    until(lambda: "lined:main" not in person.tmux.screen(pane))
    keys("C-^", "s")
    until(lambda: session.shell().rows == 29 and last().startswith(" lined:main | "))
    keys("C-]")
    person.tmux("wait-for", told)
    assert "lined:main |" not in person.seen()
    assert "lined:main |" not in "".join(event.data for event in session.terminal.recording().events())
    session.remove()
