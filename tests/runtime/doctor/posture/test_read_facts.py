"""Reading facts about a machine from its files."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.runtime.doctor import posture

MOUNTS = [
    "/dev/vda / ext4 rw,relatime 0 0",
    "/dev/vdb /var/lib/docker xfs rw,attr2,prjquota 0 0",
    "/dev/vdc /var/lib/docker\\040two xfs rw 0 0",
    "broken",
]


def test_quotas_belong_to_the_mount_of_a_folder() -> None:
    """Neither of a mount above it nor of one with a similar prefix."""
    assert posture.has_quota(Path("/var/lib/docker"), MOUNTS)
    assert posture.has_quota(Path("/var/lib/docker/overlay2"), MOUNTS)
    assert not posture.has_quota(Path("/var/lib/docker two"), MOUNTS)
    assert not posture.has_quota(Path("/var/lib"), MOUNTS)
    assert not posture.has_quota(Path("/x"), [])


def test_the_last_mount_on_a_folder_counts() -> None:
    """It hides those before it."""
    assert not posture.has_quota(Path("/d"), ["a /d xfs rw,pquota 0 0", "b /d tmpfs rw 0 0"])


def test_switches_are_read_by_name(tmp_path: Path) -> None:
    """Switches that the kernel lacks are left out."""
    (tmp_path / "kernel/yama").mkdir(parents=True)
    (tmp_path / "kernel/yama/ptrace_scope").write_text("1\n")

    assert posture.sysctls(tmp_path) == {"kernel.yama.ptrace_scope": "1"}


def test_only_unmitigated_vulnerabilities_are_weaknesses(tmp_path: Path) -> None:
    """As the kernel words it; a kernel without a report is not one without weaknesses."""
    for name, text in (("mds", "Not affected"), ("l1tf", "Mitigation: PTE"), ("srbds", "Vulnerable: x")):
        (tmp_path / name).write_text(text + "\n")

    assert posture.weaknesses(tmp_path) == ("srbds",)
    assert posture.weaknesses(tmp_path / "none") is None


def test_the_home_is_seen_with_its_mode(tmp_path: Path) -> None:
    """And whether it belongs to the calling user."""
    tmp_path.chmod(0o750)
    found = posture.home_facts(tmp_path)

    assert (found.mode, found.own) == (0o750, True)
    os.chown(tmp_path, 12345, -1)
    assert not posture.home_facts(tmp_path).own


def test_a_socket_is_seen_with_its_group(tmp_path: Path) -> None:
    """A group without a name is known by its number; a missing socket belongs to no one."""
    path = tmp_path / "s"
    path.touch(0o660)
    os.chown(path, -1, 54321)

    found = posture.socket_facts(path)

    assert (found.path, found.group, found.members) == (str(path), "54321", ())
    assert posture.socket_facts(tmp_path / "none").path == ""
