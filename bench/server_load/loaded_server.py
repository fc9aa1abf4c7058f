"""One server under load: started, killed and started again at the same address, and measured.

Knows no client.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench import usage
from bench.server_load.told_acts import Outage

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What the server used at one moment: bytes, counts, and seconds of processor time."""

    at: float
    life: int
    """How often the server had been killed."""
    memory: int
    threads: int
    descriptors: int
    spent: float


class LoadedServer:
    """`holdfast serve` on a home. `url` and `token` stay when it is killed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log = home / "server-load.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = self.token = ""
        self._life = 0
        self.outages: list[Outage] = []
        self.samples: list[Sample] = []

    @property
    def folder(self) -> Path:
        """Its process in /proc."""
        assert self._process is not None
        return Path("/proc", str(self._process.pid))

    def start(self) -> None:
        """Start it and wait until it answers, at the address that it had before.

        Raises:
            RuntimeError: it does not start; what it said is in the error.
        """
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "holdfast", "serve", "--listen", port, "--rate", "0"]
        environment = {**os.environ, "HOLDFAST_HOME": str(self._home)}
        environment.pop("HOLDFAST_TOKEN", None)
        with self._log.open("ab") as errors:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors)
        self._process = process
        assert process.stdout is not None
        told = process.stdout.readline().decode().split()
        if not told:
            raise RuntimeError(f"cannot start the server: {self._log.read_text()[-2000:]}")
        self.url, self.token = told[-1], (self._home / "server-token").read_text().strip()

    async def kill(self) -> None:
        """Kill it with SIGKILL and start it again while clients continue."""
        assert self._process is not None
        killed = time.monotonic()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
        self._closed()
        self._life += 1
        await asyncio.to_thread(self.start)
        self.outages.append(Outage(killed, time.monotonic()))

    def stop(self) -> None:
        """End it as SIGTERM does."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(START_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._closed()

    def errors(self) -> list[str]:
        """Return the lines of its log that tell of a failure of its own."""
        marks = ("Traceback", '"error"', "failed", '"status": 500')
        lines = self._log.read_text(errors="replace").splitlines()
        return [line for line in lines if any(mark in line for mark in marks)]

    def spent(self) -> float:
        """Return the seconds of processor time that it has had."""
        return usage.spent_by(self.folder)

    async def watch(self, every: float) -> None:
        """Take a sample after each `every` seconds, until it is cancelled."""
        while True:
            with suppress(OSError, IndexError):  # it is being killed
                self.samples.append(self._sample())
            await asyncio.sleep(every)

    def _sample(self) -> Sample:
        life = self._life
        threads = sum(1 for _ in (self.folder / "task").iterdir())
        descriptors = sum(1 for _ in (self.folder / "fd").iterdir())
        memory, spent = usage.memory_of(self.folder), self.spent()
        return Sample(time.monotonic(), life, memory, threads, descriptors, spent)

    def _closed(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def served(home: Path) -> Iterator[LoadedServer]:
    """Yield a server of a home, which is ended at the end."""
    made = LoadedServer(home)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextmanager
def probed(server: LoadedServer, file: Path) -> Iterator[None]:
    """Have a process of its own ask for the health of a server, which writes to a file."""
    command = [sys.executable, "-m", "bench.server_load.health_probe", server.url, str(file)]
    environment = {**os.environ, "HOLDFAST_TOKEN": server.token}
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, env=environment, cwd=root, stdin=subprocess.PIPE) as probe:
        try:
            yield
        finally:
            assert probe.stdin is not None
            probe.stdin.close()
            probe.wait(START_SECONDS)


def health(file: Path, outages: list[Outage]) -> list[float]:
    """Return the seconds that answers took; those that a kill cut are not among them."""
    found: list[float] = []
    for line in file.read_text().splitlines():
        asked, seconds = map(float, line.split())
        if not any(each.killed <= asked + seconds and asked <= each.answered for each in outages):
            found.append(seconds)
    return found
