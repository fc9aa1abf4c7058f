"""Security labels: how the kernel tells them, and which one CRIU is to give."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.procfs import walk
from holdfast.snapshots.checkpointer.criu import profiles
from holdfast.snapshots.checkpointer.record import labels


@pytest.mark.parametrize(
    ("label", "profile"),
    [
        ("docker-default (enforce)", "docker-default"),
        ("docker-default (complain)", "docker-default"),
        ("my own profile (enforce)", "my own profile"),
        ("a(b)", "a(b)"),
        ("unconfined", ""),
        ("", ""),
    ],
)
def test_a_profile_is_a_label_without_its_mode(label: str, profile: str) -> None:
    """CRIU writes the name alone; a label that confines nothing is not a profile."""
    assert labels.profile(label) == profile


def test_labels_are_compared_as_text() -> None:
    """AppArmor ends them with a line break, SELinux with NUL; bytes that are not text stay distinct."""
    assert labels.normal(b"docker-default (enforce)\n") == "docker-default (enforce)"
    assert (
        labels.normal(b"system_u:system_r:container_t:s0:c1,c2\0") == "system_u:system_r:container_t:s0:c1,c2"
    )
    assert labels.normal(b"\xff") != labels.normal(b"\xfe")


def test_a_repeated_label_is_one() -> None:
    """Most kernels repeat AppArmor's in the file that all modules share; two modules have two."""
    assert (
        labels.joined(["docker-default (enforce)", "docker-default (enforce)"]) == "docker-default (enforce)"
    )
    assert (
        labels.joined(["docker-default (enforce)", "container_t"]) == "docker-default (enforce) | container_t"
    )
    assert labels.joined(["", ""]) == ""


def _attributes(proc: Path, pid: int, tid: int, **found: str) -> None:
    folder = proc / f"{pid}/task/{tid}/attr"
    (folder / "apparmor").mkdir(parents=True)
    for name, label in found.items():
        (folder / name.replace("_", "/")).write_text(label + "\n")


def test_every_thread_is_read_where_the_first_process_has_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread without one differs from the first process; files that are silent there are not read."""
    confined = "docker-default (enforce)"
    _attributes(tmp_path, 5, 5, apparmor_current=confined, current=confined)
    _attributes(tmp_path, 9, 9, apparmor_current=confined, current=confined)
    _attributes(tmp_path, 9, 10, apparmor_current="unconfined", current="unconfined")
    monkeypatch.setattr(walk, "PROC", tmp_path)

    reader = labels.LabelReader(5)

    assert reader.first == confined
    assert reader.of(9, 9) == confined
    assert reader.of(9, 10) == "unconfined"
    assert reader.of(9, 11) == ""
    assert labels.apparmor_of(5) == "docker-default"
    assert labels.apparmor_of(11) == ""


def test_the_kernel_answers_alike_for_every_thread_of_one_process() -> None:
    """Whatever module this machine has: this process has its own label."""
    reader = labels.LabelReader(os.getpid())

    assert {reader.of(os.getpid(), tid) for tid in walk.threads(os.getpid())} == {reader.first}


class _Message(SimpleNamespace):
    """A message of protobuf, as far as it is asked whether it has a field."""

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's
        return name in self.__dict__


def _core(**creds: Any) -> _Message:
    return _Message(thread_core=_Message(creds=_Message(**creds)))


def test_a_profile_named_by_an_image_does_not_decide() -> None:
    """The profile of the container is named in every thread's image, and a zombie's is left as it is."""
    cores = [_core(lsm_profile=""), _core(lsm_profile="unconfined"), _Message()]

    profiles.name_in(cores, "docker-default")

    assert [core.thread_core.creds.lsm_profile for core in cores[:2]] == ["docker-default"] * 2
    assert vars(cores[2]) == {}


def test_criu_is_reported_of_profiles_only_where_there_is_one(tmp_path: Path) -> None:
    """And keeps its knowledge of the kernel separately: a capture must find that there is none."""
    assert profiles.give(tmp_path, "") == {}
    told = {profiles.CLAIMED: "1"}

    assert profiles.cache("/k", told) != profiles.cache("/k", {}) == profiles.cache("/k", None)
