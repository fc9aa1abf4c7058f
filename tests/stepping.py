"""Holds a checkpointer before single system calls, and looks at a hostile session during that time.

`attacks/stepper.c` traces the checkpointer's processes, `attacks/hostile.c` acts as root in the session.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ATTACKS = Path(__file__).parent / "integration" / "attacks"
PLACE = 0x200000000
"""Where the hostile program counts."""
ROUND = 12
"""Acts that are waited for at each call: one round and more."""
LONGEST = 0.03
"""Seconds after which a session that did nothing at all is taken for one that stands still."""
PATIENCE = 240.0
"""Seconds for one command, which takes some on a machine with nothing else to do."""
END_EVERYTHING, STOP_EVERYTHING, TRACE = 1, 2, 3


def compiled(folder: Path, name: str) -> Path:
    """Build an attack that runs on the host."""
    program = folder / name
    source = ATTACKS / f"{name}.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    return program


class Hostile:
    """The program in one container, in the eyes of the host."""

    def __init__(self, init: int) -> None:
        self.mounts = Path(f"/proc/{init}/ns/mnt").readlink()
        # It forks all the time: a child may outlive its parent, and stand alone until it ends.
        found: list[int] = []
        for _ in range(1000):
            inside = [pid for pid in called("hostile") if mounts_of(pid) == self.mounts]
            found = [pid for pid in inside if _parent(pid) not in inside]
            if len(found) == 1:
                break
        (pid,) = found
        self._memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Read it no longer."""
        os.close(self._memory)

    @property
    def acts(self) -> int:
        """How many it has done; -1 if it has ended."""
        return self._word(0)

    @property
    def hits(self) -> int:
        """How often a signal went to a process that it does not know."""
        return self._word(2)

    def order(self, act: int) -> None:
        """Have it do something once."""
        with suppress(OSError):
            os.pwrite(self._memory, struct.pack("Q", act), PLACE + 8)

    def acts_meanwhile(self) -> bool:
        """Give it time for a round; whether it did anything."""
        before = self.acts
        deadline = time.monotonic() + LONGEST
        while 0 <= self.acts < before + ROUND and (self.acts > before or time.monotonic() < deadline):
            if time.monotonic() > deadline + LONGEST:
                break
            time.sleep(0.001)
        return self.acts > before

    def _word(self, index: int) -> int:
        try:
            found = os.pread(self._memory, 8, PLACE + 8 * index)
        except OSError:
            return -1
        return int(struct.unpack("Q", found)[0]) if len(found) == 8 else -1


@dataclass(frozen=True, slots=True)
class Stop:
    """A call before which all is paused that the checkpointer has begun."""

    number: int
    role: str
    pid: int
    call: int
    nth: int


At = Callable[[Stop], bool]
"""What is done at a stop; true if the process that makes the call is to be killed."""


@dataclass(slots=True)
class Stepped:
    """The result of a command: the call where it was held, and the number of calls of each role."""

    stops: list[Stop] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)


class Stepper:
    """Holds calls of the checkpointer with the pid `main`; see stepper.c for how they are chosen."""

    def __init__(
        self,
        program: Path,
        main: int,
        *,
        seed: int = 0,
        rate: int = 0,
        stride: int = 0,
        phase: int = 0,
        late: int = 0,
    ) -> None:
        numbers = [str(number) for number in (main, seed, rate, stride, phase, late)]
        self._process = subprocess.Popen(
            [program, *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._lines = self._read()
        assert next(line for line in self._lines if line != "idle") == "ready"

    def run(self, command: subprocess.Popen[bytes], at: At) -> Stepped:
        """Follow a command to its end, and let go of the checkpointer then."""
        found = Stepped()
        deadline = time.monotonic() + PATIENCE
        assert self._process.stdin is not None
        try:
            for line in self._lines:
                word, *rest = line.split()
                if word == "stop":
                    stop = Stop(int(rest[0]), rest[1], *map(int, rest[2:]))
                    found.stops.append(stop)
                    self._process.stdin.write(b"k" if at(stop) else b"g")
                elif word == "total":
                    found.calls = dict(zip(("worker", "helper", "criu", "task"), map(int, rest), strict=True))
                elif command.poll() is not None:
                    self._process.terminate()
                elif time.monotonic() > deadline:
                    command.kill()
                    raise AssertionError(f"it does not end; held last at {found.stops[-1:]}")
        finally:
            self.close()
        return found

    def close(self) -> None:
        """End it; the kernel releases its traced processes."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> Iterator[str]:
        """Its lines, and "idle" when it has been silent for a moment, until it ends."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        left = b""
        while True:
            if not select.select([descriptor], [], [], 0.05)[0]:
                yield "idle"
                continue
            data = os.read(descriptor, 4096)
            if not data:
                return
            *lines, left = (left + data).split(b"\n")
            yield from (line.decode() for line in lines)


class Canary:
    """A folder of the host with the names that a session's links take there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755)
        (folder / "file").write_bytes(b"host only ".ljust(4096, b"."))
        (folder / "p0").write_bytes(b"host only")
        (folder / "gone").write_bytes(b"host only")
        self._before = self._look()

    def assert_untouched(self) -> None:
        """Nothing in it was made, written, renamed, or given another mode or owner."""
        assert self._look() == self._before

    def _look(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        for path in (self.folder, *sorted(self.folder.rglob("*"))):
            told = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[path.name] = (
                told.st_ino,
                told.st_mode,
                told.st_uid,
                told.st_nlink,
                told.st_ctime_ns,
                content,
            )
        return found


def strangers(mounts: Path | None, container: str) -> list[int]:
    """Processes that are in a container's mounts, and not in its control groups."""
    return [pid for pid in _pids() if mounts_of(pid) == mounts and container not in _groups(pid)]


def freezer_of(pid: int) -> Path:
    """The file that freezes the container of a process."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    places = [
        *(
            Path(f"/sys/fs/cgroup/freezer{path}/freezer.state")
            for _, name, path in lines
            if name == "freezer"
        ),
        *(Path(f"/sys/fs/cgroup{path}/cgroup.freeze") for _, name, path in lines if not name),
    ]
    return next(place for place in places if place.exists())


def is_frozen(init: int) -> bool:
    """Whether the container of that first process is paused."""
    return freezer_of(init).read_text().strip() in ("FROZEN", "FREEZING", "1")


def _pids() -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            yield int(folder.name)


def called(name: str) -> list[int]:
    """Pids of all processes that call themselves so."""
    found = []
    for pid in _pids():
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return sorted(found)


def mounts_of(pid: int) -> Path | None:
    """The mount namespace of a process; None if the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/ns/mnt").readlink()
    return None


def _groups(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cgroup").read_text()
    return ""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
