"""What a session says about changes of its files is validated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.cli.watch_verbs import line
from holdfast.runtime.files import file_event
from holdfast.runtime.files.file_event import MOST, FileEvent, Places
from holdfast.runtime.guest.wire.protocol import Frame

WHERE = Places("/srv", "/srv/file")
ROW: dict[str, Any] = {"seq": 1, "kind": "created", "path": "a/b", "folder": False}


def changes(*rows: Any, last: int = 0) -> list[FileEvent]:
    return file_event.changes(Frame({}, json.dumps(rows).encode()), WHERE, last)


def test_paths_are_absolute_and_names_any_bytes() -> None:
    found = changes(
        ROW, ROW | {"seq": 2, "kind": "renamed", "path": "x\udcff", "to": "\n"},
        ROW | {"seq": 3, "kind": "removed", "path": "", "folder": True},
        ROW | {"seq": 4, "kind": "lost", "path": "", "why": "overflow"},
    )  # fmt: skip
    assert [(event.path, event.to) for event in found] == [
        ("/srv/a/b", None), ("/srv/x\udcff", "/srv/\n"), ("/srv", None), ("/srv/file", None)
    ]  # fmt: skip
    assert found[1].as_dict() == {
        "seq": 2,
        "kind": "renamed",
        "path": "/srv/x\udcff",
        "folder": False,
        "to": "/srv/\n",
    }
    at_root = file_event.changes(Frame({}, json.dumps([ROW]).encode()), Places("/", "/"), 0)
    assert at_root[0].path == "/a/b"


@pytest.mark.parametrize(
    "changed",
    [
        {"seq": 2}, {"seq": 0}, {"seq": "1"}, {"kind": "x"}, {"kind": []}, {"path": "../x"}, {"path": "/etc"},
        {"path": "a//b"}, {"path": "a/.."}, {"path": "."},
        {"path": "a\0b"}, {"path": "p" * 5000}, {"path": "\ud800"}, {"path": None},
        {"folder": 1}, {"kind": "renamed"}, {"kind": "renamed", "to": "../x"}, {"kind": "lost"},
        {"kind": "lost", "why": "\x1b]0;x"},
    ],
)  # fmt: skip
def test_changes_that_no_file_has_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
        changes(ROW | changed)


def test_batches_that_are_no_batches_are_refused() -> None:
    for payload in (b"{}", b"[]", b"[", b"[5]", json.dumps([ROW] * (MOST + 1)).encode()):
        with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
            file_event.changes(Frame({}, payload), WHERE, 0)
    with pytest.raises(ProtocolError, match="out of order"):
        changes(ROW, ROW)
    wrong: tuple[object, ...] = (
        {"root": "srv", "watched": "/"},
        {"root": "/", "watched": ""},
        {"root": "/\0", "watched": "/"},
        [],
    )
    for places in wrong:
        with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
            file_event.places(Frame({}, json.dumps(places).encode()))


def test_lines_for_people_obey_no_name() -> None:
    found = changes(
        ROW | {"folder": True}, ROW | {"seq": 2, "kind": "renamed", "path": "\x1b[2J", "to": "b\u202e"},
        ROW | {"seq": 3, "kind": "lost", "path": "", "why": "slow"},
    )  # fmt: skip
    assert [line(event) for event in found] == [
        "created     /srv/a/b/",
        "renamed     /srv/[2J -> /srv/b",
        "lost        /srv/file  (they came faster than they were read: list it again)",
    ]
