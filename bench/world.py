"""The environment of a run: a state directory of its own, the engine; and the promise that nothing
remains.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast import Holdfast, HoldfastError, Session
from holdfast.base import polling
from holdfast.base.interrupts import held
from holdfast.images import build
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.storage import packing_request
from holdfast.snapshots import service

LABEL = "holdfast.bench"
PACKER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class World:
    """A place for measurements. `tell` shows progress."""

    holdfast: Holdfast
    image: str
    home: Path
    tell: Callable[[str], None]

    @property
    def label(self) -> str:
        """The label of containers of this run."""
        return f"{LABEL}={self.home.name}"

    def session(self, name: str) -> Session:
        """Return a new session."""
        return self.holdfast.new(name)

    def docker_run(self) -> None:
        """Run the sessions' image once with `docker run` on the command line, up to the end of `true`."""
        docker("run", "--label", self.label, self.image, "true")

    def sweep(self) -> None:
        """Remove the containers that `docker run` left; it is not part of the measurement."""
        found = docker("ps", "-aq", "--filter", f"label={self.label}").split()
        if found:
            docker("rm", "-f", "-v", *found)

    def await_packer(self) -> None:
        """Wait until no process packs: nothing else may run beside what is measured."""
        polling.until(lambda: not packing_request.at_work(self.holdfast.home), PACKER_SECONDS)

    def forget(self) -> None:
        """Remove all sessions, snapshots and containers there are."""
        for session in self.holdfast.sessions():
            with contextlib.suppress(HoldfastError):
                session.remove()
        for snapshot in reversed(self.holdfast.snapshots()):
            with contextlib.suppress(HoldfastError):
                snapshot.remove()
        self.sweep()


def docker(*arguments: str) -> str:
    """Run the docker command line and return its output.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout


def container_of(session: Session) -> str:
    """Return the name of a session's container."""
    return provision.container_name(session.id)


def put(session: Session, path: str, text: str) -> None:
    """Write a file into a session."""
    made = session.exec(f"cat > {path} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")
    if not made.ok:
        raise RuntimeError(f"cannot write {path} into the session: {made.text}")


@contextmanager
def opened(tell: Callable[[str], None]) -> Iterator[World]:
    """Yield a world for one run; everything in it is removed at the end, however it ends.

    HOLDFAST_BENCH_DIR chooses its file system; it should be one where sessions are kept.
    """
    parent = os.environ.get("HOLDFAST_BENCH_DIR") or "/var/tmp"
    home = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=parent))
    try:
        with Holdfast(home, progress=tell) as holdfast:
            tell("images")
            image = build.ensure(holdfast.engine.images, "session", tell)
            world = World(holdfast, image, home, tell)
            try:
                yield world
            finally:
                tell("cleaning up")
                with held():
                    world.forget()
                    service.stop(holdfast.engine, holdfast.home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def about(world: World, *, quick: bool) -> dict[str, Any]:
    """Return the facts that the figures depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "memory_bytes": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "engine": world.holdfast.engine.version().get("Version"),
        "storage": world.holdfast.engine.info().get("Driver"),
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
