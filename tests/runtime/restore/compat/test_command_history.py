"""The past runs, from a journal and from a foreign file; as a script."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.restore.compat import command_history
from holdfast.runtime.restore.compat.command_history import Recorded, shell_script
from holdfast.runtime.store.entry import Entry


def entries(*told: tuple[str, dict[str, Any]]) -> list[Entry]:
    """Entries of a journal, numbered; the host's entries have `host` in their details."""
    found = []
    for seq, (kind, details) in enumerate(told, start=1):
        host = bool(details.pop("host", False))
        found.append(Entry("s", "s", seq, float(seq), kind, "agent", host=host, details=details))
    return found


def started(ident: str, text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "command_started", {"id": ident, "shell": "main", "command": text, **more}


def ended(ident: str, code: int) -> tuple[str, dict[str, Any]]:
    return "command_ended", {"id": ident, "shell": "main", "exit_code": code}


def test_commands_cells_and_jobs_are_listed_in_order_with_their_results() -> None:
    """A command that had not ended has no result."""
    found = command_history.of_entries(
        entries(
            started("a", "make"),
            ended("a", 2),
            ("cell_started", {"id": "b", "kernel": "main", "code": "x = 1"}),
            ("cell_ended", {"id": "b", "kernel": "main", "status": "ok"}),
            ("job_started", {"id": "c", "name": "web", "command": "serve"}),
            started("d", "sleep 100"),
        )
    )
    assert [(one.kind, one.text, one.place, one.result) for one in found] == [
        ("command", "make", "main", 2),
        ("cell", "x = 1", "main", "ok"),
        ("job", "serve", "web", None),
        ("command", "sleep 100", "main", None),
    ]


def test_hidden_input_is_not_recorded() -> None:
    """Only its presence; and text typed at the prompt is a command, not input of one."""
    shown = {"shell": "main", "hidden": False, "text": "bob\n"}
    found = command_history.of_entries(
        entries(
            started("a", "login"),
            ("input", dict(shown)),
            ("input", {"shell": "main", "hidden": True, "text": "never told", "bytes": 7}),
            ended("a", 0),
            ("input", dict(shown)),
        )
    )
    assert [one.typed for one in found] == [("bob\n", None)]
    assert b"never told" not in command_history.dumps(found)


def test_only_commands_since_the_processes_began_count() -> None:
    """A session that was made of files alone has none of the variables made before."""
    found = command_history.of_entries(
        entries(
            started("a", "export OLD=1"),
            ended("a", 0),
            ("restored", {"host": True, "snapshot": "x", "only": "files"}),
            started("b", "export NEW=1"),
            ended("b", 0),
            ("restored", {"host": True, "snapshot": "y"}),
            started("c", "true"),
        )
    )
    assert [one.text for one in found] == ["export NEW=1", "true"]


def test_new_processes_are_known_without_the_hosts_note() -> None:
    """That does not travel with a snapshot."""
    found = command_history.of_entries(
        entries(
            started("a", "export OLD=1"),
            ("woken", {"event": "restored", "snapshot": "x", "begins": True}),
            started("b", "export NEW=1"),
            ("woken", {"event": "restored", "snapshot": "y"}),
        )
    )
    assert [one.text for one in found] == ["export NEW=1"]


def test_processes_that_were_started_again_begin_there() -> None:
    """Commands from before the supervisor was killed have left only files."""
    found = command_history.of_entries(
        entries(started("a", "export OLD=1"), ("restarted", {"begins": True}), started("b", "export NEW=1"))
    )
    assert [one.text for one in found] == ["export NEW=1"]


def test_the_history_is_bounded() -> None:
    """The last are kept, long texts are cut and say so, and a file is never too large to be read."""
    many = [started(str(number), f"echo {number}") for number in range(command_history.MOST + 50)]
    found = command_history.of_entries(entries(*many, started("long", "x" * (command_history.TEXT + 1))))
    assert len(found) == command_history.MOST
    assert found[-1].cut
    assert len(found[-1].text) == command_history.TEXT
    large = [Recorded("command", "y" * command_history.TEXT)] * 200
    assert 0 < len(command_history.parse(command_history.dumps(large))) < 200


def test_written_values_are_read_back() -> None:
    """All fields travel."""
    found = [
        Recorded("command", "read n", "main", 5.0, "agent:x", 0, ("bob\n", None)),
        Recorded("cell", "x\ny", "main", 6.0, "agent", "ok", (), True),
        Recorded("job", "serve", "web", 7.0),
    ]
    assert command_history.parse(command_history.dumps(found)) == found


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"commands": 5}',
        b'{"commands": [5, {"kind": "command"}, {"kind": "rm", "text": "x"}]}',
        b"[" * 100_000,
        b'{"commands": []}' + b" " * command_history.MAX_FILE,
    ],
)
def test_invalid_records_are_left_out(data: bytes) -> None:
    """It came from elsewhere."""
    assert command_history.parse(data) == []


def test_control_characters_of_others_are_left_out() -> None:
    """A terminal would obey them."""
    row = {"kind": "command", "text": "echo \x1b]0;x\x07", "actor": "\x1bme", "at": "no", "typed": ["\x1b"]}
    one = command_history.parse(json.dumps({"commands": [row]}).encode())[0]
    assert "\x1b" not in repr(one.text + one.actor + str(one.typed))
    assert one.at == 0.0


def test_a_script_runs_commands_of_the_shell_and_shows_the_rest(tmp_path: Path) -> None:
    """Variables stay in the shell that reads it; cells, jobs and cut entries are comments."""
    text = shell_script(
        [
            Recorded("command", "export A=1\nB='two\nlines'", "main", 1.0, "agent", 0),
            Recorded("cell", "import os\nos.abort()", "main", 2.0, "agent", "ok"),
            Recorded("job", "exit 9", "web", 3.0, "agent", None, ("x\nexit 8\n",)),
            Recorded("command", "exit 7", "main", 4.0, "agent\nexit 6", 0, (), True),
            Recorded("command", "exit 5", "other", 4.0, "agent", 0),
        ],
        "before\nexit 4",
    )
    (tmp_path / "script").write_text(text)
    ran = subprocess.run(
        ["bash", "-c", '. ./script; echo "$A $B"'], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "1 two\nlines\n"
