"""People at a session's shell, and the recordings of it, with real terminals and captures."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from holdfast.errors import InvalidArgument, SessionBusy, SessionDead
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.attachment.screen_state import shown
from holdfast.runtime.terminal.emulator import Emulator

PATIENCE = 90


def attach(cli: Any, name: str, *options: str, actor: str = "person:alice", size: Any = (30, 100)) -> Any:
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "holdfast", "--as", actor, "attach", "--no-status", name, *options],
        env=cli.environment,
        dimensions=size,
        timeout=PATIENCE,
    )
    # The line with the shell's status; the terminal is raw from here on.
    terminal.expect("You are watching|The shell is held")
    return terminal


def leave(terminal: Any) -> None:
    terminal.send("\x1d")
    terminal.expect("detached from session")
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus == 0


def until(true: Callable[[], object]) -> None:
    """Ask until it is so; the test's own time limit ends an endless wait."""
    while not true():
        pass


def at_prompt(session: Session) -> None:
    """Wait until its shell has finished everything and reads."""
    until(lambda: session.shell().state == "prompt")


def screen_of(cast: Path) -> Emulator:
    """Return the final screen of a player of the format."""
    header, *events = [json.loads(line) for line in cast.read_text().splitlines()]
    terminal = Emulator(header["height"], header["width"])
    for at, code, data in events:
        assert at >= 0
        if code == "o":
            terminal.feed_bytes(data.encode())
        elif code == "r":
            cols, _, rows = data.partition("x")
            terminal.resize(int(rows), int(cols))
    return terminal


def test_people_and_agents_share_a_shell(hf: Holdfast, cli: Any, tmp_path: Path) -> None:
    """An attached person holds it, across a snapshot, until they are lost; a fork is free; all is
    recorded.
    """
    session = hf.new("ours")
    session.exec("PS1='at-$USER> '")
    alice = attach(cli, "ours")
    bob = attach(cli, "ours", actor="person:bob", size=(10, 40))
    with pytest.raises(SessionBusy, match="held by person:alice since"):
        session.exec("true")
    bob.send("echo never")
    bob.expect_exact("not passed on")
    bob.send("\x1ew")
    bob.expect_exact("held by person:alice; person:alice")  # as much as fits there
    bob.send("\x1et")
    until(lambda: session.terminal.lease().holder == "person:bob")
    bob.send("\x1eg")
    until(lambda: session.terminal.lease().holder is None)
    assert session.exec("echo $((6 * 7))").text == "42\n"
    alice.send("\x1et")
    until(lambda: session.terminal.lease().holder == "person:alice")
    alice.send("nano -I /tmp/note\r")
    until(lambda: "New File" in session.terminal.screen().text)

    taken = session.snapshot("inside")
    alice.send("kept\x18y\r")
    at_prompt(session)
    alice.send("cat /tmp/note; stty size\r")
    until(lambda: "kept\n30 100" in session.terminal.screen().text)
    assert session.terminal.lease().holder == "person:alice"

    fork = taken.restore("copy")
    assert fork.terminal.lease().holder is None
    assert "GNU nano" in fork.terminal.screen().text
    # No one is attached there, so the terminal has its own size again: nano has painted all 40 rows.
    deadline = time.monotonic() + PATIENCE
    while (painted := fork.terminal.screen().text).count("\n") != 39:
        assert time.monotonic() < deadline, painted
    fork.terminal.send("forked\x18y\r")
    at_prompt(fork)
    assert "forked" in fork.exec("cat /tmp/note").text

    at_prompt(session)
    alice.kill(signal.SIGKILL)
    assert session.exec("cat /tmp/note; stty size", lease_wait=PATIENCE).text == "kept\n40 120\n"
    leave(bob)

    for name in ("ours", "copy"):
        at_prompt(hf.session(name))
        assert cli("replay", name, "--from", "inside", "--cast", str(tmp_path / name)).code == 0
        played = screen_of(tmp_path / name)
        assert shown(played) == hf.session(name).terminal.screen()
    first = json.loads((tmp_path / "ours").read_text().splitlines()[1])
    assert "GNU nano" in first[2]
    with pytest.raises(InvalidArgument, match="not in the history"):
        hf.session("copy").terminal.recording(session.snapshot("later").name)

    hf.engine.client.api.kill(str(fork.row.container_id))
    with pytest.raises(SessionDead):
        fork.exec("true")
    kept = "".join(event.data for event in fork.terminal.recording().events())
    assert "forked" in kept
    assert "133;" not in kept
    hf.engine.kill_remove(str(fork.row.container_id))
    assert "a session restored from one of its snapshots" in cli("replay", "copy").err


@pytest.mark.thorough
def test_input_during_a_snapshot_arrives_once(hf: Holdfast, cli: Any) -> None:
    """A person types without a pause while snapshots cut the connection: no key is lost or doubled."""
    session = hf.new("busy")
    terminal = attach(cli, "busy")
    terminal.send("echo re''ady; cat > /tmp/typed\r")
    until(lambda: "\nready" in session.terminal.screen().text)
    lines = [f"line {n} of what a person types" for n in range(60)]
    for n, line in enumerate(lines):
        terminal.send(line + "\r")
        if n in (20, 40):
            session.snapshot()
    terminal.send("\x04")
    leave(terminal)
    at_prompt(session)
    assert session.exec("cat /tmp/typed", lease_wait=PATIENCE).text.splitlines() == lines


def test_replay_without_a_terminal_writes_all_of_it(hf: Holdfast, cli: Any) -> None:
    """The output comes in one piece, without queries that a terminal would answer; a cast is described as
    JSON."""
    session = hf.new("seen")
    session.exec(r"printf 'visi''ble\e[6n\n'")
    at_prompt(session)
    out = cli("replay", "seen").out
    assert "visible" in out
    assert "\x1b[6n" not in out
    told = cli("--json", "replay", "seen", "--cast", os.devnull).json
    assert told["events"] > 0
    assert told["end_offset"] == session.shell().offset
    offset = session.exec("echo later").start_offset
    part = cli("replay", "seen", "--from", str(offset), "--cast", "-").out
    assert re.search(r'"o", ".*later', part)
    player = pexpect.spawn(
        sys.executable,
        ["-m", "holdfast", "replay", "seen", "--speed", "0.01"],
        env=cli.environment,
        timeout=PATIENCE,
    )
    player.expect("space pauses")
    player.send("q")
    player.expect(pexpect.EOF)
    player.wait()
    assert player.exitstatus == 0
