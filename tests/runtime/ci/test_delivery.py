"""The delivery of snapshots that a job leaves, and the time limit of a capture."""

from __future__ import annotations

import select
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.base.home import Home
from holdfast.errors import CaptureFailed, InvalidArgument, StoreError
from holdfast.runtime.api.capture_requests import Asked, Served
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.ci import delivery, job_captures
from holdfast.runtime.ci.delivery import Deliveries, DeliveryTarget
from holdfast.runtime.ci.job_captures import JobCaptures
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.failure import Failure

BOO = Failure(reason="exception", where="tests/a.py::b", message="boo")


@dataclass
class Sent:
    sent: int = 7
    signed_by: str = "ed25519:x"
    pinned: str = "host:1/ci:7@sha256:0"
    warnings: tuple[str, ...] = ("it holds memory",)


@dataclass
class Fake:
    """A snapshot that records the operations on it."""

    id: str = "0123456789ab"
    label: str | None = None
    kind: str = "live"
    size: int = 10 << 20
    failure: Failure | None = BOO
    sent: Sent = field(default_factory=Sent)
    error: StoreError | None = None
    done: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.label or self.id

    def export(self, path: Path, **options: Any) -> Sent:
        return self._go("export", str(path), options)

    def push(self, reference: str, **options: Any) -> Sent:
        return self._go("push", reference, options)

    def pack(self) -> Fake:
        return self

    def remove(self) -> None:
        self.done.append("removed")

    def _go(self, how: str, where: str, options: dict[str, Any]) -> Sent:
        if self.error is not None:
            raise self.error
        self.done.append((how, where, options))
        return self.sent


def snapshot(fake: Fake) -> Snapshot:
    return cast("Snapshot", fake)


def served(fake: Fake | None, error: StoreError | None = None) -> Served:
    asked = Asked(1, "pytest", None, None, BOO)
    return Served(asked, None if fake is None else snapshot(fake), "", error)


def captures(destination: DeliveryTarget, remarks: list[str], size: int | None = None) -> JobCaptures:
    return JobCaptures(Deliveries(destination), lambda given: given, remarks.append, size, 5)


def test_a_delivered_snapshot_is_removed_here(tmp_path: Path) -> None:
    """It is exported with the job's own options, its contents are remarked once, and it is removed."""
    fake, notes = Fake(), list[str]()
    to = DeliveryTarget(tmp_path / "new" / "out", options={"key": "ci"})
    kept = Deliveries(to).deliver(snapshot(fake), "failure", "title", notes.append)
    path = str(tmp_path / "new" / "out" / "failure.holdfast")
    assert fake.done == [("export", path, {"key": "ci"}), "removed"]
    assert (kept.title, kept.thaw, kept.size) == ("title", f"holdfast thaw {path}", 7)
    assert notes == ["it holds memory", delivery.READABLE]


def test_an_impossible_destination_is_reported_in_advance(tmp_path: Path) -> None:
    """An invalid reference, a folder that cannot be made, a missing key; not at the end."""
    home, notes = Home(tmp_path / "home").create(), list[str]()
    with pytest.raises(InvalidArgument):
        DeliveryTarget(reference="not a reference").check(home, notes.append)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make"):
        DeliveryTarget(tmp_path / "file" / "out").check(home, notes.append)
    assert notes == []
    with pytest.raises(InvalidArgument, match="cannot sign"):
        DeliveryTarget(tmp_path / "out", options={"key": "missing"}).check(home, notes.append)
    DeliveryTarget(tmp_path / "out").check(home, notes.append)
    DeliveryTarget(reference="host:5000/ci/app:7").check(home, notes.append)
    DeliveryTarget(options={"key": "missing"}).check(home, notes.append)


def test_a_key_is_made_before_the_job(tmp_path: Path) -> None:
    """The key to trust elsewhere is reported immediately; where nothing leaves, none is made."""
    home, notes = Home(tmp_path / "home").create(), list[str]()
    DeliveryTarget().check(home, notes.append)
    assert Keys(home).known() == []

    for _ in range(2):
        DeliveryTarget(tmp_path / "out").check(home, notes.append)

    (key,) = Keys(home).known()
    (note,) = notes
    assert f"`holdfast key trust {key.public}`" in note


def test_without_a_destination_it_stays_here() -> None:
    """And is thawed by its own name."""
    fake = Fake()
    kept = Deliveries(DeliveryTarget()).deliver(snapshot(fake), "failure", "t", lambda _text: None)
    assert (fake.done, kept.thaw) == ([], f"holdfast thaw {fake.id}")


def test_captures_are_named_on_request_and_delivered_later(tmp_path: Path) -> None:
    """The program gets the name; an undelivered capture stays, and that is reported."""
    remarks: list[str] = []
    asked = captures(DeliveryTarget(tmp_path), remarks)
    first, second = Fake(), Fake(id="1" * 12, error=StoreError("cannot write: no space"))
    assert asked._place(snapshot(first)) == str(tmp_path / "tests-a.py-b.holdfast")
    assert asked._place(snapshot(second)) == str(tmp_path / "tests-a.py-b-2.holdfast")
    assert asked.of_failures
    assert first.done == []
    kept = asked.deliver()
    assert [each.thaw for each in kept] == [
        f"holdfast thaw {tmp_path / 'tests-a.py-b.holdfast'}",
        f"holdfast thaw {second.id}",
    ]
    assert any("no space" in remark for remark in remarks)
    assert asked.deliver() == ()


def test_a_capture_that_is_too_large_or_refused_is_remarked() -> None:
    """It is not kept, and the number of such captures is reported."""
    remarks: list[str] = []
    asked = captures(DeliveryTarget(), remarks, size=1 << 20)
    large = Fake()
    asked._place(snapshot(large))
    asked._captured(served(large))
    asked._captured(served(None, StoreError("cannot capture it: 5 were taken already")))
    assert large.done == ["removed"]
    assert not asked.of_failures
    assert asked.deliver() == ()
    assert remarks == ["2 requested captures were not kept: one takes 10 MiB, more than allowed"]


def test_a_capture_without_a_failure_is_not_a_failure() -> None:
    """A checkpoint that a program requested does not replace the capture of a failed job."""
    asked = captures(DeliveryTarget(), [])
    asked._place(snapshot(Fake(failure=Failure(reason="asked", command="x"))))
    assert not asked.of_failures


def test_a_capture_has_a_limit_of_time() -> None:
    """It ends with an error, as if by Ctrl-C; a timer that ran before runs again."""
    before, limited = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0
    with pytest.raises(CaptureFailed, match=r"more than 0\.05 s"), job_captures.alarm(0.05):
        never()
    assert signal.getsignal(signal.SIGALRM) == before
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == limited
    with job_captures.alarm(60):
        assert signal.getsignal(signal.SIGALRM) != before
    assert signal.getsignal(signal.SIGALRM) == before


def never() -> None:
    """Run without end."""
    while True:
        select.select([], [], [], 60)
