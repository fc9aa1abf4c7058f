"""Permitted rights of processes of a session, and excessive ones."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.snapshots.record import RecordedProcess, RecordedThread, RecordedTree
from holdfast.snapshots.snapshot_policy import CAPABILITIES, ProcessPolicy, judge, judge_running

CHOWN, SYS_ADMIN = 1, 1 << CAPABILITIES.index("SYS_ADMIN")
POLICY = ProcessPolicy.of(["CHOWN", "KILL"])


def thread(**changed: Any) -> RecordedThread:
    sets = dict.fromkeys(("bounding", "permitted", "effective"), CHOWN)
    ids = {"uids": (0, 0, 0, 0), "gids": (0, 0, 0, 0)}
    return RecordedThread(
        **{
            "tid": 301,
            **ids,
            **sets,
            "inheritable": 0,
            "ambient": 0,
            "no_new_privs": False,
            "seccomp": 2,
            "filters": 1,
            **changed,
        }
    )


def tree(*threads: RecordedThread, init: RecordedThread | None = None, **changed: Any) -> RecordedTree:
    process = {"pid": 301, "ppid": 0, "pgid": 301, "sid": 301, "state": "alive", "name": "sh", **changed}
    return RecordedTree(processes=[RecordedProcess(**process, threads=list(threads))], init=init)


def said(of: RecordedTree, policy: ProcessPolicy = POLICY) -> str:
    return "; ".join(map(str, judge(of, policy)))


def test_capabilities_have_the_kernels_numbers() -> None:
    """The first, one in the middle, and the last that is known."""
    numbers = [CAPABILITIES.index(name) for name in ("CHOWN", "SYS_ADMIN", "CHECKPOINT_RESTORE")]
    assert numbers == [0, 21, 40]


def test_rights_of_a_session_are_allowed() -> None:
    """Any ids, fewer capabilities, more filters."""
    assert said(tree(thread(uids=(1000, 0, 0, 0), permitted=0, effective=0, filters=3))) == ""


@pytest.mark.parametrize("which", ["bounding", "permitted", "effective", "inheritable", "ambient"])
def test_no_set_can_have_more_capabilities(which: str) -> None:
    """A set that is not in effect now can come into effect."""
    assert said(tree(thread(**{which: CHOWN | SYS_ADMIN}))) == (
        f"process 301 (sh) has more {which} capabilities than a session: SYS_ADMIN"
    )


@pytest.mark.parametrize("changed", [{"seccomp": 0}, {"seccomp": 1}, {"filters": 0}])
def test_no_task_is_without_the_filter(changed: dict[str, int]) -> None:
    """Neither none at all, nor a mode that says strict, nor a chain of none."""
    assert "seccomp filters" in said(tree(thread(), thread(tid=302, **changed)))


def test_one_thread_is_enough_and_is_reported_once() -> None:
    """All threads are looked at."""
    more = [thread(tid=number, effective=SYS_ADMIN) for number in range(302, 310)]
    assert said(tree(thread(), *more)).count("SYS_ADMIN") == 1


def test_a_process_without_rights_is_not_one_with_few() -> None:
    """It would get what its image leaves out from the process that restores it. A zombie needs none."""
    assert "does not declare" in said(tree())
    assert said(tree(state="zombie")) == ""
    assert "it is missing" in said(RecordedTree(processes=[]))


def test_unknown_fields_are_not_allowed() -> None:
    """Numbers that are not ids; processes beyond the limits."""
    assert "an invalid id" in said(tree(thread(uids=(2**32 - 1, 0, 0, 0))))
    assert "too many" in said(tree(thread()).model_copy(update={"left_out": 1}))


def test_no_process_has_more_rights_than_the_containers_first() -> None:
    """Whatever the policy says beforehand; without that process nothing runs."""
    strict = thread(bounding=0, filters=2, no_new_privs=True)
    found = "; ".join(map(str, judge_running(tree(thread(), init=strict), POLICY)))
    assert "CHOWN" in found
    assert "1 of the 2 seccomp filters" in found
    assert "no_new_privs" in found
    assert judge_running(tree(thread(), init=thread()), POLICY) == []
    assert [str(one) for one in judge_running(tree(thread()), POLICY)] == ["process 1 (init) is gone"]


def test_nothing_leads_out_of_the_container() -> None:
    """Foreign namespaces, and open files beyond the container's mounts."""
    assert "own mnt, pid" in said(tree(thread(), outside=["mnt", "pid", "time", "ipc"]))
    assert said(tree(thread(), outside=["time", "ipc", "cgroup"])) == ""
    assert "descriptor 7 (/etc/shadow)" in said(tree(thread(), foreign=["descriptor 7 (/etc/shadow)"]))


def test_every_label_is_the_containers_first_processes() -> None:
    """The engine decides a session's AppArmor or SELinux confinement; in images no label is known."""
    confined = thread(label="docker-default (enforce)")
    same = tree(confined, init=confined)
    assert judge_running(same, POLICY) == []
    for label, words in (("unconfined", "'unconfined'"), ("", "''")):
        found = tree(confined, thread(tid=302, label=label), init=confined)
        assert [str(one) for one in judge_running(found, POLICY)] == [
            f"process 301 (sh) has the security label {words}, not the session's 'docker-default (enforce)'"
        ]
        assert judge(found, POLICY) == []
    assert "'docker-default (enforce)', not the session's ''" in "; ".join(
        map(str, judge_running(tree(confined, init=thread()), POLICY))
    )
