"""The engines that can limit the files of a container, and the message for one that cannot."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.engine import disk_limits

MOUNTS = (
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
    "40 27 8:1 / /var/lib rw - xfs /dev/sda1 rw,attr2,noquota\n"
    "41 40 8:2 / /var/lib/docker rw - xfs /dev/sda2 rw,attr2,prjquota\n"
    "42 27 8:3 / /var/lib/dockerfiles rw - xfs /dev/sda3 rw,noquota\n"
    "not a mount\n"
)


def _info(driver: str, below: str, folder: str) -> dict[str, Any]:
    return {
        "Driver": driver,
        "DriverStatus": [["Backing Filesystem", below], ["odd"]],
        "DockerRootDir": folder,
    }


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (_info("overlay2", "extfs", "/srv"), "its storage, overlay2 on extfs, does not support quotas"),
        (_info("overlay2", "xfs", "/var/lib/other"), "its xfs is not mounted with `pquota`"),
        (_info("overlay2", "xfs", "/var/lib/docker"), ""),
        (_info("overlay2", "xfs", "/var/lib/docker/1000.1000"), ""),
        (_info("btrfs", "btrfs", "/var/lib/docker"), ""),
        ({}, "its storage, ? on ?, does not support quotas"),
    ],
)
def test_disk_limits_depend_on_the_engines_storage(info: dict[str, Any], why: str) -> None:
    """For overlay2 the options of the file system that holds its folder decide."""
    assert disk_limits.fault(info, MOUNTS.encode()) == why
