from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest

from holdfast.runtime.store.entry import Entry
from holdfast.runtime.transfer import journal_export, secrets_warning
from holdfast.snapshots.manifest import Manifest
from holdfast.snapshots.record import RecordedProcess, RecordedTree, StateRecord


def _manifest(kind: Literal["live", "filesystem"] = "live") -> Manifest:
    return Manifest(
        id="0" * 12,
        kind=kind,
        label=None,
        created_at=datetime.now(UTC),
        session="1" * 12,
        session_name="work",
        generation=0,
        parent=None,
        image="sha256:1",
        options={"env": {"VALUE": "hunter2"}},
        processes=None,
        files=[],
    )


def _record(*processes: tuple[int, str, list[str]]) -> StateRecord:
    tree = RecordedTree(
        processes=[
            RecordedProcess(pid=pid, ppid=1, pgid=1, sid=1, state="alive", name=name, secrets=names)
            for pid, name, names in processes
        ]
    )
    return StateRecord(tree=tree)


def _entry(kind: str, **details: object) -> Entry:
    return Entry("1" * 12, "work", 1, 1.0, kind, details=details)


def test_programs_and_variables_are_reported_by_name_and_pid() -> None:
    """Those that keep keys, and those started with text that looks like one."""
    found = secrets_warning.warnings(
        _manifest(),
        _record((5, "ssh-agent", []), (6, "bash", ["API_TOKEN", "KEYBOARD"]), (7, "node", ["API_TOKEN"])),
        [],
    )

    assert any("ssh-agent (pid 5)" in text for text in found)
    assert any("API_TOKEN (pid 6 and 1 more)" in text for text in found)
    assert not any("KEYBOARD" in text or "hunter2" in text for text in found)


def test_exported_variables_are_reported(tmp_path: Path) -> None:
    """Its programs were not started with it; where a program was, that is reported instead."""
    entries = [
        _entry("changed", variables={"DEPLOY_KEY": [None, ["x", 3, "ab", "***"]], "EDITOR": []}),
        _entry("changed", names={"TOKEN": []}),
        _entry("command_started", variables={"API_TOKEN": 1}),
        _entry("changed", variables=["odd"]),
    ]
    shells = journal_export.variables(entries)
    found = secrets_warning.warnings(
        _manifest(), _record((6, "bash", ["API_TOKEN"])), [], {*shells, "API_TOKEN"}
    )

    assert shells == {"DEPLOY_KEY", "EDITOR"}
    assert any("DEPLOY_KEY (a shell), API_TOKEN (pid 6)" in text for text in found)
    assert secrets_warning.warnings(_manifest("filesystem"), None, [], shells) == []


def test_a_live_snapshot_holds_memory_and_one_of_files_does_not() -> None:
    """It is the first thing to know about it."""
    assert any("memory" in text for text in secrets_warning.warnings(_manifest(), None, []))
    assert secrets_warning.warnings(_manifest("filesystem"), None, []) == []


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("root/.ssh/id_ed25519", "/root/.ssh/id_ed25519"),
        ("home/alice/.aws/credentials", "/home/alice/.aws/credentials"),
        ("workspace/.env", "/workspace/.env"),
    ],
)
def test_files_with_credentials_are_found_in_any_layer(tmp_path: Path, place: str, told: str) -> None:
    """Also one that a layer above hides: it is in the bundle."""
    above, below = tmp_path / "above", tmp_path / "below"
    above.mkdir()
    (below / place).parent.mkdir(parents=True)
    (below / place).write_text("secret")

    [text] = secrets_warning.warnings(_manifest("filesystem"), None, [above, below])

    assert told in text


def test_no_link_of_a_session_leads_to_files_of_the_host(tmp_path: Path) -> None:
    """And an empty file is not a secret."""
    layer, host = tmp_path / "layer", tmp_path / "host"
    (layer / "root").mkdir(parents=True)
    (host / ".ssh").mkdir(parents=True)
    (host / ".ssh/id_rsa").write_text("secret")
    (layer / "workspace").symlink_to(host)
    (layer / "root/.ssh").symlink_to(host / ".ssh")
    (layer / "root/.netrc").write_text("")
    (layer / "root/.env").symlink_to(host / ".ssh/id_rsa")

    assert secrets_warning.warnings(_manifest("filesystem"), None, [layer]) == []


def test_only_some_of_many_are_named() -> None:
    """The rest is counted."""
    [_, text] = secrets_warning.warnings(
        _manifest(), _record(*((n, "gpg-agent", []) for n in range(2, 30))), []
    )

    assert text.endswith("and 22 more")
