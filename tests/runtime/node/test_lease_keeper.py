"""The decisions of the keeper, and its effect on real files: it freezes at the end of a lease."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from holdfast.base import locks, node_lease
from holdfast.base.home import Home
from holdfast.base.node_lease import Frozen, LeaseFile
from holdfast.engine import frozen_groups
from holdfast.runtime.node import lease_keeper
from holdfast.runtime.node.lease_keeper import ContainerList, LeaseKeeper, decide

THERE = {"c1": "s1", "c2": "s2"}


@pytest.mark.parametrize(
    ("boot", "until", "owned", "frozen", "stop", "go"),
    [
        ("b", 10.0, "s1 s2", "", "", ""),
        ("b", 5.0, "s1 s2", "", "c1 c2", ""),  # over at this very instant
        ("other", 99.0, "s1 s2", "", "c1 c2", ""),  # the clock of another boot says nothing
        ("b", 10.0, "s1", "c1 c2", "c2", "c1"),  # the other one is not the node's any more
        ("b", 10.0, "", "c1 gone", "c1", ""),
        ("b", 10.0, "s1", "", "", ""),  # new and not in the cluster yet: it runs
    ],
)
def test_runnable_snapshots(boot: str, until: float, owned: str, frozen: str, stop: str, go: str) -> None:
    """Nothing without a lease; after one, the sessions that are still the node's own."""
    lease = LeaseFile(boot, until, 0.0, frozenset(owned.split()))
    found = decide(lease, "b", 5.0, THERE, dict.fromkeys(frozen.split(), ""))
    assert (found.stop, found.go) == (frozenset(stop.split()), frozenset(go.split()))


class _Groups:
    """Control groups of the second version, in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for container in THERE:
            folder = root / "docker" / container
            folder.mkdir(parents=True)
            (folder / "cgroup.procs").write_text("7\n")
            (folder / "cgroup.freeze").write_text("0\n")
            (folder / "cgroup.events").write_text("populated 1\nfrozen 0\n")

    def switch(self, container: str) -> str:
        """Do as the kernel does, and return the last written text."""
        folder = self.root / "docker" / container
        word = (folder / "cgroup.freeze").read_text().strip()[:1]
        (folder / "cgroup.events").write_text(f"populated 1\nfrozen {word}\n")
        (folder / "cgroup.freeze").write_text(f"{word}\n")
        return word


class _List:
    sessions = THERE

    def pid(self, _container: str) -> int:
        return 0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.locks.mkdir(parents=True)
    return made


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Groups:
    root = tmp_path / "cgroup"
    for name in ("freeze", "thaw", "is_frozen"):
        found = getattr(frozen_groups, name)
        monkeypatch.setattr(
            frozen_groups, name, lambda each, pid=0, found=found: found(each, pid, root=str(root))
        )
    return _Groups(root)


def _keeper(home: Home) -> LeaseKeeper:
    return LeaseKeeper(home, cast(ContainerList, _List()))


def _lease(seconds: float, owned: str = "s1 s2") -> LeaseFile:
    return LeaseFile(node_lease.boot_id(), node_lease.now() + seconds, 1.0, frozenset(owned.split()))


def test_a_lease_that_ends_freezes_and_a_new_one_thaws(home: Home, groups: _Groups) -> None:
    """Sessions that an earlier keeper froze, before it was killed, are known from its file; lost ones stay
    frozen.
    """
    _keeper(home).look(_lease(-1))
    assert (groups.switch("c1"), groups.switch("c2")) == ("1", "1")
    assert node_lease.read_frozen(home).containers == THERE
    assert "out of reach since 00:00:01" in node_lease.why_frozen(home, "c1")
    second = _keeper(home)
    second.look(_lease(60, owned="s2"))
    assert (groups.switch("c1"), groups.switch("c2")) == ("1", "0")
    assert node_lease.read_frozen(home).containers == {"c1": "s1"}
    assert node_lease.why_frozen(home, "c2") == ""


def test_sessions_thawed_by_others_are_frozen_again(home: Home, groups: _Groups) -> None:
    """As a capture does at its end."""
    keeper = _keeper(home)
    keeper.look(_lease(-1))
    groups.switch("c1")
    (groups.root / "docker" / "c1" / "cgroup.freeze").write_text("0\n")
    groups.switch("c1")
    keeper.look(_lease(-1))
    assert groups.switch("c1") == "1"


def test_a_session_is_not_thawed_within_an_operation(home: Home, groups: _Groups) -> None:
    """An operation can be a capture that has it frozen."""
    keeper = _keeper(home)
    keeper.look(_lease(-1))
    groups.switch("c1"), groups.switch("c2")
    with locks.exclusive(home.locks, "s1", "capture"):
        keeper.look(_lease(60))
        assert (groups.switch("c1"), groups.switch("c2")) == ("1", "0")
    keeper.look(_lease(60))
    assert groups.switch("c1") == "0"


def test_a_lease_that_cannot_be_read_is_over(home: Home) -> None:
    """And a home without a lease has no node."""
    assert node_lease.read_lease(home) is None
    node_lease.write_lease(home, _lease(60))
    lease = node_lease.read_lease(home)
    assert lease is not None
    assert lease.holds(node_lease.boot_id(), node_lease.now())
    Path(home.below("node", "lease.json")).write_text('{"until": 1e30, "boot": 1')
    broken = node_lease.read_lease(home)
    assert broken is not None
    assert not broken.holds(node_lease.boot_id(), 0.0)
    node_lease.write_frozen(home, Frozen(1.0, 1.0, {"c1": "s1"}))
    node_lease.forget(home)
    assert node_lease.read_lease(home) is None
    assert not node_lease.read_frozen(home).containers


def test_a_home_has_one_keeper(home: Home) -> None:
    """Its lock says whether there is one."""
    assert not lease_keeper.at_work(home)
    with locks.whole_file(Path(home.below("node", "keeper.lock")), 0.0):
        assert lease_keeper.at_work(home)
        lease_keeper.keep(home)  # returns at once
    assert not lease_keeper.at_work(home)
