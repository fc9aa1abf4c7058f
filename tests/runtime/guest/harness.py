"""Starts a real supervisor on this machine, and speaks its protocol with it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from holdfast.runtime.guest.wire.protocol import VERSION, Frame, FrameReader, encode

PATIENCE = 60.0
SESSION = "0123456789ab"
"""The id of the session, as a home has it that lies in the folder `h`."""
MARKS = Path(__file__).parents[3] / "images" / "session" / "bash_marks.c"
_ids = itertools.count()


class Refused(Exception):
    """An error event."""

    def __init__(self, head: dict[str, Any]) -> None:
        super().__init__(head["message"])
        self.code: str = head["code"]


class Connection:
    """One request and its events."""

    def __init__(self, path: Path, op: str, payload: bytes = b"", **args: Any) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        self._reader = FrameReader()
        self._frames: list[Frame] = []
        try:
            self._socket.connect(str(path))
            self.send(op, payload, **{"v": VERSION, **args})
        except OSError:
            self.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, op: str, payload: bytes = b"", **args: Any) -> None:
        self._socket.sendall(encode(Frame({"op": op, **args}, payload)))

    def next(self) -> Frame | None:
        while not self._frames:
            data = self._socket.recv(1 << 20)
            if not data:
                return None
            self._frames = self._reader.feed(data)
        return self._frames.pop(0)

    def arrived(self) -> Frame | None:
        """Return the next frame if it has arrived."""
        return self.next() if self._frames or select.select([self._socket], [], [], 0)[0] else None

    def frames(self) -> Iterator[Frame]:
        while frame := self.next():
            if frame.event == "error":
                raise Refused(frame.head)
            yield frame
            if frame.end:
                return

    def until(self, event: str) -> Frame:
        for frame in self.frames():
            if frame.event == event:
                return frame
        raise AssertionError(f"the connection ended before {event}")

    def until_output(self, wanted: bytes) -> bytes:
        """Collect output until it contains the wanted bytes."""
        seen = b""
        for frame in self.frames():
            if frame.event == "output":
                seen += frame.payload
                if wanted in seen:
                    return seen
        raise AssertionError(f"the connection ended before {wanted!r}; there was {seen!r}")

    def joined(self) -> socket.socket:
        """Wait until it is joined to a port, and return the socket that carries the server's bytes."""
        self.until("connected")
        self._socket.sendall(b"\n")
        return self._socket

    def close(self) -> None:
        self._socket.close()


class Result:
    """The result of an exec."""

    def __init__(self, frames: list[Frame]) -> None:
        self.frames = frames
        self.output = b"".join(frame.payload for frame in frames if frame.event == "output")
        self.finished = frames[-1].head

    def __getattr__(self, name: str) -> Any:
        return self.finished[name]


class Guest:
    """A running supervisor."""

    def __init__(
        self, marks: Path, home: dict[str, str] | None = None, code: Path | None = None, **identity: Any
    ) -> None:
        """Start one. `home` are files of the user's home, `identity` the facts that the host writes.

        `code` has the packages of a different version.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="hf-"))
        self.run = self.folder / "h" / "run" / SESSION / "room" / "shared"
        self.run.mkdir(parents=True)
        (self.folder / "h").chmod(0o700)
        self.code = code
        (self.run / "session.json").write_text(json.dumps(identity))
        self.home = self.folder / "home"
        self.home.mkdir()
        for name, text in (home or {}).items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)
        (self.folder / "work").mkdir()
        self.marks = marks
        self.socket = self.run / "guest.sock"
        self._connections: list[Connection] = []
        self.process = self._start()
        self.wait_for_socket()

    def restart(self) -> None:
        """End the supervisor with all processes it started, and start a new one on the same files."""
        self._end()
        self.process = self._start()
        self.wait_for_socket()

    def words(self) -> list[str]:
        """Return the command line."""
        options = {"run": self.run, "state": self.folder / "state", "workspace": self.folder / "work"}
        options["hooks"] = self.folder / "hooks"
        source = "from holdfast.runtime.guest.supervisor import main; main()"
        named = (f"--{key}={value}" for key, value in options.items())
        return [sys.executable, "-c", source, *named, f"--marks={self.marks}"]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words(),
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                **({} if self.code is None else {"PYTHONPATH": str(self.code)}),
                "HOME": str(self.home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
        )

    def wait_for_socket(self) -> None:
        """Wait until the supervisor listens: the socket's appearance is the event."""
        while self.process.poll() is None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket))
                return
            os.sched_yield()
        raise AssertionError(f"the supervisor ended: {self.log()}")

    def log(self) -> str:
        path = self.folder / "state" / "supervisor.log"
        return path.read_text() if path.exists() else ""

    def call(self, op: str, payload: bytes = b"", **args: Any) -> Connection:
        connection = Connection(self.socket, op, payload, **args)
        self._connections.append(connection)
        return connection

    def ask(self, op: str, payload: bytes = b"", **args: Any) -> list[Frame]:
        with self.call(op, payload, **args) as connection:
            return list(connection.frames())

    def begin(self, command: str | bytes, **args: Any) -> Connection:
        """Start a command and wait until it runs."""
        connection = self._exec(command, **args)
        connection.until("started")
        return connection

    def exec(self, command: str | bytes, **args: Any) -> Result:
        with self._exec(command, **args) as connection:
            return Result(list(connection.frames()))

    def shell(self) -> dict[str, Any]:
        state: dict[str, Any] = self.ask("hello")[0].head["shells"][0]
        return state

    def cell(self, code: str, **args: Any) -> Connection:
        return self.call("cell", code.encode(), **{"id": f"cell{next(_ids)}", **args})

    def run_cell(self, code: str, **args: Any) -> list[Frame]:
        with self.cell(code, **args) as connection:
            return list(connection.frames())

    def prepare(self) -> dict[str, Any]:
        """Ask for the pause of a capture, and wait until the connection is closed."""
        with self.call("prepare") as connection:
            head = connection.until("prepared").head
            assert connection.next() is None
        return head

    def wake(self, **told: Any) -> None:
        """End the pause with the host's notice."""
        path = self.run / "wake.new"
        path.write_text(json.dumps(told))
        path.rename(self.run / "wake.json")
        self.wait_for_socket()

    def pause_and_wake(self) -> None:
        """Do what a capture does."""
        self.wake(token=self.prepare()["token"], event="resumed")

    def open_files(self) -> list[str]:
        """Return the supervisor's open files. A descriptor that is closed during the listing is not open."""
        links = []
        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                links.append(str(descriptor.readlink()))
        return links

    def stop(self) -> None:
        for connection in self._connections:  # a test that failed leaves some
            connection.close()
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[int]:
        """Return the processes that it has started, and theirs: the home of each is in its folder."""
        mark, found = f"HOME={self.home}".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found

    def _end(self) -> None:
        """End it, and its remains: in a session the container would end them, here nothing would."""
        self.process.terminate()
        self.process.wait(PATIENCE)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _exec(self, command: str | bytes, **args: Any) -> Connection:
        payload = command.encode() if isinstance(command, str) else command
        return self.call("exec", payload, **{"id": f"exec{next(_ids)}", **args})


def compile_marks(folder: Path, source: Path = MARKS) -> Path:
    """Compile the builtin as the image does."""
    library = folder / "bash_marks.so"
    command = [
        "gcc",
        "-O2",
        "-shared",
        "-fPIC",
        "-Wl,-z,nodelete,-z,now",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        library,
        source,
    ]
    subprocess.run([str(word) for word in command], check=True)
    return library
