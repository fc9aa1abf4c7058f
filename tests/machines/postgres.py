"""A real PostgreSQL: an installed one, or Debian's, unpacked; run as an ordinary user with files of its own.

It listens on a socket in its folder, and on addresses only if asked to. It can be stopped, killed, frozen,
copied, and a copy of it can take over as a standby does.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from tests.machines.unpacked import program

PATIENCE = 60.0
USER, PASSWORD = "holdfast", "correct horse"
_NOBODY = 65534
_PROGRAMS: dict[str, Path] = {}
# It refuses to run as root.
_AS_NOBODY = (
    ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups") if os.geteuid() == 0 else ()
)


class Postgres:
    """A server of PostgreSQL, ended and removed on leaving.

    `durable` waits for the disk at each commit, as users' servers do; without, the tests are faster, and
    only a crash of the whole machine would lose anything.
    """

    def __init__(self, *, listen: Sequence[str] = (), durable: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hf-pg-", dir="/tmp"))  # a socket's path must be short
        self.data = self.folder / "data"
        self.durable, self.listen = durable, tuple(listen)
        self.port = _free_port() if listen else 5432
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(self.folder, _NOBODY, _NOBODY)
        self.folder.chmod(0o711)  # others reach the socket, and nothing else
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb",
            *("-D", self.data, "-U", USER, "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync"),
            *("--pwfile", secret, "-E", "UTF8", "--locale=C"),
        )
        for address in self.listen:
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {address.rpartition('.')[0]}.0/24 scram-sha-256\n")

    @classmethod
    def copy_of(cls, other: Postgres) -> Postgres:
        """Return a stopped server with the data of a stopped one: a standby that has received that
        position."""
        made = cls.__new__(cls)
        made.folder = Path(tempfile.mkdtemp(prefix="hf-pg-", dir="/tmp"))
        made.data = made.folder / "data"
        made.durable, made.listen, made.port, made._process = other.durable, (), 5432, None
        made.folder.chmod(0o711)
        shutil.copytree(other.data, made.data)
        if os.geteuid() == 0:
            for path in (made.folder, made.data, *made.data.rglob("*")):
                os.chown(path, _NOBODY, _NOBODY)
        return made

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    @property
    def dsn(self) -> str:
        """The address of its database, over the socket in its folder."""
        return f"postgresql:///postgres?host={self.folder}&port={self.port}&user={USER}"

    def dsn_at(self, address: str) -> str:
        """Return the address of its database for another machine, with the password in it."""
        return f"postgresql://{USER}:{PASSWORD.replace(' ', '%20')}@{address}:{self.port}/postgres"

    @property
    def processor_seconds(self) -> float:
        """The processor time of its processes so far, of those that have ended included."""
        assert self._process is not None
        pid, ticks = self._process.pid, 0
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15] if each == pid else fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {
            "listen_addresses": ",".join(self.listen),
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self.durable else "off",
            "max_connections": "100",
            "jit": "off",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        command = [_program("postgres"), "-D", self.data, *(f"-c{k}={v}" for k, v in options.items())]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_AS_NOBODY, *map(str, command)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        until = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise AssertionError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.1)

    def promote(self) -> None:
        """Start it as a standby that takes over: data that it did not receive is lost, on a new timeline."""
        (self.data / "standby.signal").touch(mode=0o600)
        if os.geteuid() == 0:
            os.chown(self.data / "standby.signal", _NOBODY, _NOBODY)
        self.start()
        self._run("pg_ctl", "promote", "-w", "-D", self.data)

    def stop(self) -> None:
        """Stop it, as its administrator does: connections end, and everything is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it abruptly, as the loss of its machine does."""
        self._end(signal.SIGQUIT)

    def freeze(self) -> None:
        """Stop it from doing anything, without closing a connection."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it continue."""
        self._signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._signal(signal.SIGCONT)
        self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._process = None

    def _signal(self, what: signal.Signals) -> None:
        assert self._process is not None
        # Its processes each have a group of their own, and are its children.
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in (self._process.pid, *map(int, children)):
            try:
                os.kill(pid, what)
            except ProcessLookupError:
                continue

    def _run(self, name: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [*_AS_NOBODY, _program(name), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
            cwd="/",
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _program(name: str) -> Path:
    """Return a program of the newest PostgreSQL that is installed, or of Debian's, which is unpacked."""
    if name not in _PROGRAMS:
        installed = sorted(
            Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
        )
        folder = installed[-1].parent if installed else _unpacked()
        _PROGRAMS.update({path.name: path for path in folder.iterdir()})
    return _PROGRAMS[name]


def _unpacked() -> Path:
    version = re.search(r"Depends: (postgresql-(\d+))", _asked("apt-cache", "depends", "postgresql"))
    assert version, "cannot find PostgreSQL: it is neither installed nor among this system's packages"
    needed = _asked("apt-cache", "depends", "--recurse", "-i", "--no-suggests", "--no-recommends", version[1])
    libraries = {
        name for name in re.findall(r"^(lib[\w.+-]+)$", needed, re.M) if not re.match("libllvm|libperl", name)
    }
    installed = set(_asked("dpkg-query", "-W", "-f", "${Package}\n").split())
    server = f"usr/lib/postgresql/{version[2]}/bin/initdb"
    return program(server, version[1], *sorted(libraries - installed)).parent


def _asked(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _environment() -> dict[str, str]:
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    tree = _PROGRAMS["initdb"].parents[4] if "initdb" in _PROGRAMS else Path("/")
    if tree != Path("/"):
        folders = sorted(str(path) for path in tree.glob("usr/lib/*-linux-*"))
        environment["LD_LIBRARY_PATH"] = ":".join(folders)
    return environment


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
