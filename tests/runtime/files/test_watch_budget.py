"""The memory of a server's watches is measured, and has limits that the session does not decide."""

from __future__ import annotations

import json
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.runtime.files import watch_budget
from holdfast.runtime.files.file_tree import FileTree, WatchedChange, change_weight
from holdfast.runtime.files.file_watch import FileWatch
from holdfast.runtime.files.session_file import SessionFile, listed_in
from holdfast.runtime.files.watch_budget import TooManyWatches, WatchBudget, WatchShare
from holdfast.runtime.guest.wire.protocol import Frame, encode
from holdfast.runtime.guest_rpc.guest_client import Connection
from holdfast.runtime.guest_rpc.session_channel import SessionChannel

MIB = 1 << 20


def told(name: str, kind: str = "file", **more: Any) -> dict[str, Any]:
    """Return a file as a session reports it."""
    facts = {"name": name, "kind": kind, "size": 10**9, "mode": 0o644, "mtime_ns": 1_700_000_000 * 10**9}
    version = f"40:1234567:{1_700_000_000 * 10**9}:{1_700_000_000 * 10**9}"
    return facts | {"uid": 1000, "gid": 1000, "version": version} | more


def many(count: int, name: Callable[[int], str], **more: Any) -> list[SessionFile]:
    return listed_in(json.loads(json.dumps([told(name(n), **more) for n in range(count)])), set())


def plain(tree: FileTree) -> None:
    for begin in range(0, 5000, 1000):
        files = many(1000, lambda n, begin=begin: f"file-{begin + n:08d}.txt")  # type: ignore[misc]
        list(tree.replace("", files, more=begin < 4000))


def wide(tree: FileTree) -> None:
    """With names, targets and versions of characters that take the most room."""
    texts = {"kind": "link", "target": "\U0001f600" * 1000, "version": "\U0001f600" * 200}
    list(tree.replace("", many(1000, lambda n: f"{n:04d}" + "\U0001f600" * 60, **texts), more=False))


def deep(tree: FileTree) -> None:
    """Folders in one another: each is found by all of its path."""
    at = ""
    for _ in range(40):
        list(tree.replace(at, many(40, lambda n: f"{n:02d}" + "x" * 90, kind="folder"), more=False))
        at = f"{at}/00{'x' * 90}".lstrip("/")


@pytest.mark.parametrize("fill", [plain, wide, deep], ids=lambda one: one.__name__)
def test_counted_sizes_are_never_too_small(fill: Callable[[FileTree], None]) -> None:
    """And not several times that; whatever names a session gives."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tree = FileTree()
        fill(tree)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken > 200_000
    assert taken <= tree.bytes < 3 * taken
    for name in list(tree._folders[""]):
        list(tree.change("", name, None))
    assert tree.bytes == 0
    assert list(tree._folders) == [""]


def test_a_name_that_is_reported_twice_counts_once() -> None:
    tree = FileTree()
    for _ in range(3):
        list(tree.replace("", many(10, str), more=True))
    list(tree.replace("", [], more=False))
    once = FileTree()
    list(once.replace("", many(10, str), more=False))
    assert tree.bytes == once.bytes


def test_changes_that_wait_are_counted() -> None:
    changes: list[WatchedChange] = []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        changes += (WatchedChange("removed", f"/srv/{n:05d}/" + "é" * 50) for n in range(2000))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken <= sum(map(change_weight, changes))


def test_one_session_leaves_room_for_others_and_all_have_a_limit() -> None:
    budget = WatchBudget(most=10 * MIB, most_of_session=4 * MIB)
    greedy = [budget.begin("greedy") for _ in range(3)]
    greedy[0].hold(3 * MIB)
    greedy[1].hold(MIB)
    with pytest.raises(TooManyWatches, match="one session can hold at most 4 MiB"):
        greedy[2].hold(1)
    greedy[0].hold(2 * MIB)
    greedy[2].hold(MIB)
    others = [budget.begin(name) for name in ("a", "b")]
    others[0].hold(4 * MIB)
    with pytest.raises(TooManyWatches, match="all watches can hold at most 10 MiB"):
        others[1].hold(3 * MIB)
    assert budget.bytes == 8 * MIB
    for each in (*greedy, *others):
        each.close()
        each.close()
        each.hold(99 * MIB)  # its thread has not heard of that yet
    assert budget.bytes == 0


def test_callers_with_a_sandboxs_token_have_few_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_budget, "MOST_BY_SANDBOX", 12)
    budget = WatchBudget()
    held = [budget.begin("one", by_sandbox=True) for _ in range(8)]
    with pytest.raises(TooManyWatches, match="8 watches of the sandbox"):
        budget.begin("one", by_sandbox=True)
    budget.begin("one")  # the server's own token is another matter
    held += [budget.begin("two", by_sandbox=True) for _ in range(4)]
    assert budget.is_full
    with pytest.raises(TooManyWatches):
        budget.begin("three", by_sandbox=True)
    held[0].close()
    assert not budget.is_full
    with budget.begin("one", by_sandbox=True):
        assert budget.is_full
    assert not budget.is_full


class Reporting:
    """The end of a session that reports what a test says, to one watch after the other."""

    def __init__(self) -> None:
        self._far: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self.reports: Iterator[list[tuple[str, dict[str, Any]]]] = iter(())

    def open(self, *_: Any, **__: Any) -> Connection:
        near, self._far = socket.socketpair()
        said = ((kind, json.dumps(payload).encode()) for kind, payload in next(self.reports))
        data = b"".join(encode(Frame({"event": kind}, payload)) for kind, payload in said)
        self._threads.append(threading.Thread(target=_send, args=(self._far, data), daemon=True))
        self._threads[-1].start()
        return Connection(near)

    def watch(self, share: WatchShare, **how: Any) -> FileWatch:
        reconnection = SimpleNamespace(again=None, run=lambda work: work())
        line = SimpleNamespace(
            reconnection=lambda: reconnection,
            explained=nullcontext,
            client=lambda: SimpleNamespace(open=self.open),
        )
        return FileWatch(cast(SessionChannel, line), "/w", share=share, **how)

    def close(self) -> None:
        if self._far is not None:
            self._far.close()
        for each in self._threads:
            each.join(60)


def _send(far: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # the watch reads no more
        far.sendall(data)


def report(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the frames that report that many files, a hundred in each."""
    parts: list[tuple[str, dict[str, Any]]] = [
        ("folder", {"at": "", "more": True, "files": [told(f"{at + n:06d}") for n in range(100)]})
        for at in range(0, count, 100)
    ]
    return [("content", {"path": "/w"}), *parts, ("folder", {"at": "", "files": []}), ("watched", {})]


@pytest.fixture
def session() -> Iterator[Reporting]:
    found = Reporting()
    yield found
    found.close()


def test_a_watch_holds_its_share_until_it_is_closed(session: Reporting) -> None:
    budget = WatchBudget()
    session.reports = iter([report(1000)])
    with session.watch(budget.begin("one")):
        assert 1000 * 500 < budget.bytes < 1000 * 1000
    assert budget.bytes == 0


def test_a_report_beyond_the_budget_ends_the_watch_and_frees_it(session: Reporting) -> None:
    """While it is read, and not when all of it is there: a session can report without end."""
    budget = WatchBudget(most_of_session=MIB)
    other = budget.begin("one")
    other.hold(MIB // 2)
    session.reports = iter([report(5000)])
    with pytest.raises(TooManyWatches):
        session.watch(budget.begin("one"))
    assert budget.bytes == MIB // 2
    other.close()
    assert budget.bytes == 0
