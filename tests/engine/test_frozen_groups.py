"""A control group frozen by hand is found, with the command that lets it continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine.frozen_groups import freeze, members, thaw, thaw_command


def _tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


@pytest.mark.parametrize(
    ("place", "pid"), [("docker/c1", 0), ("system.slice/docker-c1.scope", 0), ("mine/c1", 7)]
)
def test_a_frozen_group_is_found_in_both_versions(tmp_path: Path, place: str, pid: int) -> None:
    """Where the engine has its groups by default, or where the first process is."""
    proc = _tree(tmp_path / "proc", {"7/cgroup": f"9:pids:/other\n6:freezer:/{place}\n0::/{place}\n"})
    first = tmp_path / "first"
    files = {f"freezer/{place}/freezer.state": "FROZEN\n", f"freezer/{place}/freezer.self_freezing": "1\n"}
    assert (
        thaw_command("c1", pid, root=_tree(first, files), proc=proc)
        == f"echo THAWED > {first}/freezer/{place}/freezer.state"
    )
    _tree(first, {f"freezer/{place}/freezer.state": "THAWED\n"})
    assert thaw_command("c1", pid, root=str(first), proc=proc) == ""

    second = tmp_path / "second"
    files = {f"{place}/cgroup.events": "populated 1\nfrozen 1\n", f"{place}/cgroup.freeze": "1\n"}
    assert (
        thaw_command("c1", pid, root=_tree(second, files), proc=proc)
        == f"echo 0 > {second}/{place}/cgroup.freeze"
    )
    _tree(second, {f"{place}/cgroup.events": "populated 1\nfrozen 0\n"})
    assert thaw_command("c1", pid, root=str(second), proc=proc) == ""


def test_the_group_that_was_frozen_is_named_if_it_is_above(tmp_path: Path) -> None:
    """To write to the container's own would change nothing."""
    place = "freezer/docker/c1"
    files = {f"{place}/freezer.state": "FROZEN\n", f"{place}/freezer.self_freezing": "0\n"}
    root = _tree(tmp_path, files | {"freezer/docker/freezer.self_freezing": "1\n"})
    assert thaw_command("c1", root=root) == f"echo THAWED > {root}/freezer/docker/freezer.state"
    root = _tree(
        tmp_path / "second",
        {
            "docker/c1/cgroup.events": "frozen 1\n",
            "docker/c1/cgroup.freeze": "0\n",
            "docker/cgroup.freeze": "1\n",
        },
    )
    assert thaw_command("c1", root=root) == f"echo 0 > {root}/docker/cgroup.freeze"


def test_a_group_that_cannot_be_seen_counts_as_running(tmp_path: Path) -> None:
    assert thaw_command("c1", 7, root=str(tmp_path / "none"), proc=str(tmp_path)) == ""
    assert thaw_command("c1", root=_tree(tmp_path, {"freezer/docker/x/freezer.state": "FROZEN"})) == ""


@pytest.mark.parametrize("first", [True, False])
def test_a_group_is_frozen_and_thawed_by_its_switch(tmp_path: Path, first: bool) -> None:
    """That of the container's first process, unless that number is another's by now."""
    base = tmp_path / "freezer" if first else tmp_path
    switch, on, off = ("freezer.state", "FROZEN", "THAWED") if first else ("cgroup.freeze", "1", "0")
    root = _tree(tmp_path, {f"{base.relative_to(tmp_path)}/mine/c1/{switch}": ""})
    _tree(base, {"mine/c1/cgroup.procs": "7\n0\n9\n"})
    proc = _tree(
        tmp_path / "proc",
        {"7/cgroup": "6:freezer:/mine/c1\n0::/mine/c1\n", "8/cgroup": "6:freezer:/x\n0::/x\n"},
    )
    freeze("c1", 7, root=root, proc=proc)
    assert (base / "mine" / "c1" / switch).read_text() == on
    assert members("c1", 7, root=root, proc=proc) == (7, 9)
    (base / "mine" / "c1" / switch).write_text("")
    thaw("c1", 7, root=root, proc=proc)
    assert (base / "mine" / "c1" / switch).read_text() == off
    with pytest.raises(FileNotFoundError):
        freeze("c1", 8, root=root, proc=proc)
