"""One live capture, as seen from the host: files, memory and tmpfs of the same instant.

The checkpointer reports when every process is frozen. Files it does not copy itself are committed from that
point, while memory is written. Nothing is resumed before both are done. Knows no store, and of a session
only its container.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.snapshots.link import CheckpointerLink, LinkLost


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """The result. `frozen_seconds` is how long the session was frozen, as measured by the checkpointer.

    `image_id` is empty unless the engine committed the files in the meantime. `copied_later`: bytes of large
    heaps that were written while it ran again. `short_of_memory`: bytes of those for which memory did not
    suffice, and that were written while it was frozen. `unwritten`: bytes
    that the images of the last capture have.
    """

    image_id: str
    last_pid: int
    frozen_seconds: float
    seconds: float
    copied_later: int = 0
    short_of_memory: int = 0
    unwritten: int = 0


class _Commit:
    """Commits a container's files in a thread of its own, in parallel with writing memory."""

    def __init__(self, commit: Callable[[], str]) -> None:
        self._commit = commit
        self._thread: threading.Thread | None = None
        self._image: str | None = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._run, name="commit")
        self._thread.start()

    def finish(self, *, again: bool) -> str:
        if self._thread is None:
            self.begin()
        assert self._thread is not None
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._image is not None
        # CRIU gave a deleted file its name back while it wrote memory; the first commit may lack it.
        return self._commit() if again else self._image

    def wait(self) -> None:
        """Wait for a commit in progress, whatever its outcome: the engine finishes it."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._image = self._commit()
        except BaseException as error:  # noqa: BLE001 - raised again by finish, in the caller's thread
            self._error = error


def run(
    link: CheckpointerLink,
    check: Callable[[], None],
    commit: Callable[[], str] | None,
    settle: Callable[[CaptureResult], None] | None = None,
    killed: Callable[[int], None] = lambda _: None,
) -> CaptureResult:
    """Follow a capture that was requested over `link` to its end.

    Args:
        link: the connection on which the capture was requested.
        check: called once everything is frozen.
        commit: saves the files then and returns the image's id; it may be called twice. None if the
            checkpointer copies them.
        settle: called when all is captured and the processes are still frozen.
        killed: called with the number of twins (twins.py) that the kernel killed for their memory, if any.

    Raises:
        Refused, LinkLost: the checkpointer failed.
        HoldfastError: `check`, `commit` or `settle` failed. The session continues to run in every case.
    """
    started = time.monotonic()
    work = None if commit is None else _Commit(commit)
    try:
        captured: CaptureResult | None = None
        frozen_at = started
        for event in link.events():
            match event["event"]:
                case "frozen":
                    frozen_at = time.monotonic()
                    check()
                    if work is not None:
                        work.begin()
                case "dumped":
                    image = "" if work is None else work.finish(again=bool(event["files_changed"]))
                    now = time.monotonic()
                    captured = CaptureResult(image, int(event["last_pid"]), now - frozen_at, now - started)
                    if settle is not None:
                        settle(captured)
                    link.decide("go")
                case "twins_killed":
                    killed(int(event["count"]))
                case "done" if captured is not None:
                    return CaptureResult(
                        captured.image_id,
                        int(event["last_pid"]),
                        float(event["frozen_seconds"]),
                        time.monotonic() - started,
                        int(event["copied_later"]),
                        int(event["short_of_memory"]),
                        int(event["unwritten"]),
                    )
        raise LinkLost("cannot continue: the checkpointer ended in the middle of a capture")
    except BaseException:
        link.abandon()  # the files it has written are about to be removed
        raise
    finally:
        link.close()
        if work is not None:
            work.wait()
