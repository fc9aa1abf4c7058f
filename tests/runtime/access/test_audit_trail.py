"""Requests are written in a chain, in which every change is found."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.access import ocsf_events
from holdfast.runtime.access.audit_trail import FILE, AuditedRequest, AuditTrail
from holdfast.snapshots.bundle.keys import Keys


def _request(number: int, actor: str = "agent:ci", session: str = "work") -> AuditedRequest:
    return AuditedRequest(
        1000.0 + number / 3,
        actor,
        "k" * 12,
        "POST",
        "/v1/sessions/{session}/exec",
        session,
        200,
        f"r{number}",
        0.25,
    )


def _trail(folder: Path, count: int = 6) -> AuditTrail:
    trail = AuditTrail(folder)
    for number in range(count):
        trail.note(_request(number))
    trail.close()
    return AuditTrail(folder)


def test_earlier_notes_are_read_again(tmp_path: Path) -> None:
    """In its order and every field, and the chain is whole."""
    trail = _trail(tmp_path)
    assert trail.rows() == [_request(number) for number in range(6)]
    found = trail.verify()
    assert (found.rows, found.faults) == (6, ())
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_several_servers_of_a_home_write_one_chain(tmp_path: Path) -> None:
    """Rows of both, none lost."""
    trails = [AuditTrail(tmp_path) for _ in range(3)]
    writing = [
        threading.Thread(target=lambda trail=trail: [trail.note(_request(each)) for each in range(40)])
        for trail in trails
    ]
    for each in writing:
        each.start()
    for each in writing:
        each.join()
    for trail in trails:
        trail.close()
    found = AuditTrail(tmp_path).verify()
    assert (found.rows, found.faults) == (120, ())


@pytest.mark.parametrize(
    ("attack", "fault"),
    [
        ("UPDATE requests SET actor = 'agent:eve' WHERE seq = 3", "row 3 was changed"),
        ("UPDATE requests SET status = 403 WHERE seq = 6", "row 6 was changed"),
        ("DELETE FROM requests WHERE seq = 3", "rows 3 to 3 are missing"),
        ("DELETE FROM requests WHERE seq = 1", "rows 1 to 1 are missing"),
        ("UPDATE requests SET hash = hex(zeroblob(32)) WHERE seq = 2", "row 2 was changed"),
    ],
)
def test_every_change_is_found(attack: str, fault: str, tmp_path: Path) -> None:
    """Anyone who can write the file and does not make the whole chain again."""
    trail = _trail(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute(attack)
    assert fault in trail.verify().faults[0]


def test_a_rewritten_trail_does_not_match_a_noted_head(tmp_path: Path) -> None:
    """Cut at the end, or cut and linked again: the chain is whole, and differs."""
    head = _trail(tmp_path).verify().head
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("DELETE FROM requests WHERE seq > 3")
    cut = AuditTrail(tmp_path)
    assert cut.verify().faults == ()
    assert cut.verify(head).faults == ("rows 4 to 6 are missing at the end",)
    for number in (7, 8, 9, 10):
        cut.note(_request(number))
    cut.close()
    linked = AuditTrail(tmp_path)
    assert linked.verify().faults == ()
    assert linked.verify(head).faults == ("row 6 differs from the noted one",)


def test_rows_are_chosen(tmp_path: Path) -> None:
    """By time, actor with all its runs, session and number; the latest count."""
    trail = AuditTrail(tmp_path)
    for number, actor in enumerate(["agent:ci", "agent:ci/7", "agent:cider", "person:ada"]):
        trail.note(_request(number, actor, "work" if number else "other"))
    trail.close()
    trail = AuditTrail(tmp_path)
    assert [each.request for each in trail.rows(actor="agent:ci")] == ["r0", "r1"]
    assert [each.request for each in trail.rows(actor="agent")] == ["r0", "r1", "r2"]
    assert [each.request for each in trail.rows(session="work", most=2)] == ["r2", "r3"]
    assert [each.request for each in trail.rows(since=1000.5)] == ["r2", "r3"]


def test_entries_lost_to_a_full_disk_are_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers on; the trail says how many rows are missing."""
    trail = AuditTrail(tmp_path / "missing")
    trail.note(_request(1))
    trail.note(_request(2))
    trail.close()
    (tmp_path / "missing").mkdir()
    trail.note(_request(3))
    trail.close()
    assert [(each.request, each.path) for each in AuditTrail(tmp_path / "missing").rows()] == [
        ("r3", "/v1/sessions/{session}/exec"),
        ("", "2 rows"),
    ]


def test_a_head_has_a_form(tmp_path: Path) -> None:
    """Anything else is refused in words."""
    with pytest.raises(InvalidArgument, match="NUMBER:HASH"):
        _trail(tmp_path).verify("12")


def _signed(folder: Path, numbers: range, keys: Keys) -> None:
    """Write rows as a server of the home does."""
    trail = AuditTrail(folder, keys.sending()[0])
    for number in numbers:
        trail.note(_request(number))
    trail.close()


def _faults(folder: Path, keys: Keys) -> tuple[str, ...]:
    return AuditTrail(folder).verify(trusts=lambda public: keys.trusted(public) is not None).faults


def test_a_cut_and_relinked_trail_lacks_signed_heads(tmp_path: Path) -> None:
    """The chain is whole, and anyone who made it does not have the key of the home."""
    keys = Keys(Home(tmp_path).create())
    _signed(tmp_path, range(6), keys)
    found = AuditTrail(tmp_path).verify(trusts=lambda public: keys.trusted(public) is not None)
    assert (found.rows, found.faults, found.heads >= 1) == (6, (), True)
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("DELETE FROM requests WHERE seq > 3")
    assert "were signed" in _faults(tmp_path, keys)[0]
    forger = AuditTrail(tmp_path)
    for number in (7, 8, 9, 10):
        forger.note(_request(number))
    forger.close()
    assert AuditTrail(tmp_path).verify().faults == ()
    assert "row 6 differs from its signed head" in _faults(tmp_path, keys)
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("DELETE FROM heads")
    assert _faults(tmp_path, keys) == ("rows 1 to 7 lack a signed head",)


def test_a_head_of_another_key_or_row_confirms_nothing(tmp_path: Path) -> None:
    """A forger signs with a key of its own, or moves a head to a different row."""
    keys = Keys(Home(tmp_path / "home").create())
    _signed(tmp_path, range(3), keys)
    theirs = Keys(Home(tmp_path / "theirs").create())
    _signed(tmp_path, range(3, 5), theirs)
    assert any("not by a key of this home" in each for each in _faults(tmp_path, keys))
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE heads SET key = ?", (keys.known()[0].public,))
    assert any("wrong signature" in each for each in _faults(tmp_path, keys))


@pytest.mark.parametrize(
    ("method", "status", "activity", "outcome"),
    [
        ("POST", 200, 1, 1),
        ("GET", 404, 2, 2),
        ("PATCH", 204, 3, 1),
        ("DELETE", 403, 4, 2),
        ("TOOL", 200, 99, 1),
    ],
)
def test_a_row_is_an_event_of_ocsf(method: str, status: int, activity: int, outcome: int) -> None:
    """With what its class requires: the activity, actor, time, type, severity, source and operation."""
    row = AuditedRequest(1000.25, "agent:ci", "k" * 12, method, "/v1/x", "work", status, "r1", 0.0625)
    found = ocsf_events.event(7, row)
    assert (found["class_uid"], found["category_uid"], found["activity_id"]) == (6003, 6, activity)
    assert (found["type_uid"], found["status_id"]) == (600300 + activity, outcome)
    assert (found["time"], found["duration"]) == (1_000_250, 62)
    assert (found["metadata"]["sequence"], found["metadata"]["uid"]) == (7, "r1")
    assert found["actor"]["user"]["name"] == "agent:ci"
    assert found["api"]["operation"] == f"{method} /v1/x"
    assert found["resources"] == [{"name": "work", "type": "session"}]
    assert found["src_endpoint"]
    assert found["severity_id"] == 1
