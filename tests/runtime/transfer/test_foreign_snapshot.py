from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import BundleRefused, BundleUntrusted, InvalidArgument
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.transfer import foreign_snapshot, transfer_options
from holdfast.snapshots import record
from holdfast.snapshots.manifest import Manifest, Processes
from holdfast.snapshots.record import RecordedProcess, RecordedTree, StateRecord

KEY = "ed25519:" + "A" * 43


def _parsed(given: dict[str, Any], **chosen: Any) -> SessionOptions:
    return SessionOptions.parse(**foreign_snapshot.taken_options(given, chosen))


def test_a_bundle_gets_no_more_than_a_default_session() -> None:
    """Neither memory, processes and processors, nor folders of this host, variables, or another image."""
    default = SessionOptions()
    given = {
        "memory": 1 << 50,
        "pids": 4_000_000,
        "cpus": 512.0,
        "mounts": [{"source": "/", "target": "/host"}],
        "env": {"LD_PRELOAD": "/evil.so"},
        "image": "evil:latest",
        "privileged": True,
    }

    assert _parsed(given) == default


def test_limits_of_a_session_are_kept() -> None:
    """And the facts its supervisor needs."""
    needed = {"user": "alice", "workdir": "/srv", "shell": "zsh", "read_only": True, "writable": ["/data"]}
    found = _parsed({"memory": 512 << 20, "pids": 100, "network": "none", **needed})

    assert (found.memory, found.pids, found.network) == (512 << 20, 100, "none")
    assert (found.user, found.workdir, found.shell) == ("alice", "/srv", "zsh")
    assert (found.read_only, found.writable) == (True, ("/data",))


def test_an_import_does_not_open_the_network() -> None:
    """Neither to the host nor to any place: only the importer can do that."""
    found = _parsed({"network": "open", "allow": ["10.0.0.1:80"]})

    assert (found.network, found.allow) == ("internet", ())


def test_the_importer_has_the_last_word() -> None:
    """Also for more."""
    found = _parsed({"memory": 512 << 20, "network": "none"}, memory="8g", cpus=2.0, network="internet")

    assert (found.memory, found.cpus, found.network) == (8 << 30, 2.0, "internet")
    with pytest.raises(InvalidArgument):
        foreign_snapshot.taken_options({}, {"memory": "much"})


@pytest.mark.parametrize(
    "given",
    [
        {"user": "root; reboot"},
        {"user": 5},
        {"workdir": "srv"},
        {"read_only": True, "writable": ["/proc/sys"]},
        {"read_only": "perhaps"},
        {"workdir": ["/"]},
        {"shell": "zsh;reboot"},
        {"memory": 5},
        {"pids": -1},
    ],
)
def test_impossible_options_are_refused(given: dict[str, Any]) -> None:
    """They are forged: no session has them."""
    with pytest.raises(BundleRefused):
        foreign_snapshot.taken_options(given, {})


@pytest.mark.parametrize("given", [{"memory": True}, {"memory": "lots"}, {"network": "host"}, {"pids": None}])
def test_unknown_options_are_ignored(given: dict[str, Any]) -> None:
    """The defaults are used."""
    assert _parsed(given) == SessionOptions()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"tmpfs": ["/"]}',
        b'{"tmpfs": ["/dev/shm", "/x"]}',
        b'{"tmpfs": "/dev/shm"}',
        b"[" * 9999,
    ],
)
def test_only_shared_memory_is_unpacked(data: bytes) -> None:
    """Anything else would be written to a path of the bundle's choice."""
    with pytest.raises(BundleRefused):
        foreign_snapshot.check_facts(data)
    foreign_snapshot.check_facts(b'{"tmpfs": [], "last_pid": 7}')
    foreign_snapshot.check_facts(b'{"tmpfs": ["/dev/shm"]}')


PROCESSES = Processes(
    root_pid=2,
    last_pid=40,
    token="0123456789abcdef",
    addresses=["172.17.0.2", "fe80::1"],
    memory_bytes=4096,
    criu="4.0",
    kernel="6.18.0",
    machine="x86_64",
)
SOUND = Manifest(
    id="0123456789ab",
    kind="live",
    label="before",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    session="ba9876543210",
    session_name="work",
    generation=0,
    parent=None,
    image="",
    options={},
    processes=PROCESSES,
    files=[],
)


def test_a_sound_manifest_is_accepted() -> None:
    """With processes and, of files alone, without."""
    foreign_snapshot.check_manifest(SOUND)
    foreign_snapshot.check_manifest(
        SOUND.model_copy(update={"kind": "filesystem", "processes": None, "label": None})
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"kind": "filesystem"}, "contradict its kind"),
        ({"processes": None}, "contradict its kind"),
        ({"id": "../../escape"}, "an invalid id"),
        ({"id": "0123456789abc"}, "an invalid id"),
        ({"session": "0123456789AB"}, "an invalid id"),
        ({"session_name": "../work"}, "an impossible name"),
        ({"label": "a/b"}, "an impossible name"),
        ({"generation": -1}, "an impossible generation"),
        ({"generation": 1 << 20}, "an impossible generation"),
    ],
)
def test_a_manifest_that_no_session_has_is_refused(changed: dict[str, Any], why: str) -> None:
    """Each field that becomes a path, a name or a number on this host is judged separately."""
    with pytest.raises(BundleRefused, match=why):
        foreign_snapshot.check_manifest(SOUND.model_copy(update=changed))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"root_pid": 1}, "impossible process ids"),
        ({"root_pid": 1 << 22}, "impossible process ids"),
        ({"last_pid": 0}, "impossible process ids"),
        ({"last_pid": 1 << 22}, "impossible process ids"),
        ({"token": "0123456789abcde"}, "an impossible token"),
        ({"token": "/etc/passwd/etc/passwd"}, "an impossible token"),
        ({"addresses": ["10.0.0.1"] * 17}, "impossible addresses"),
        ({"memory_bytes": -1}, "an impossible size"),
        ({"addresses": ["10.0.0.1; reboot"]}, "invalid addresses"),
    ],
)
def test_processes_that_no_session_has_are_refused(changed: dict[str, Any], why: str) -> None:
    """Pids, the token and addresses go into the restore of the tree."""
    processes = PROCESSES.model_copy(update=changed)

    with pytest.raises(BundleRefused, match=why):
        foreign_snapshot.check_manifest(SOUND.model_copy(update={"processes": processes}))


def test_only_understood_details_are_kept() -> None:
    """The numbers of the journal; a failure record as far as it is valid."""
    found = foreign_snapshot.taken_details(
        {
            "moment": {"journal_seq": 5, "at": 7.5, "offsets": {"../x": 1}},
            "failure": {"reason": "failed", "message": "\x1b[2Jboo", "evil": 1},
            "auto": {"x": 1},
            "origin": "forged",
        }
    )

    assert set(found) == {"moment", "failure"}
    assert found["moment"] == {"journal_seq": 5, "at": 7.5, "offsets": {}}
    assert "\x1b" not in str(found["failure"])
    wrong: list[Any] = [
        {"journal_seq": -1, "at": 1},
        {"journal_seq": "5", "at": 1},
        {"at": 1},
        [],
        {"journal_seq": True, "at": 1},
    ]
    for moment in wrong:
        assert foreign_snapshot.taken_details({"moment": moment}) == {}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([2], [2]),
        ([3, 2, 3], [2, 3]),
        ([0, 1, 4, 99], []),
        ([-1, True, "2", 2.0, None, [2]], []),
        ([2] * 5, []),
        ({"2": 2}, []),
        ("2", []),
        (None, []),
    ],
    ids=["one", "sorted", "outside", "wrong", "many", "object", "text", "none"],
)
def test_positions_of_layers_are_only_those_of_snapshots(given: Any, kept: list[int]) -> None:
    """A stranger can name others; the label that they get into says nothing about these."""
    assert foreign_snapshot.taken_positions(given, 2, 4) == kept


def test_trust_is_in_a_key_or_not_needed() -> None:
    """A hint says what to do in each case."""
    transfer_options.refuse_untrusted("x", KEY, "friend", files_only=False)
    transfer_options.refuse_untrusted("x", None, None, files_only=True)
    transfer_options.refuse_untrusted("x", KEY, None, files_only=True)
    with pytest.raises(BundleUntrusted, match="it is not signed") as told:
        transfer_options.refuse_untrusted("x", None, None, files_only=False)
    assert "export it again" in told.value.hint
    with pytest.raises(BundleUntrusted, match=KEY) as told:
        transfer_options.refuse_untrusted("x", KEY, None, files_only=False)
    assert f"holdfast key trust {KEY}" in told.value.hint


def tree(**changed: Any) -> RecordedTree:
    one = {"pid": 301, "ppid": 0, "pgid": 301, "sid": 301, "state": "alive", "name": "sh", **changed}
    return RecordedTree(processes=[RecordedProcess(**one, threads=[])])


def check(folder: Path, images: RecordedTree, root: int = 301) -> None:
    kept: Any = SimpleNamespace(processes=SimpleNamespace(root_pid=root))
    foreign_snapshot._check_record(folder, images, kept)


def test_a_record_is_of_the_same_processes_as_the_images(tmp_path: Path) -> None:
    """People read in it what they let run."""
    with pytest.raises(BundleRefused, match="the record"):
        check(tmp_path, tree())
    record.write(tmp_path, StateRecord(tree=tree()))
    check(tmp_path, tree())
    for changed in ({"name": "init"}, {"ppid": 7}, {"state": "zombie"}):
        with pytest.raises(BundleRefused, match="different processes than its images"):
            check(tmp_path, tree(**changed))
    with pytest.raises(BundleRefused, match="different processes than its images"):
        check(tmp_path, RecordedTree(processes=[*tree().processes, *tree(pid=302).processes]))
    with pytest.raises(BundleRefused, match="root that is not among its processes"):
        check(tmp_path, tree(), root=302)
    (tmp_path / record.FILE).write_bytes(b"damaged")
    with pytest.raises(BundleRefused, match="record cannot be read"):
        check(tmp_path, tree())
