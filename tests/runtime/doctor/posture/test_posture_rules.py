"""The meaning of facts about a machine for users who run untrusted code on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.engine.machine_facts import (
    EngineFacts,
    HomeFacts,
    MachineFacts,
    SocketFacts,
    unfit,
)
from holdfast.runtime.doctor.posture import PostureFinding, judge

# The answer of Docker 26 on Debian 13 with AppArmor, shortened.
INFO: dict[str, Any] = {
    "ServerVersion": "26.1.5",
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
    "CgroupVersion": "2",
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "xfs"], ["Supports d_type", "true"]],
    "DockerRootDir": "/var/lib/docker",
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "Runtimes": {"runc": {}, "io.containerd.runc.v2": {}},
    "DefaultRuntime": "runc",
    "LiveRestoreEnabled": True,
    "Warnings": None,
}
GOOD = MachineFacts(
    engine=EngineFacts.parse(INFO),
    home=HomeFacts("/h", 0o700),
    socket=SocketFacts("/run/docker.sock", 0o660, "docker"),
    sysctls={
        "kernel.kptr_restrict": "1",
        "kernel.dmesg_restrict": "1",
        "kernel.unprivileged_bpf_disabled": "2",
        "kernel.perf_event_paranoid": "3",
        "kernel.yama.ptrace_scope": "1",
    },
    weaknesses=(),
    quota=True,
    apparmor=True,
    network=(True, "sessions cannot reach each other"),
    images={"holdfast/session:1": True},
)


def engine(**changed: Any) -> MachineFacts:
    return replace(GOOD, engine=EngineFacts.parse(INFO | changed))


def line(facts: MachineFacts, name: str) -> PostureFinding:
    return next(found for found in judge(facts) if found.name == name)


def test_a_hardened_machine_only_has_unavoidable_weaknesses() -> None:
    """No advice where there is none to give; the shared kernel is reported, whatever else is good."""
    found = judge(GOOD)

    assert {each.name for each in found if each.level != "ok"} == {
        "user namespace",
        "no_new_privs",
        "runtime",
    }
    assert {each.level for each in found} == {"ok", "limit"}
    assert [each.name for each in found if each.improve] == []


@pytest.mark.parametrize(
    ("facts", "name", "level", "words"),
    [
        (engine(SecurityOptions=["name=seccomp,profile=default"]), "access control", "better", "apparmor"),
        (engine(SecurityOptions=["name=selinux", "name=seccomp"]), "access control", "better", "AppArmor"),
        (engine(SecurityOptions=["name=apparmor"]), "seccomp", "weak", "CONFIG_SECCOMP_FILTER"),
        (engine(SecurityOptions=["name=userns", "name=seccomp"]), "user namespace", "weak", "0016"),
        (engine(SecurityOptions=["name=rootless", "name=seccomp"]), "user namespace", "weak", "0016"),
        (engine(CgroupVersion="1"), "cgroups", "better", "unified_cgroup_hierarchy"),
        (engine(MemoryLimit=False), "cgroups", "weak", "controllers"),
        (engine(DriverStatus=[["Backing Filesystem", "extfs"]]), "storage quota", "better", "pquota"),
        (replace(GOOD, quota=False), "storage quota", "better", "pquota"),
        (engine(DefaultRuntime="runsc"), "runtime", "weak", "0023"),
        (engine(LiveRestoreEnabled=False), "live-restore", "better", "daemon.json"),
        (
            engine(Warnings=["WARNING: API is accessible on http://0.0.0.0:2375 without encryption."]),
            "engine on TCP",
            "weak",
            "--tlsverify",
        ),
        (replace(GOOD, home=HomeFacts("/h", 0o770)), "home", "weak", "chmod 700 /h"),
        (replace(GOOD, home=HomeFacts("/h", 0o755)), "home", "better", "chmod 700 /h"),
        (replace(GOOD, home=HomeFacts("/h", 0o700, own=False)), "home", "weak", "of your own"),
        (replace(GOOD, socket=SocketFacts("/s", 0o666)), "engine's socket", "weak", "chmod 660 /s"),
        (replace(GOOD, network=None), "sessions' network", "weak", "doctor"),
        (replace(GOOD, network=(False, "open")), "sessions' network", "weak", "doctor"),
        (replace(GOOD, weaknesses=None), "processor", "better", ""),
        (replace(GOOD, weaknesses=("mds",)), "processor", "better", "microcode"),
        (replace(GOOD, images={"a:1": False}), "images", "better", "image build"),
        (replace(GOOD, sysctls={}), "kernel.kptr_restrict", "better", "boot"),
        (replace(GOOD, sysctls={"kernel.kptr_restrict": "0"}), "kernel.kptr_restrict", "better", "sysctl -w"),
        (replace(GOOD, sysctls={"kernel.kptr_restrict": "?"}), "kernel.kptr_restrict", "better", "sysctl -w"),
    ],
)
def test_weaknesses_are_reported_with_remedies(
    facts: MachineFacts, name: str, level: str, words: str
) -> None:
    """One thing at a time is changed on a good machine, and only its line changes for the worse."""
    found = line(facts, name)

    assert found.level == level
    assert words in found.improve
    assert found.why


def test_the_kernels_apparmor_is_distinguished_from_the_engines() -> None:
    """Where the kernel has it, the engine lacks the program that loads profiles."""
    without = engine(SecurityOptions=["name=seccomp"])

    assert "apparmor_parser" in line(without, "access control").improve
    assert "boot" in line(replace(without, apparmor=False), "access control").improve


def test_members_of_the_sockets_group_are_named() -> None:
    """They are root on the machine; where the group cannot write, its members do not matter."""
    open_to_group = replace(GOOD, socket=SocketFacts("/s", 0o660, "docker", ("ann", "ben")))
    closed = replace(GOOD, socket=SocketFacts("/s", 0o600, "docker", ("ann", "ben")))

    assert "ann, ben" in line(open_to_group, "engine's socket").state
    assert line(closed, "engine's socket").level == "ok"


def test_unknown_facts_do_not_count_as_good() -> None:
    """An engine without reports does not have a filter, a profile or a quota."""
    found = {each.name: each.level for each in judge(MachineFacts(engine=EngineFacts.parse({})))}

    assert found["seccomp"] == "weak"
    assert found["sessions' network"] == "weak"
    assert {found[name] for name in ("access control", "storage quota", "processor")} == {"better"}


def test_unfit_engines_are_known() -> None:
    """By their own report, with or without arguments of the option; Podman first, by every user."""
    assert "remaps users" in unfit({"SecurityOptions": ["name=seccomp,profile=default", "name=userns"]})
    assert "without root" in unfit({"SecurityOptions": ["name=rootless", "name=cgroupns"]})
    assert "Podman" in unfit({"BuildahVersion": "1.39.3", "SecurityOptions": ["name=rootless"]})
    assert not unfit({"SecurityOptions": ["name=seccomp,profile=/userns", "name=cgroupns"]})
    assert not unfit({"SecurityOptions": None})
