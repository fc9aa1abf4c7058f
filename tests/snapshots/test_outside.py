from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.record import outside


class Message(SimpleNamespace):
    """A message of protobuf: what it was given, and zeros."""

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's
        return name in self.__dict__

    def __getattr__(self, name: str) -> Any:
        return 0


class Images:
    def __init__(self, **images: list[Any]) -> None:
        self._images = {key.replace("_", "-"): value for key, value in images.items()}

    def messages(self, name: str) -> list[Any]:
        return self._images.get(name, [])


def _file(name: str, flags: int = os.O_RDONLY, **more: Any) -> Message:
    return Message(type=1, reg=Message(name=name, flags=flags, **more))


def _task(**thread: Any) -> Images:
    return Images(
        pstree=[Message(pid=5, threads=[5])],
        core_5=[Message(tc=Message(oom_score_adj=500), thread_core=Message(**thread))],
    )


def _creds(**given: Any) -> Message:
    return Message(**({"lsm_profile": "", "lsm_sockcreate": ""} | given))


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("/usr/bin/python3", os.O_RDONLY),
        ("/workspace/a..b", os.O_RDWR),
        ("/dev/pts/0", os.O_RDWR),
        ("/", os.O_RDONLY),
        ("/proc/uptime", os.O_RDONLY),
        ("/proc/12/stat", os.O_RDONLY),
        ("/proc/12/net/tcp", os.O_RDONLY),
        ("/proc/12/task/13/status", os.O_RDONLY),
        ("/proc/12/task/12/children", os.O_RDONLY),
        ("/proc/12/task/12/syscall", os.O_RDONLY),
        ("/proc/12/fd", os.O_RDONLY | os.O_DIRECTORY),
        ("/proc/12/fdinfo/7", os.O_RDONLY),
        ("/proc", os.O_RDONLY),
        ("/proc/12", os.O_RDONLY),
        ("/process/mem", os.O_RDWR),
    ],
)
def test_names_that_kernels_give_to_files_are_ordinary(name: str, flags: int) -> None:
    """What programs of sessions have open."""
    assert outside.strange(Images(files=[_file(name, flags)])) == []


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("/../../etc/shadow", os.O_RDONLY),
        ("/tmp/../proc/1/mem", os.O_RDONLY),
        ("etc/passwd", os.O_RDONLY),
        ("/proc/self/mem", os.O_RDWR),
        ("/proc/305/mem", os.O_RDONLY),
        ("/proc/305/fd/7/keys/default.pem", os.O_RDONLY),
        ("/proc//305/./root/etc/shadow", os.O_RDONLY),
        ("/proc/thread-self/cwd", os.O_RDONLY),
        ("/proc/1/task/1/ns/mnt", os.O_RDONLY),
        ("/proc/1/task/1/net/../../x", os.O_RDONLY),
        ("/proc/sys/kernel/core_pattern", os.O_WRONLY),
        ("/proc/sysrq-trigger", os.O_RDWR),
        ("/proc/305/map_files/400000-401000", os.O_RDONLY),
    ],
)
def test_names_that_lead_out_of_the_session_are_told(name: str, flags: int) -> None:
    """Up, into processes (CRIU's own among them), and into what the kernel obeys."""
    assert len(outside.strange(Images(files=[_file(name, flags)]))) == 1


def test_sockets_are_judged_by_their_paths() -> None:
    """Those without a path, abstract ones, and names relative to a folder are ordinary."""
    for name in (b"", b"\0abstract/../x", b"/run/x.sock\0", b"x.sock"):
        assert outside.strange(Images(files=[Message(type=5, usk=Message(name=name))])) == []
    for name in (b"/proc/7/fd/3/x\0", b"../../x", b"/a/../../b"):
        assert len(outside.strange(Images(files=[Message(type=5, usk=Message(name=name))]))) == 1


def test_a_namespace_that_is_open_is_the_sessions_own() -> None:
    """CRIU opens that of a restored process, not one by a name or number."""
    assert outside.strange(Images(files=[Message(type=14)])) == []


@pytest.mark.parametrize("kind", [0, 10, 15, 16, 19, 99])
def test_files_of_kinds_that_no_session_has_are_told(kind: int) -> None:
    """Tunnels, packets, what is external, what nobody knows."""
    assert outside.strange(Images(files=[Message(type=kind)]))


def test_files_terminals_and_memory_from_outside_are_told() -> None:
    """What CRIU would take from its own command line, its plugins, or the host."""
    area = Message(status=1 << 27)
    images = Images(
        files=[_file("/x", ext=True)],
        tty_info=[Message(type=1), Message(type=4), Message(type=3), Message(type=5)],
        pstree=[Message(pid=5, threads=[5])],
        mm_5=[Message(vmas=[Message(status=1), area])],
    )

    assert len(outside.strange(images)) == 4


def test_what_gives_a_task_more_than_others_have_is_told() -> None:
    """Its turn before others, its life before others, a profile of its own."""
    assert outside.strange(_task(sched_policy=0, sched_nice=10, creds=_creds())) == []
    for thread in (
        {"sched_policy": 1},
        {"sched_nice": -5},
        {"creds": _creds(lsm_profile="privileged")},
        {"creds": _creds(lsm_sockcreate="x")},
        {"creds": _creds(apparmor_data=Message())},
    ):
        assert len(outside.strange(_task(**thread))) == 1
    spared = Images(pstree=[Message(pid=5, threads=[])], core_5=[Message(tc=Message(oom_score_adj=-1000))])
    assert len(outside.strange(spared)) == 1


def test_only_so_much_is_told() -> None:
    """However much there is."""
    files = [_file(f"/proc/{number}/mem") for number in range(1000)]

    assert len(outside.strange(Images(files=files))) == outside.MOST
