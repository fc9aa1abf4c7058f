"""The profile allows everything programs need and refuses anything a snapshot cannot hold."""

import errno
import json
from typing import Any

import pytest

from holdfast.images import seccomp

PROFILE = seccomp.profile()


def rules(name: str) -> list[dict[str, Any]]:
    return [rule for rule in PROFILE["syscalls"] if name in rule["names"]]


def test_profile_is_json() -> None:
    """Docker gets it as text."""
    assert json.loads(json.dumps(PROFILE)) == PROFILE


def test_unnamed_calls_fail() -> None:
    """The profile lists the allowed calls."""
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"


REFUSED = """
    io_uring_setup io_uring_enter io_uring_register memfd_secret unshare setns mount umount2 pivot_root bpf
    keyctl add_key request_key userfaultfd perf_event_open kexec_load init_module open_by_handle_at reboot
    swapon
"""
ALLOWED = "read write execve fork futex epoll_wait ptrace chroot rseq setuid mmap inotify_init1"


@pytest.mark.parametrize("name", REFUSED.split())
def test_refused(name: str) -> None:
    """Calls that reach around the container or cannot be dumped are not named."""
    assert rules(name) == []


@pytest.mark.parametrize("name", ALLOWED.split())
def test_allowed_whatever_the_arguments(name: str) -> None:
    """The daily calls of programs have one rule without conditions."""
    assert [rule.get("args") for rule in rules(name)] == [None]


def test_no_call_is_in_two_groups() -> None:
    """Each call has one place in the file."""
    names = [name for group in seccomp.GROUPS for name in group.split()]

    assert sorted(names) == sorted(set(names))


def test_socket_families_are_allowed_by_equality() -> None:
    """A family is compared as a whole register; AF_ALG (38), AF_VSOCK (40) and unknown ones match no rule."""
    first = [rule["args"][0] for rule in rules("socket") if rule["action"] == "SCMP_ACT_ALLOW"]

    assert {argument["op"] for argument in first} == {"SCMP_CMP_EQ"}
    assert {argument["value"] for argument in first} == {1, 2, 10, 16, 17}


def test_no_rule_has_two_conditions_on_one_argument() -> None:
    """runc would read them as alternatives."""
    for rule in PROFILE["syscalls"]:
        indexes = [argument["index"] for argument in rule.get("args", [])]
        assert len(indexes) == len(set(indexes))


@pytest.mark.parametrize("name", ["clone3", "socketcall"])
def test_calls_that_hide_their_arguments_seem_absent(name: str) -> None:
    """ENOSYS makes the C library fall back to the call whose arguments can be seen."""
    assert [(rule["action"], rule["errnoRet"]) for rule in rules(name)] == [("SCMP_ACT_ERRNO", errno.ENOSYS)]


@pytest.mark.parametrize("name", [*seccomp.LANDLOCK, "mseal"])
def test_confinement_that_copies_would_lose_seems_absent(name: str) -> None:
    """As on a kernel that was built or started without it."""
    [rule] = rules(name)
    assert (rule["action"], rule.get("args")) == ("SCMP_ACT_ERRNO", None)
    assert rule["errnoRet"] == (errno.ENOSYS if name == "mseal" else errno.EOPNOTSUPP)


def test_one_option_of_prctl_is_unknown() -> None:
    """All others are the kernel's business."""
    allowed, refused = rules("prctl")
    assert (allowed["action"], allowed["args"][0]["op"]) == ("SCMP_ACT_ALLOW", "SCMP_CMP_NE")
    assert (refused["action"], refused["args"][0]["op"]) == ("SCMP_ACT_ERRNO", "SCMP_CMP_EQ")
    assert refused["errnoRet"] == errno.EINVAL
    assert allowed["args"][0]["value"] == refused["args"][0]["value"] == seccomp.PR_SET_MDWE


def test_clone_makes_no_namespace() -> None:
    """Each of the seven namespace flags is in the mask that must be clear."""
    flags = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)

    [rule] = rules("clone")

    assert rule["args"] == [{"index": 0, "value": sum(flags), "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
