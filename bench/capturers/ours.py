"""Holdfast itself: the heap is in the kernel, the ticker and the counter are jobs of the shell."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.capturers.capturer import INSIDE, Taken
from bench.rounds import timed
from bench.world import World, put
from holdfast import Session, Snapshot


class Ours:
    """A session."""

    name = "Holdfast"

    def __init__(self, world: World) -> None:
        self._world = world
        self._session: Session | None = None
        self._snapshot: Snapshot | None = None
        self._restored: list[Session] = []

    def begin(self, heap: int) -> None:
        """Start a session whose kernel holds the heap."""
        session = self._session = self._world.session("subject")
        program = "ticker" if heap else "counter"
        put(session, f"/tmp/{program}.py", (INSIDE / f"{program}.py").read_text())
        session.exec(f"python3 /tmp/{program}.py & until [ -s /tmp/{program}.pid ]; do sleep 0.01; done")
        if heap and session.cell(f"import os; heap = os.urandom({heap}); len(heap)").text != str(heap):
            raise RuntimeError("cannot fill the kernel's heap")

    def shell(self, command: str) -> str:
        """Run a command in the session."""
        assert self._session is not None
        return self._session.exec(command).text

    def capture(self) -> Taken:
        """Take a live snapshot."""
        assert self._session is not None
        started = time.perf_counter()
        self._snapshot = self._session.snapshot()
        seconds = time.perf_counter() - started
        size = self._snapshot.pack().size
        self._world.await_packer()
        return Taken(seconds, size, float(self._snapshot.row.details["frozen_seconds"]))

    def restore(self) -> tuple[float, Callable[[str], str]]:
        """Restore the last snapshot, up to the end of `true`."""
        assert self._snapshot is not None
        started = time.perf_counter()
        made = self._snapshot.restore()
        made.exec("true")
        seconds = time.perf_counter() - started
        self._restored.append(made)
        return seconds, lambda command: made.exec(command).text

    def read_heap(self) -> float:
        """Read a byte of each page of the heap restored last; return seconds.

        Memory that is loaded on demand is loaded by then.
        """
        made = self._restored[-1]
        return timed(lambda: made.cell("len(heap[::4096])"))

    def fork(self, count: int) -> float:
        """Fork the last snapshot, up to the end of `true` in each; return seconds."""

        def fork() -> None:
            assert self._snapshot is not None
            self._restored += self._snapshot.fork(count)
            for made in self._restored:
                made.exec("true")

        return timed(fork)

    def drop(self) -> None:
        """Remove the sessions that were restored, and the snapshot."""
        self.drop_restored()
        if self._snapshot is not None:
            self._snapshot.remove()
            self._snapshot = None

    def drop_restored(self) -> None:
        """Remove the sessions that were restored."""
        while self._restored:
            self._restored.pop().remove()

    def end(self) -> None:
        """Remove session and snapshot."""
        self.drop()
        if self._session is not None:
            self._session.remove()
            self._session = None

    def remove(self) -> None:
        """Do nothing: there is nothing else to remove."""
        self.end()
