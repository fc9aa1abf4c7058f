"""A tree in CRIU's images, from messages made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.record import ImagesUnreadable
from holdfast.snapshots.checkpointer.record.credentials import MAX_PROGRAMS, programs
from holdfast.snapshots.checkpointer.record.decode import decode
from holdfast.snapshots.checkpointer.record.described import modes
from holdfast.snapshots.checkpointer.record.judged_limits import MAX_THREADS


class Message(SimpleNamespace):
    """A protobuf message as far as it is looked at: fields, and whether they are set."""

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
        return getattr(self, name, None) is not None


class Images:
    """Messages by image; memory by address."""

    def __init__(self, **images: list[Any]) -> None:
        self.images = {name.replace("_", "-"): found for name, found in images.items()}

    def messages(self, name: str) -> list[Any]:
        return self.images.get(name, [])

    def memory(self, pid: int, start: int, size: int) -> bytes:
        if start == 8192:
            return b"PATH=/bin\0API_KEY=TOKEN\0HOME=/x\0GH_TOKEN=\0KEY WITH SPACE=1\0=KEY\0"[:size]
        return b"sleep\x0010\x00"[: size if start else 0]


def core(**changed: Any) -> Message:
    ids = dict.fromkeys(("uid", "euid", "suid", "fsuid", "gid", "egid", "sgid", "fsgid"), 1000)
    creds = {
        **ids,
        "groups": [1000, 4],
        "cap_inh": [0, 0],
        "cap_prm": [1 << 31, 1],
        "cap_eff": [0, 0],
        "cap_bnd": [0xFF, 0],
        "cap_amb": [],
        "no_new_privs": 1,
        "secbits": 0,
    }
    thread = Message(creds=Message(**creds), seccomp_mode=2, seccomp_filter=1, comm="sleep")
    tc = Message(task_state=1, comm="sleep")
    return Message(**{"thread_core": thread, "tc": tc, **changed})


def reg(number: int, path: str, **changed: Any) -> Message:
    return entry(number, reg=Message(name=path, mode=0o100644, flags=0o202001, pos=7, **changed))


def entry(number: int, **described: Any) -> Message:
    return Message(id=number, **described)


def area(start: int, end: int, file: int = 0) -> Message:
    """A part of memory, of a file if that has a number."""
    return Message(start=start, end=end, status=1 << 6 if file else 1 << 9, shmid=file)


def tree(**images: list[Any]) -> Images:
    return Images(
        **{
            "pstree": [Message(pid=301, ppid=0, pgid=301, sid=301, threads=[301])],
            "core_301": [core()],
            "ids_301": [Message(files_id=2)],
            "seccomp": [
                Message(
                    seccomp_filters=[Message(filter=b"a", flags=0), Message(filter=b"b", flags=0, prev=0)]
                )
            ],
            **images,
        }
    )


def test_the_rights_of_a_thread() -> None:
    """Ids in the kernel's order, words of capabilities as one number, the chain of filters oldest first."""
    [process] = decode(tree())["processes"]
    [thread] = process["threads"]

    assert thread["uids"] == [1000] * 4
    assert thread["groups"] == [4, 1000]
    assert thread["permitted"] == (1 << 31) + (1 << 32)
    assert (thread["no_new_privs"], thread["seccomp"], thread["filters"]) == (True, 2, 2)
    # CRIU names the container's filter, and with it the one that was added to it.
    [containers, own] = thread["filter_digests"]
    assert programs([Message(filter=b"b", flags=0)]) == {containers: "Yg=="}
    assert programs([Message(filter=b"a", flags=0)]) == {own: "YQ=="}


def test_a_chain_of_filters_that_leads_nowhere_or_round_ends() -> None:
    """Numbers in an image are not trusted to refer to it; an endless chain is refused."""
    for previous in (0, 1, 7):
        circle = [
            Message(
                seccomp_filters=[Message(filter=b"a", flags=0), Message(filter=b"", flags=0, prev=previous)]
            )
        ]
        circle[0].seccomp_filters[0].prev = previous
        with pytest.raises(ImagesUnreadable, match="precedes itself"):
            decode(tree(seccomp=circle))
    assert decode(tree(seccomp=[]))["processes"][0]["threads"][0]["filters"] == 0


def test_a_long_chain_of_filters_is_counted_and_told_in_part() -> None:
    """Each thread has the whole of it: 4096 digests for each of 100 000 threads fit into no memory."""
    chain = [Message(filter=b"a", flags=0)] + [Message(filter=b"b", flags=0, prev=at) for at in range(3000)]
    long = core()
    long.thread_core.seccomp_filter = 3000
    [process] = decode(tree(seccomp=[Message(seccomp_filters=chain)], core_301=[long]))["processes"]
    [thread] = process["threads"]

    assert thread["filters"] == 3001
    assert thread["filter_digests"] == list(programs([Message(filter=b"b", flags=0)])) * MAX_PROGRAMS


@pytest.mark.parametrize(
    "pstree",
    [
        [(301, [301]), (301, [301])],
        [(301, [301, 302, 302])],
        [(301, [301, 302]), (303, [303, 302])],
        [(301, range(301, 301 + MAX_THREADS + 1))],
    ],
    ids=["a process twice", "a thread twice", "a thread of two", "too many threads"],
)
def test_a_tree_with_duplicate_entries_is_refused(pstree: list[tuple[int, list[int]]]) -> None:
    """A list of ten million times the same thread is small in an image, and takes days to describe."""
    told = [Message(pid=pid, ppid=0, pgid=301, sid=301, threads=threads) for pid, threads in pstree]
    with pytest.raises(ImagesUnreadable):
        decode(tree(pstree=told))


def test_descriptors_have_descriptions() -> None:
    """Files with path and offset, terminals with end and number, pipes by the first who has them."""
    files = [
        reg(1, "/etc/passwd"),
        entry(2, pipe=Message(pipe_id=9, flags=1)),
        entry(3, pipe=Message(pipe_id=9, flags=0)),
        entry(4, tty=Message(tty_info_id=5, flags=2)),
        entry(6, fifo=Message(pipe_id=9, regf_id=7)),
        reg(7, "/srv/fifo"),
        entry(8, reg=Message(name="/srv/link", mode=0o120777, flags=0o10000000, pos=0)),
        entry(10, usk=Message(id=10, name=b"\0a\0b\0", type=1, state=10)),
    ]
    infos = [
        Message(id=1, type=1, fd=0, flags=1),
        Message(id=2, type=2, fd=4, flags=0),
        Message(id=3, type=2, fd=3, flags=0),
        Message(id=4, type=11, fd=5, flags=0),
        Message(id=99, type=77, fd=6, flags=0),
        Message(id=6, type=3, fd=7, flags=0),
        Message(id=8, type=1, fd=8, flags=0),
        Message(id=10, type=5, fd=9, flags=0),
    ]
    about: dict[str, Any] = {
        "pty": Message(index=3),
        "termios": Message(c_iflag=1, c_oflag=2, c_cflag=3, c_lflag=4, c_cc=[0x04030201] * 19),
        "winsize": Message(ws_row=24, ws_col=80),
    }
    # The slave was found in a process of another session, and does not name its own.
    ttys = [
        Message(id=5, rdev=0x8803, sid=0, pgrp=0, **about),
        Message(id=7, rdev=0x502, sid=301, pgrp=302, **about),
    ]
    images = tree(
        files=files, fdinfo_2=infos, tty_info=ttys, remap_fpath=[Message(orig_id=1, remap_id=1, remap_type=1)]
    )
    told = decode(images)
    found = {one["fd"]: one for one in told["processes"][0]["descriptors"]}

    assert (found[0]["kind"], found[0]["what"], found[0]["offset"]) == ("file", "/etc/passwd", 7)
    assert (found[0]["cloexec"], found[0]["deleted"], found[0]["flags"]) == (True, True, 0o2001)
    assert (found[3]["what"], found[4]["what"]) == ("301/3", "301/3")
    assert (found[5]["kind"], found[5]["what"]) == ("terminal", "slave 3")
    assert (found[6]["kind"], found[6]["what"]) == ("other", "")
    assert (found[7]["kind"], found[7]["what"], found[7]["flags"]) == ("fifo", "301/7", 0o2001)
    assert (found[8]["kind"], found[8]["offset"]) == ("link", None)
    assert [one["local"] for one in told["sockets"]] == ["@a@b@"]
    assert [(one["session"], one["foreground"]) for one in told["terminals"]] == [(301, 302)]


def test_a_long_name_that_is_open_often_is_reported_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small image must not ask for memory many times over; omitted ones are counted."""
    monkeypatch.setattr("holdfast.snapshots.checkpointer.record.decode.MAX_NAMES", 1000)
    infos = [Message(id=1, type=1, fd=fd, flags=0) for fd in range(30)]
    told = decode(tree(files=[reg(1, "/" + "x" * 99)], fdinfo_2=infos))

    assert len(told["processes"][0]["descriptors"]) == 10
    assert told["left_out"] == 20


def test_more_groups_than_can_be_judged_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread can be in 65536, and a session can have thousands of threads."""
    monkeypatch.setattr("holdfast.snapshots.checkpointer.record.decode.MAX_GROUPS", 3)
    pstree = [Message(pid=pid, ppid=0, pgid=301, sid=301, threads=[pid]) for pid in (301, 302)]
    with pytest.raises(ImagesUnreadable, match="groups"):
        decode(tree(pstree=pstree, core_302=[core()]))


def test_more_mapped_files_than_can_be_judged_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore looks at each different file once, and at no more than these."""
    monkeypatch.setattr("holdfast.snapshots.checkpointer.record.decode.MAX_MAPPED", 2)
    mm = Message(
        mm_arg_start=0,
        mm_arg_end=0,
        mm_env_start=0,
        mm_env_end=0,
        exe_file_id=1,
        dumpable=1,
        vmas=[area(0, 4096), area(4096, 8192, 7), area(8192, 12288, 7), area(12288, 16384, 8)],
    )
    assert decode(tree(mm_301=[mm]))["left_out"] == 0
    mm.vmas.append(area(16384, 20480, 9))
    assert decode(tree(mm_301=[mm]))["left_out"] == 1


def test_a_named_pipe_has_the_flags_of_its_path() -> None:
    """CRIU keeps them with an entry for the path, which the pipe's own names."""
    path = Message(name="/run/pipe", mode=0o010600, flags=2, pos=0)
    files = [
        entry(1, fifo=Message(pipe_id=9, regf_id=2)),
        entry(2, reg=path),
        entry(3, fifo=Message(pipe_id=9, regf_id=99)),
    ]
    infos = [Message(id=1, type=3, fd=3, flags=0), Message(id=3, type=3, fd=4, flags=0)]
    told = decode(tree(files=files, fdinfo_2=infos))["processes"][0]["descriptors"]
    assert [(one["kind"], one["flags"]) for one in told] == [("fifo", 2), ("fifo", 0)]


def test_modes_leave_out_the_covered_screen() -> None:
    """Nineteen control characters; of the words behind them nothing is known."""
    one = Message(c_iflag=1, c_oflag=2, c_cflag=3, c_lflag=4, c_cc=[1, 2, 3, 4, 5, 6])
    other = Message(c_iflag=1, c_oflag=2, c_cflag=3, c_lflag=4, c_cc=[1, 2, 3, 4, 0x99000005, 7, 8])
    assert modes(one) == modes(other)


def test_a_zombie_has_no_rights_and_no_descriptors() -> None:
    """Only that it is there, and whose child."""
    [process] = decode(tree(core_301=[core(tc=Message(task_state=2, comm="gone"))]))["processes"]
    assert (process["state"], process["threads"], process["descriptors"]) == ("zombie", [], [])


def test_the_command_is_read_from_the_memory_in_the_images() -> None:
    """In the kernel's own place; of variables only names, and only of possible secrets."""
    mm = Message(
        mm_arg_start=4096,
        mm_arg_end=4105,
        mm_env_start=8192,
        mm_env_end=8300,
        exe_file_id=1,
        dumpable=1,
        vmas=[area(0, 8192), area(0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000)],
    )
    [process] = decode(tree(mm_301=[mm], files=[reg(1, "/usr/bin/sleep")]))["processes"]
    assert process["command"] == "sleep 10"
    assert process["secrets"] == ["API_KEY", "GH_TOKEN"]
    assert (process["executable"], process["memory"], process["mappings"]) == ("/usr/bin/sleep", 8192, 1)
