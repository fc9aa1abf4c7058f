"""One live capture, seen from the host: files, memory and tmpfs of the same instant.

The checkpointer says when every process stands still; the files are committed from then on, while memory
is written. Nothing is let go before both are done. Knows no store and no sessions beyond a container.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.snapshots.link import Link, LinkLost


@dataclass(frozen=True, slots=True)
class Captured:
    """What came out. `frozen_seconds` is how long the session stood still, as the checkpointer saw it."""

    image_id: str
    last_pid: int
    frozen_seconds: float
    seconds: float


class _Commit:
    """Commits a container's files in a thread of its own, so that memory is written meanwhile."""

    def __init__(self, commit: Callable[[], str]) -> None:
        self._commit = commit
        self._thread: threading.Thread | None = None
        self._image: str | None = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._run, name="commit")
        self._thread.start()

    def finish(self) -> str:
        if self._thread is None:
            self.begin()
        assert self._thread is not None
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._image is not None
        return self._image

    def wait(self) -> None:
        """Wait for a commit under way, whatever comes of it: the engine finishes what it was asked for."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._image = self._commit()
        except BaseException as error:  # noqa: BLE001 - raised again by finish, in the caller's thread
            self._error = error


def run(link: Link, commit: Callable[[], str], settle: Callable[[Captured], None] | None = None) -> Captured:
    """Follow a capture that was asked for over `link` to its end.

    `commit` keeps the files and returns the image's id; it may be called twice. `settle`, if given, runs
    when all is captured and the processes still stand still: if it raises, they go on.

    Raises:
        Refused, LinkLost: the checkpointer failed.
        HoldfastError: of `commit` or `settle`. The session runs on in every case.
    """
    started = time.monotonic()
    work = _Commit(commit)
    try:
        captured: Captured | None = None
        frozen_at = started
        for event in link.events():
            match event["event"]:
                case "frozen":
                    frozen_at = time.monotonic()
                    work.begin()
                case "dumped":
                    captured = _kept(work, commit, event, frozen_at, started)
                    if settle is not None:
                        settle(captured)
                    link.decide("go")
                case "done" if captured is not None:
                    return Captured(
                        captured.image_id,
                        int(event["last_pid"]),
                        float(event["frozen_seconds"]),
                        time.monotonic() - started,
                    )
        raise LinkLost("cannot go on: the checkpointer ended in the middle of a capture")
    finally:
        link.close()
        work.wait()


def _kept(
    work: _Commit, commit: Callable[[], str], event: dict[str, Any], frozen_at: float, started: float
) -> Captured:
    image = work.finish()
    if event["files_changed"]:
        # CRIU gave a deleted file its name back while it wrote memory; the first commit may lack it.
        image = commit()
    now = time.monotonic()
    return Captured(image, int(event["last_pid"]), now - frozen_at, now - started)
