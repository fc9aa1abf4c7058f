"""Homes on real NFS, and on vfat, by another kernel: user-mode Linux."""

from __future__ import annotations

from tests.machines import user_mode


def test_nfs_holds_homes_and_vfat_does_not() -> None:
    """NFS has all features that a home needs; its server decides whether the engine, which is root, can use
    it."""
    found = user_mode.homes()

    for name, root in (("nfs, root_squash", False), ("nfs, no_root_squash", True)):
        assert (found[name]["code"], found[name]["root"]) == (0, root), found[name]
    assert found["vfat"]["code"] == 1
    assert "its file system (vfat) has no hard links and no UNIX sockets" in found["vfat"]["said"]
