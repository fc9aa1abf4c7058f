"""The making of the container next to a remote engine."""

from __future__ import annotations

import pytest

from holdfast.engine.engine_place import SOCKET
from holdfast.errors import InvalidArgument
from holdfast.runtime.remote.elsewhere import DEFAULT_HOME, home_of, name_of, options


def test_each_home_and_version_has_its_own_container() -> None:
    names = {
        name_of(home, f"holdfast/controller:{digest * 6}") for home in ("/a", "/b") for digest in ("12", "34")
    }
    assert len(names) == 4


def test_the_home_is_a_place_on_the_engines_machine() -> None:
    assert home_of({"HOLDFAST_HOME": "/mine"}) == DEFAULT_HOME
    assert home_of({"HOLDFAST_REMOTE_HOME": "/srv//holdfast/"}) == "/srv/holdfast"


@pytest.mark.parametrize("home", ["holdfast", "/", "/..", "/a:/b", "/a\n"])
def test_a_home_that_cannot_be_mounted_is_refused(home: str) -> None:
    with pytest.raises(InvalidArgument, match="absolute path"):
        home_of({"HOLDFAST_REMOTE_HOME": home})


def test_the_container_sees_the_engines_files() -> None:
    """The containerd of the system has its own folder."""
    own = {"DockerRootDir": "/data", "Driver": "overlay2", "DriverStatus": []}
    systems = own | {
        "Driver": "overlayfs",
        "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
        "Containerd": {"Address": "/run/containerd/containerd.sock"},
    }
    mounts = {each["Source"]: each for each in options("/home", "/the.sock", systems)["mounts"]}
    assert mounts["/the.sock"]["Target"] == SOCKET
    assert mounts["/data"]["ReadOnly"]
    assert "/var/lib/containerd" in mounts
    assert "/var/lib/containerd" not in str(options("/home", "/the.sock", own))
