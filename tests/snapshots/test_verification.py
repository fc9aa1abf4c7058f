"""Deviations of a restored tree from the captured one, and the permitted ones."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.snapshots import verification
from holdfast.snapshots.record import (
    RecordedDescriptor,
    RecordedFile,
    RecordedProcess,
    RecordedSocket,
    RecordedTerminal,
    RecordedThread,
    RecordedTree,
    StateRecord,
)

THREAD = RecordedThread(
    tid=301,
    uids=(0, 0, 0, 0),
    gids=(0, 0, 0, 0),
    inheritable=0,
    permitted=1,
    effective=1,
    bounding=1,
    ambient=0,
    no_new_privs=False,
    seccomp=2,
    filters=1,
)
FILE = RecordedDescriptor(fd=3, kind="file", what="/srv/a", offset=10, flags=1)
PROCESS = RecordedProcess(
    pid=301, ppid=0, pgid=301, sid=301, state="alive", name="sh", threads=[THREAD], descriptors=[FILE]
)
SOCKET = RecordedSocket(id="301/4", kind="tcp", state="listening", local="127.0.0.1", local_port=80)
TERMINAL = RecordedTerminal(index=0, session=301, foreground=301, modes="1 2", rows=24, columns=80)
TREE = RecordedTree(processes=[PROCESS], sockets=[SOCKET], terminals=[TERMINAL])


def with_process(**changed: Any) -> RecordedTree:
    return TREE.model_copy(update={"processes": [PROCESS.model_copy(update=changed)]})


def with_file(**changed: Any) -> RecordedTree:
    return with_process(descriptors=[FILE.model_copy(update=changed)])


def texts(found: RecordedTree, given: RecordedTree = TREE) -> list[str]:
    return [str(one) for one in verification.restored(given, found).deviations]


def test_the_same_is_the_same() -> None:
    """Nothing deviates, and the compared items are counted."""
    found = verification.restored(TREE, TREE)
    assert found.exact
    assert found.compared == {"processes": 1, "threads": 1, "descriptors": 1, "sockets": 1, "terminals": 1}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (RecordedTree(processes=[], sockets=[SOCKET]), "process: process 301: sh is missing"),
        (with_process(ppid=1), "process: process 301: ppid was 0, is 1"),
        (with_process(threads=[]), "process: process 301: thread 301 is missing"),
        (with_process(state="zombie"), "process: process 301: was alive, is zombie"),
        (
            with_process(threads=[THREAD.model_copy(update={"effective": 3})]),
            "credentials: process 301: effective was 0x1, is 0x3",
        ),
        (with_file(offset=0), "descriptor: process 301: 3 was at offset 10, is at 0"),
        (with_file(what="/srv/b"), "descriptor: process 301: 3 led to /srv/a, leads to /srv/b"),
        (with_file(kind="pipe"), "descriptor: process 301: 3 was a file, is a pipe"),
        (with_process(descriptors=[]), "descriptor: process 301: 3 (file /srv/a) is missing"),
        (
            TREE.model_copy(update={"sockets": []}),
            "socket: process 301: tcp 127.0.0.1 port 80 (listening) is gone",
        ),
        (
            TREE.model_copy(update={"terminals": [TERMINAL.model_copy(update={"rows": 40})]}),
            "terminal: process 301: 0: rows was 24, is 40",
        ),
    ],
)
def test_differences_are_reported(found: RecordedTree, said: str) -> None:
    """The process, the earlier value, and the present one."""
    assert said in texts(found)


def test_changes_made_by_every_restore_are_not_deviations() -> None:
    """A deleted file has a new name, a closed socket is in no table, an accepted connection has no path.

    A removed folder has a second name next to its own.
    """
    stood, stands = with_process(directory="/srv/b"), with_process(directory="/srv/.holdfast-removed-3")
    assert texts(stands, stood) == []
    assert texts(stands, with_process(directory="/other/b")) != []
    gone = with_file(deleted=True)
    assert texts(with_file(deleted=True, what="/srv/a.cr.1.ghost"), gone) == []
    closed = TREE.model_copy(update={"sockets": [SOCKET.model_copy(update={"state": "closed"})]})
    assert texts(TREE.model_copy(update={"sockets": []}), closed) == []
    accepted = RecordedSocket(id="301/5", kind="unix stream", state="", local="/run/x")
    given = TREE.model_copy(update={"sockets": [accepted]})
    found = TREE.model_copy(update={"sockets": [accepted.model_copy(update={"local": ""})]})
    assert texts(found, given) == []


def test_filters_of_other_content_are_others() -> None:
    """As many of them are not enough; the kernel does not show their content, images do."""
    one = with_process(threads=[THREAD.model_copy(update={"filter_digests": ["a"]})])
    other = with_process(threads=[THREAD.model_copy(update={"filter_digests": ["b"]})])
    assert [d.about for d in verification.images(StateRecord(tree=one), other)] == ["credentials"]
    assert texts(TREE, one) == []


def test_contents_are_compared_where_they_are_known() -> None:
    """Contents skipped at the freeze are reported as skipped."""
    record = StateRecord(
        tree=TREE,
        files=[
            RecordedFile(path="/a", size=1, digest="x"),
            RecordedFile(path="/b", size=1, digest="y"),
            RecordedFile(path="/c", skipped="it is too large"),
        ],
    )
    found = verification.contents(record, {"/a": [1, "x"], "/b": [1, "z"]})
    assert [str(one) for one in found.deviations] == ["content: /b differs from the capture"]
    assert found.compared == {"files": 2}
    assert found.skipped == ["content of /c: it is too large"]


def test_names_of_a_kernel() -> None:
    """Missing names, and names of a new type; a cell can have made new ones."""
    found = verification.names(
        "main", {"a": "1", "b": "2", "d": "NoneType"}, {"b": "3", "c": "4", "d": "int"}
    )
    assert [one.text for one in found] == [
        "main: names are gone: a",
        "main: names have an unexpected type: b",
    ]


def test_a_result_is_bounded() -> None:
    """A thousand deviations are counted, not listed."""
    many = [verification.Deviation(about="x", pid=0, text="y")] * 1000
    found = verification.Verification().plus(deviations=many)
    assert (len(found.deviations), found.more) == (100, 900)
