"""What a session with a read-only root can write to."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.sessions.session_options import SessionOptions


def test_a_writable_root_needs_nothing() -> None:
    assert SessionOptions().root is None


def test_the_state_and_the_usual_folders_stay_writable() -> None:
    assert SessionOptions(read_only=True).root == {
        "own": ["/var/lib/holdfast"],
        "folders": [],
        "usual": ["/workspace", "/tmp", "/var/tmp", "/run"],
        "files": ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"],
    }


def test_chosen_folders_have_one_form_each() -> None:
    chosen = SessionOptions.parse(read_only=True, writable=["/srv//data/", "/srv/./data", "/cache"])
    assert chosen.writable == ("/srv/data", "/cache")
    assert (chosen.root or {})["folders"] == ["/srv/data", "/cache"]


def test_files_of_the_engine_are_as_the_folder_in_which_a_caller_wants_to_write() -> None:
    chosen = SessionOptions.parse(read_only=True, writable=["/etc"])
    assert (chosen.root or {})["files"] == []
    mounted = SessionOptions.parse(read_only=True, mounts=["/srv/hosts:/etc/hosts"])
    assert (mounted.root or {})["files"] == ["/etc/hostname", "/etc/resolv.conf"]


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/",
        "//",
        "srv",
        "/srv/../etc",
        "/srv\0",
        "/proc",
        "/sys/fs",
        "/dev/shm",
        "/opt/holdfast",
        "/" + "x" * 300,
    ],
)
def test_what_cannot_be_chosen_is_refused_in_one_line(place: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^cannot create session: writable [^\n]+$"):
        SessionOptions.parse(read_only=True, writable=[place])
