from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.record import outside


class Message(SimpleNamespace):
    """A message of protobuf: the given fields, and zeros."""

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's
        return name in self.__dict__

    def __getattr__(self, name: str) -> Any:
        return 0


SPACES = {f"{name}_ns_id": number for number, name in enumerate(("pid", "net", "uts", "mnt", "user"), 1)}


def _inventory(**more: Any) -> Message:
    made = {"img_version": 2, "fdinfo_per_id": True, "ns_per_id": True, "root_ids": Message(**SPACES)}
    return Message(**(made | more))


class Images:
    def __init__(self, **images: list[Any]) -> None:
        images = {"inventory": [_inventory()], "ids_5": [Message(**SPACES)]} | images
        self._images = {key.replace("_", "-"): value for key, value in images.items()}

    def messages(self, name: str) -> list[Any]:
        return self._images.get(name, [])

    def numbered(self, kind: str) -> list[str]:
        return [name for name in self._images if name.startswith(f"{kind}-")]


def _file(name: str, flags: int = os.O_RDONLY, **more: Any) -> Message:
    return Message(type=1, reg=Message(name=name, flags=flags, **more))


def _limits(**changed: int) -> Message:
    limits = [Message(cur=0, max=int(changed.get(f"limit_{number}", 0))) for number in range(16)]
    return Message(rlimits=limits)


def _task(tc: dict[str, Any] | None = None, **thread: Any) -> Images:
    task = Message(**({"oom_score_adj": 500, "rlimits": _limits()} | (tc or {})))
    return Images(
        pstree=[Message(pid=5, threads=[5])],
        core_5=[Message(tc=task, thread_core=Message(**thread))],
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
    """Open files of programs in sessions."""
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
def test_names_that_lead_out_of_the_session_are_reported(name: str, flags: int) -> None:
    """Up, into processes (CRIU's own among them), and into what the kernel obeys."""
    assert len(outside.strange(Images(files=[_file(name, flags)]))) == 1


def test_sockets_are_judged_by_their_paths() -> None:
    """Those without a path, abstract ones, and names relative to a folder are ordinary."""
    for name in (b"", b"\0abstract/../x", b"/run/x.sock\0", b"x.sock"):
        assert outside.strange(Images(files=[Message(type=5, usk=Message(name=name))])) == []
    for name in (b"/proc/7/fd/3/x\0", b"../../x", b"/a/../../b"):
        assert len(outside.strange(Images(files=[Message(type=5, usk=Message(name=name))]))) == 1


def test_a_namespace_that_is_open_is_the_sessions_own() -> None:
    """CRIU opens a restored process's namespace, not one by a name or number."""
    assert outside.strange(Images(files=[Message(type=14)])) == []


@pytest.mark.parametrize("kind", [0, 10, 15, 16, 19, 99])
def test_files_of_kinds_that_no_session_has_are_reported(kind: int) -> None:
    """Tunnels, packets, external files, and unknown kinds."""
    assert outside.strange(Images(files=[Message(type=kind)]))


def test_files_terminals_and_memory_from_outside_are_reported() -> None:
    """Files that CRIU would take from its own command line, its plugins, or the host."""
    area = Message(status=1 << 27)
    images = Images(
        files=[_file("/x", ext=True)],
        tty_info=[Message(type=1), Message(type=4), Message(type=3), Message(type=5)],
        pstree=[Message(pid=5, threads=[5])],
        mm_5=[Message(vmas=[Message(status=1), area])],
    )

    assert len(outside.strange(images)) == 4


def test_extra_rights_of_a_task_are_reported() -> None:
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
    for task in (
        {"oom_score_adj": -1000},
        {"rlimits": _limits(limit_14=99)},
        {"rlimits": _limits(limit_13=40)},
        {"rlimits": _limits(limit_7=1 << 20)},
        {"rlimits": Message(rlimits=[])},
        {"timers": Message(posix=[Message(clock_id=8)])},
    ):
        assert len(outside.strange(_task(task, creds=_creds()))) == 1, task


def test_a_task_without_limits_would_get_criu_ones() -> None:
    """CRIU raises its own before it makes processes; one that has ended needs none."""
    without = Images(pstree=[Message(pid=5, threads=[5])], core_5=[Message(tc=Message())])
    ended = Images(pstree=[Message(pid=5, threads=[5])], core_5=[Message(tc=Message(task_state=2))])

    assert outside.strange(without) == ["does not declare the limits of process 5"]
    assert outside.strange(ended) == []


def test_limits_and_timers_of_sessions_are_ordinary() -> None:
    """Everything of memory without limit, files as many as PID 1 allows, clocks that wake nothing."""
    limits = _limits(limit_7=65536, limit_8=2**64 - 1, limit_4=2**64 - 1, limit_6=2**64 - 1)
    timers = Message(posix=[Message(clock_id=one) for one in (0, 1, 2, 7, 11)])

    assert outside.strange(_task({"rlimits": limits, "timers": timers}, creds=_creds())) == []


SOCKETS = {
    "a raw socket": {"isk": Message(family=2, type=3, proto=1)},
    "a packet socket": {"isk": Message(family=17, type=2)},
    "a raw socket by its options": {"isk": Message(family=2, type=2, ip_opts=Message(raw=Message()))},
    "a mark": {"isk": Message(family=2, type=1, opts=Message(so_mark=7))},
    "a mark of a local socket": {"usk": Message(name=b"", opts=Message(so_mark=7))},
    "a priority": {"isk": Message(family=10, type=1, opts=Message(so_priority=7))},
    "the audit": {"nlsk": Message(protocol=9)},
    "an alarm": {"tfd": Message(clockid=9)},
    "a folder out of the session": {"usk": Message(name=b"etc/passwd", name_dir="/proc/self/cwd/../../x")},
    "a folder below proc": {"usk": Message(name=b"x", name_dir="/proc/7/net")},
    "a folder above": {"usk": Message(name=b"x", name_dir="/tmp/../..")},
    "a watch out of the session": {"ify": Message(wd=[Message(f_handle=Message(path="//proc/1/root/etc"))])},
    "a watch above": {"ify": Message(wd=[Message(f_handle=Message(path="//../etc"))])},
}  # fmt: skip


@pytest.mark.parametrize("entry", SOCKETS.values(), ids=SOCKETS)
def test_excess_capabilities_are_reported(entry: dict[str, Any]) -> None:
    """CRIU would make it with its own."""
    assert len(outside.strange(Images(files=[Message(type=4, **entry)]))) == 1


def test_sockets_timers_and_watches_of_sessions_are_ordinary() -> None:
    """Both families, ping without privileges, the kernel's routes, watches by path."""
    entries = [
        {"isk": Message(family=2, type=1, proto=6, opts=Message(so_priority=6), ip_opts=Message(ttl=64))},
        {"isk": Message(family=10, type=2, proto=17)},
        {"isk": Message(family=2, type=2, proto=1)},
        {"usk": Message(name=b"x.sock", name_dir="/run/x")},
        {"nlsk": Message(protocol=0)},
        {"tfd": Message(clockid=7)},
        {"ify": Message(wd=[Message(f_handle=Message(path="//srv/files"))])},
    ]
    assert outside.strange(Images(files=[Message(type=4, **one) for one in entries])) == []


def test_a_watch_by_number_is_of_this_machines_disks_only() -> None:
    """A folder of the host that is mounted is watched so; a bundle could name any file of the host."""
    images = Images(files=[Message(type=8, ify=Message(wd=[Message(f_handle=Message(handle=[1, 2]))]))])

    assert outside.strange(images) == []
    assert outside.strange(images, foreign=True) == ["watches a file without a path"]


def test_files_without_a_name_are_not_devices() -> None:
    """CRIU makes them again: a session does not have CAP_MKNOD, and its links lead only inside."""
    for mode in (0o100755, 0o040700, 0o010600, 0o140777):
        assert outside.strange(Images(ghost_file_1=[Message(mode=mode)])) == []
    assert outside.strange(Images(ghost_file_1=[Message(mode=0o120777, symlnk_target="/srv/x")])) == []
    for ghost in (
        Message(mode=0o060666, rdev=2048),
        Message(mode=0o020666, rdev=259),
        Message(mode=0o120777, symlnk_target="/proc/self/cwd"),
        Message(mode=0o120777, symlnk_target="../../x"),
    ):
        assert len(outside.strange(Images(ghost_file_1=[ghost]))) == 1


@pytest.mark.parametrize("flags", [os.O_TRUNC, os.O_CREAT, os.O_EXCL | os.O_RDWR, os.O_NOCTTY])
def test_a_file_is_open_without_the_flags_that_made_it(flags: int) -> None:
    """CRIU would empty it, or make it."""
    assert len(outside.strange(Images(files=[_file("/srv/x", flags)]))) == 1


@pytest.mark.parametrize(
    "head",
    [
        {"img_version": 1},
        {"img_version": 3},
        {"ns_per_id": False},
        {"fdinfo_per_id": False},
        {"compress": 1},
        {"tcp_close": True},
        {"plugins_entry": Message(plugins=["amdgpu"])},
    ],
)
def test_images_of_a_different_version_are_not_judged(head: dict[str, Any]) -> None:
    """CRIU reads images of its first version from a different place than the judge."""
    assert len(outside.strange(Images(inventory=[_inventory(**head)]))) == 1


def test_images_without_an_inventory_are_not_judged() -> None:
    """Nor with two."""
    for found in ([], [_inventory(), _inventory()]):
        assert outside.strange(Images(inventory=found)) == ["lacks an inventory of its images"]


@pytest.mark.parametrize("name", SPACES)
def test_namespaces_of_its_own_are_reported(name: str) -> None:
    """CRIU would make them, and run tools to set them up."""
    tree = [Message(pid=5, threads=[])]
    images = Images(pstree=tree, ids_5=[Message(**(SPACES | {name: 99}))])

    assert outside.strange(images) == [f"wants namespaces of its own for process 5: {name[:-6]}"]
    own = Images(pstree=tree, ids_5=[Message(**SPACES, ipc_ns_id=7, time_ns_id=8, cgroup_ns_id=9)])
    assert outside.strange(own) == []
    assert len(outside.strange(Images(pstree=tree, ids_5=[]))) == 1
    twice = Images(pstree=tree, core_5=[Message(ids=Message(), tc=Message(task_state=2))])
    assert len(outside.strange(twice)) == 1


def test_names_that_are_not_utf_8_are_names() -> None:
    """protobuf gives their bytes."""
    assert outside.strange(Images(files=[Message(type=1, reg=Message(name=b"/srv/a\xffb", flags=0))])) == []
    lost = Message(type=1, reg=Message(name=b"/proc/7/root/\xff", flags=0))
    assert len(outside.strange(Images(files=[lost]))) == 1


def test_only_so_much_is_reported() -> None:
    """However much there is."""
    files = [_file(f"/proc/{number}/mem") for number in range(1000)]

    assert len(outside.strange(Images(files=files))) == outside.MOST


def test_filters_are_added_without_a_listener() -> None:
    """SECCOMP_FILTER_FLAG_NEW_LISTENER would have CRIU open one."""
    for flags, told in ((0, 0), (2, 0), (8, 1), (1 << 30, 1)):
        chains = Message(seccomp_filters=[Message(flags=0), Message(flags=flags)])
        assert len(outside.strange(Images(seccomp=[chains]))) == told
