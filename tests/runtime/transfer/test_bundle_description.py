"""Our own texts in a bundle do not contain secrets, whatever field they are in."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.base.home import Home
from holdfast.runtime.egress import vault
from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store.entry import Entry
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.transfer import bundle_description, journal_export
from holdfast.runtime.transfer.inspection import Inspection
from holdfast.snapshots.bundle import form
from holdfast.snapshots.bundle.image_layers import ImageFacts
from holdfast.snapshots.failure import Failure
from holdfast.snapshots.manifest import Manifest, StoredFile
from holdfast.snapshots.record import RecordedProcess, RecordedTree, StateRecord

TOKEN = SECRETS["github token"][0]
IMAGE = ImageFacts("amd64", "linux", {"Env": ["PATH=/bin", f"TOKEN={TOKEN}", "A=1"]}, (f"sha256:{'0' * 64}",))
SESSION = "0123456789ab"


def _manifest(label: str | None, session: str) -> Manifest:
    return Manifest(
        id="0" * 12,
        kind="live",
        label=label,
        created_at=datetime.now(UTC),
        session="1" * 12,
        session_name=session,
        generation=0,
        parent=None,
        image="sha256:1",
        options={"env": {"A": "2"}, "workdir": f"/srv/{TOKEN}", "memory": 1 << 30},
        processes=None,
        files=[StoredFile(name="record.json.gz", bytes=1, blake3="0" * 64)],
        failure=Failure(reason="failed", command=f"deploy {TOKEN}"),
    )


@pytest.mark.parametrize("named", [TOKEN, "plain"])
def test_no_field_of_a_config_has_a_secret(named: str) -> None:
    """Options, labels, names, failures; numbers and everything else are unchanged."""
    kept = _manifest(named, named)
    stored = [StoredFile(name="record.json.gz", bytes=2, blake3="1" * 64)]
    details = SnapshotDetails({"failure": {"message": f"with {TOKEN}"}, "memory_bytes": 5, "other": 1})

    data = bundle_description.bundle_config(kept, IMAGE, [], [], details, Scrubber(Matcher(RULES)), stored)

    assert TOKEN.encode() not in data
    found = form.parse(form.BundleConfig, data, "config")
    assert found.snapshot.files == stored
    assert found.snapshot.options == {"workdir": "/srv/[scrubbed: github token]", "memory": 1 << 30}
    assert found.details == {"failure": {"message": "with [scrubbed: github token]"}, "memory_bytes": 5}
    assert found.snapshot.label == (None if named == TOKEN else "plain")
    assert found.snapshot.session_name == ("1" * 12 if named == TOKEN else "plain")


def test_variables_of_an_image_are_scrubbed() -> None:
    """Those of the session are not sent at all."""
    config = json.loads(
        bundle_description.image_config(_manifest(None, "x"), IMAGE, Scrubber(Matcher(RULES)))
    )

    assert config["config"]["Env"] == ["PATH=/bin", "TOKEN=[scrubbed: github token]"]


def test_values_of_secrets_that_the_gateway_has_do_not_leave(tmp_path: Path) -> None:
    """A session has none of them, unless a server sent one in a form that the gateway did not recognize."""
    home = Home(tmp_path / "home").create()
    first, second = (vault.parse(f"DEPLOY@a.example={word}-by-hand-4711") for word in ("one", "two"))
    vault.keep(home, [first, second])

    scrubber = Inspection(home, _manifest(None, "s"), None, {}).scrubber

    for each in (first, second):
        name = f"value of DEPLOY {each.placeholder}"[:60]
        encoded = base64.b64encode(each.value.encode()).decode()
        assert scrubber.text(f"it said {each.value} and {encoded}") == (
            f"it said [scrubbed: {name}] and [scrubbed: {name}]"
        )


def test_only_a_continuation_elsewhere_is_in_the_way() -> None:
    """Not an unrelated session, nor an earlier state of this one, nor a record without a chain."""
    mine = Tenures.begun(1.0, "box")
    there = bundle_description.identity_annotations(SESSION, mine.plus("f" * 12, "other"))
    assert not bundle_description.identity_passes(there, SESSION, mine)
    assert bundle_description.identity_passes(there, "ba9876543210", mine)
    assert bundle_description.identity_passes(
        bundle_description.identity_annotations(SESSION, mine), SESSION, mine.plus("e" * 12, "x")
    )
    assert bundle_description.identity_passes({}, SESSION, mine)
    assert bundle_description.identity_annotations(SESSION, Tenures()) == {}


def test_readers_of_a_registry_learn_no_id() -> None:
    """An index is not encrypted."""
    mine = Tenures.begun(1.0, "secret-host")
    text = json.dumps(bundle_description.identity_annotations(SESSION, mine))
    assert SESSION not in text
    assert mine.chain[0].id not in text
    assert "secret-host" not in text


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "null", "3", '{"session": 1}', "[" * 5000, '{"session":"x","tenures":3}']
)
def test_foreign_annotations_do_no_harm(text: str) -> None:
    assert bundle_description.identity_passes(
        {bundle_description.IDENTITY: text}, SESSION, Tenures.begun(1.0, "")
    )


def _manifest_secrets_warning(kind: Literal["live", "filesystem"] = "live") -> Manifest:
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
    found = bundle_description.secrets_warnings(
        _manifest_secrets_warning(),
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
    found = bundle_description.secrets_warnings(
        _manifest_secrets_warning(), _record((6, "bash", ["API_TOKEN"])), [], {*shells, "API_TOKEN"}
    )

    assert shells == {"DEPLOY_KEY", "EDITOR"}
    assert any("DEPLOY_KEY (a shell), API_TOKEN (pid 6)" in text for text in found)
    assert (
        bundle_description.secrets_warnings(_manifest_secrets_warning("filesystem"), None, [], shells) == []
    )


def test_a_live_snapshot_holds_memory_and_one_of_files_does_not() -> None:
    """It is the first thing to know about it."""
    assert any(
        "memory" in text
        for text in bundle_description.secrets_warnings(_manifest_secrets_warning(), None, [])
    )
    assert bundle_description.secrets_warnings(_manifest_secrets_warning("filesystem"), None, []) == []


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

    [text] = bundle_description.secrets_warnings(
        _manifest_secrets_warning("filesystem"), None, [above, below]
    )

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

    assert bundle_description.secrets_warnings(_manifest_secrets_warning("filesystem"), None, [layer]) == []


def test_only_some_of_many_are_named() -> None:
    """The rest is counted."""
    [_, text] = bundle_description.secrets_warnings(
        _manifest_secrets_warning(), _record(*((n, "gpg-agent", []) for n in range(2, 30))), []
    )

    assert text.endswith("and 22 more")
