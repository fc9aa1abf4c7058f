"""Journals and keys of real sessions: through forks, deaths of sessions, and kill -9 of controllers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, OutcomeUnknown, SessionDead, SessionNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

# Each ends the controller at one step of a call under a key.
STEPS = {
    "before the intent": "keyed.Intents.add = lambda *_: die()",
    "after the intent": "GuestClient.open = lambda *_, **__: die()",
    "after it was sent": (
        "open_ = GuestClient.open\n"
        "def sent(self, *args, **kwargs):\n"
        "    connection = open_(self, *args, **kwargs)\n"
        "    die()\n"
        "GuestClient.open = sent"
    ),
    "while it runs": "Following._hear = lambda *_: die()",
    "with the result": "Following._finish = lambda *_: die()",
}
CONTROLLER = """
import os, signal, sys
from holdfast import Holdfast
from holdfast.runtime.guest_rpc import idempotency as keyed
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.shell_calls import Following
def die():
    os.kill(os.getpid(), signal.SIGKILL)
{patch}
Holdfast(sys.argv[1]).session(sys.argv[2]).exec(sys.argv[3], key=sys.argv[4])
"""


def commands(session: Session, **wanted: Any) -> list[str]:
    found = session.journal(kinds=["command_started"], **wanted)
    return [str(entry.details["command"]) for entry in found]


@pytest.mark.parametrize("step", STEPS)
def test_a_key_runs_once_wherever_its_controller_dies(shared: Session, shared_home: Home, step: str) -> None:
    """The next call joins the command that began, or begins it; and gets its output."""
    name = step.replace(" ", "-")
    command = f"echo ran >> /tmp/{name}; cat /tmp/{name}"
    words = [sys.executable, "-c", CONTROLLER.format(patch=STEPS[step])]
    words += [str(shared_home.root), shared.name, command, name]
    died = subprocess.run(words, check=False, capture_output=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr

    results = [shared.exec(command, key=name) for _ in range(2)]

    assert [result.text for result in results] == ["ran\n", "ran\n"]
    assert shared.exec(f"cat /tmp/{name}").text == "ran\n"


def test_a_key_stands_for_one_command(shared: Session) -> None:
    """Another command under it is refused; so is a cell."""
    shared.exec("true", key="one")

    with pytest.raises(InvalidArgument, match="another"):
        shared.exec("false", key="one")
    with pytest.raises(InvalidArgument, match="another"):
        shared.cell("true", key="one")


def test_the_command_line_names_the_authors(shared: Session, shared_cli: Any, tmp_path: Path) -> None:
    """For people, for programs, filtered, and as a notebook."""
    shared_cli("--as", "agent:coder", "--reason", "to see", "exec", shared.name, "echo by coder")
    token = SECRETS["npm token"][0]
    shared_cli("cell", shared.name, f"print('{token}')")
    shared_cli("cell", shared.name, "print('in a cell'); 6 * 7", "--key", "cell", "--reason", "why not")
    shared_cli("--as", "person:alice", "send", shared.name, "-e", "echo by alice; false")
    shared.exec("true")

    found = shared_cli(
        "journal", shared.name, "--json", "--grep", "echo by", "--kind", "command_started"
    ).json
    lines = shared_cli("journal", shared.name).out.splitlines()
    book = shared_cli("journal", shared.name, "--ipynb", str(tmp_path / "cells.ipynb"))

    assert [(each["actor"], each.get("reason")) for each in found] == [
        ("agent:coder", "to see"),
        ("person:alice", None),
    ]
    assert found[1]["typed"] is True
    assert any("agent:coder" in line and "$ echo by coder  (to see)" in line for line in lines)
    assert book.code == 0
    notebook = json.loads((tmp_path / "cells.ipynb").read_text())
    nbformat.validate(notebook)
    assert "".join(notebook["cells"][-2]["source"]) == "print('[scrubbed: npm token]')"
    assert token not in (tmp_path / "cells.ipynb").read_text()
    assert "".join(notebook["cells"][-1]["source"]) == "print('in a cell'); 6 * 7"


def test_the_journal_and_its_keys_outlive_the_container(hf: Holdfast) -> None:
    """Finished commands have their result, running ones are unknown, and nothing runs a second time."""
    session = hf.new("short")
    session.exec("echo done; (exit 3)", key="done")
    with pytest.raises(OutcomeUnknown):
        session.exec("echo begun; sleep 1000", key="open", on_bytes=_remove(hf, session))
    with pytest.raises(OutcomeUnknown):
        session.exec("echo begun; sleep 1000", key="open")

    again = session.exec("echo done; (exit 3)", key="done")
    with pytest.raises(SessionDead):
        session.exec("echo new", key="new")

    assert (again.exit_code, again.recorded, again.output, again.lost > 0) == (3, True, b"", True)
    assert commands(session)[0] == "echo done; (exit 3)"
    assert session.journal()[-1].kind == "died"
    hf.remove_session(session.id)
    with pytest.raises(SessionNotFound):
        hf.session("short")
    assert session.journal()[-1].kind == "removed"
    assert commands(session)[0] == "echo done; (exit 3)"


def _remove(hf: Holdfast, session: Session) -> Callable[[bytes], None]:
    def remove(_output: bytes) -> None:
        hf.engine.kill_remove(session.row.container_id or "")

    return remove


@pytest.mark.thorough
def test_forks_have_the_past_of_their_snapshot(hf: Holdfast) -> None:
    """Entries, keys and commands. Later ones elsewhere are another timeline; their keys are free."""
    session = hf.new("trunk")
    session.exec("echo one", key="before")
    waits = "read -t 1000 go || true; echo went $go"
    assert session.exec(waits, key="open").waiting
    snapshot = session.snapshot("here")
    session.terminal.send("on\n")
    assert session.exec(waits, key="open", wait=True).text.endswith("went on\n")
    session.exec("echo later", key="after")

    fork = snapshot.restore("branch")
    fork.terminal.send("elsewhere\n")
    joined = fork.exec(waits, key="open", wait=True)
    fork.exec("echo > /tmp/once; echo later", key="after")
    fork.exec("echo one", key="before")

    assert joined.text.endswith("went elsewhere\n")
    assert commands(session) == ["echo one", waits, "echo later"]
    assert commands(fork) == ["echo one", waits, "echo > /tmp/once; echo later"]
    marked = {
        str(entry.details["command"]): entry.current
        for entry in fork.journal(kinds=["command_started"], all_timelines=True)
    }
    assert marked == {
        "echo one": True,
        waits: True,
        "echo later": False,
        "echo > /tmp/once; echo later": True,
    }
    kinds = [entry.kind for entry in fork.journal() if entry.host]
    assert kinds == ["created", "snapshot", "verified", "restored"]
    numbers = [entry.seq for entry in fork.journal() if not entry.host]
    assert numbers == list(range(1, len(numbers) + 1))

    fork.suspend()
    assert fork.journal()[-1].kind == "suspended"
    fork.resume()
    fork.exec("echo resumed")
    assert commands(fork)[-1] == "echo resumed"


def test_commands_running_at_a_files_only_capture_are_unknown(hf: Holdfast) -> None:
    """Their keys are not free: they had begun. Those that had ended are listed, without their output."""
    session = hf.new("files")
    session.exec("echo done", key="done")
    session.exec("read -t 1000 go", key="open")
    copy = session.snapshot("kept", kind="filesystem").restore("copy")

    done = copy.exec("echo done", key="done")
    with pytest.raises(OutcomeUnknown):
        copy.exec("read -t 1000 go", key="open")

    assert (done.exit_code, done.recorded, done.output) == (0, True, b"")
    assert commands(copy) == ["echo done", "read -t 1000 go"]
    numbers = [entry.seq for entry in copy.journal() if not entry.host]
    assert numbers == list(range(1, len(numbers) + 1))
