"""Snapshots of a session in which nothing has happened, and the events that count as activity."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot

PATIENCE = 120.0


def same_as(snapshot: Snapshot) -> str | None:
    found = snapshot.row.details.get("same_as")
    return None if found is None else str(found)


def rested(session: Session) -> Snapshot:
    """Take a snapshot of the resting session; on a busy machine its kernel can take a while."""
    return until(session, lambda taken: "note" in taken.row.details)


def until(session: Session, fits: Callable[[Snapshot], bool]) -> Snapshot:
    """Take snapshots until one matches, and keep only that one and the previous one."""
    deadline = time.monotonic() + PATIENCE
    before: list[Snapshot] = []
    while True:
        taken = session.snapshot()
        if fits(taken):
            return taken
        assert time.monotonic() < deadline, "the session never rests"
        before = [*before, taken]
        if len(before) > 1:
            before.pop(0).remove()


def container(hf: Holdfast, session: Session) -> Any:
    return hf.engine.client.containers.get(str(session.row.container_id))


def copy_in(hf: Holdfast, session: Session) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("from-outside"))
    container(hf, session).put_archive("/srv", packed.getvalue())


def run_inside(hf: Holdfast, session: Session) -> None:
    assert container(hf, session).exec_run(["sh", "-c", "echo kept > /dev/shm/kept"]).exit_code == 0


HAPPENINGS: list[Callable[[Holdfast, Session], object]] = [
    lambda _hf, session: session.exec("true"),
    lambda _hf, session: session.cell("1 + 1", timeout=60),
    copy_in,
    run_inside,
]


def test_only_activity_costs_a_capture(hf: Holdfast) -> None:
    """An unchanged session costs neither a capture nor pages nor an image; the snapshot outlives the one it
    shares.

    A command, a cell, a file copied in by the engine and a process that came and went are all noticed.
    """
    session = hf.new("parent")
    session.exec("kept=yes")
    assert session.cell("kept = 1", timeout=60).status == "ok"
    again = until(session, lambda taken: same_as(taken) is not None)
    first = hf.snapshot(str(same_as(again)))
    assert (again.parent_id, again.state) == (first.id, "ready")
    assert again.size < 100_000
    assert again.row.image_id == first.row.image_id

    first.remove()
    assert hf.verify().findings == []
    copy = again.restore("copy")
    assert copy.exec("echo $kept").text == "yes\n"
    assert copy.cell("kept + 1", timeout=60).text == "2"

    for happens in HAPPENINGS:
        before = rested(session)
        happens(hf, session)
        after = session.snapshot()
        assert same_as(after) is None, happens
        before.remove()


@pytest.mark.thorough
def test_a_session_that_works_is_captured_each_time(hf: Holdfast) -> None:
    """One that counts, however slowly, and one that waits with a timeout."""
    for work in ("while sleep 0.2; do :; done &", "sleep 100000 &"):
        session = hf.new()
        session.exec(work)
        for _ in range(2):
            taken = session.snapshot()
            assert "note" not in taken.row.details
            assert same_as(taken) is None
