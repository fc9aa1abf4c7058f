"""Servers of ssh: one `sshd -i` for each connection, which talks over a pair of sockets instead of a port.

Owns the processes, and the files that each of them reads at its beginning. A server has a host key and a list
of keys that it lets in, both given by its starter: nothing of them stays in the session. A capture finds
neither servers nor what hangs on their terminals. Knows nothing of callers and the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from holdfast.base.value_classes import dataclass
from holdfast.procfs.process_stat import Stat
from holdfast.runtime.guest.files import removal
from holdfast.runtime.guest.identity.account import OOM_SCORE, UserAccount, bash
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.origins import Origins
from holdfast.runtime.guest.pulse.process_lineage import Origin

PLACE = Path("/opt/holdfast/ssh")
SEPARATE = Path("/run/sshd")
"""The empty folder that confines the part of sshd that reads what a stranger sends; its path is built in."""
MOST = 32
"""Connections at a time."""
END_SECONDS = 3.0
"""For a server to end whose connection is cut, and then for the shells on its terminals."""
LONGEST_VALUE = 4096
_LOOK = 0.01
_NOT_OURS = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "TERM", "MAIL"})
"""Variables that sshd sets for each user."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_SETTINGS = """\
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/client_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
LoginGraceTime 60
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
AcceptEnv COLORTERM
Subsystem sftp internal-sftp
LogLevel ERROR
"""


class SshNotStarted(Exception):
    """The server was not started. The message says why; `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class SshOrder:
    """A connection: the host's private key, the public keys that open it, its actor and its surroundings.

    `account` is the user that the name `holdfast` stands for; every user gets the `environment`.
    """

    host_key: str
    client_keys: str
    actor: str
    account: UserAccount
    environment: Mapping[str, str]


def settings(folder: Path, environment: Mapping[str, str], parts: Iterable[str]) -> str:
    """Return the configuration of a server; `parts` are the programs in its folder. Pure.

    A variable that could be read as more than one, or is long, is left out.
    """
    said = _SETTINGS.format(folder=folder)
    for part, keyword in (("sshd-session", "SshdSessionPath"), ("sshd-auth", "SshdAuthPath")):
        if part in parts:
            said += f"{keyword} {PLACE / part}\n"
    words = [
        _quoted(f"{name}={value}")
        for name, value in environment.items()
        if name not in _NOT_OURS
        and _VARIABLE.fullmatch(name)
        and value.isprintable()
        and len(value) <= LONGEST_VALUE
    ]
    # Of several lines only the first would count: sshd_config(5).
    return f"{said}SetEnv {' '.join(words)}\n" if words else said


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class SshServer:
    """One server with its end of the connection, which is `link`; to be closed."""

    def __init__(self, order: SshOrder, folder: Path, program: Path) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        folder.mkdir(mode=0o711)
        self.link, theirs = socket.socketpair()
        self.link.setblocking(False)
        try:
            self._write("host_key", order.host_key)
            # Read as the user who comes.
            self._write("client_keys", order.client_keys, 0o644)
            parts = [each.name for each in program.parent.iterdir()]
            self._write("settings", settings(folder, order.environment, parts))
            user = order.account
            with (folder / "said").open("wb") as said:
                self._process = subprocess.Popen(
                    [str(program), "-i", "-e", "-f", str(folder / "settings")],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=said,
                    cwd="/",
                    env={
                        "PATH": os.environ.get("PATH", os.defpath),
                        "HOLDFAST_SSH_USER": user.name,
                        "HOLDFAST_SSH_UID": str(user.uid),
                        "HOLDFAST_SSH_GID": str(user.gid),
                        "HOLDFAST_SSH_HOME": user.home,
                        "HOLDFAST_SSH_SHELL": user.shell or bash(),
                    },
                    start_new_session=True,
                    preexec_fn=_in_child,
                )
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self._process.returncode is not None

    def said(self) -> str:
        """Return the last line of its own log."""
        with contextlib.suppress(OSError):
            lines = (self._folder / "said").read_bytes()[-2000:].decode("utf-8", "replace").splitlines()
            return lines[-1].strip() if lines else ""
        return ""

    def collect(self) -> None:
        """Take note of its end."""
        self._process.wait()

    def began(self) -> None:
        """Remove its configuration, once it has answered."""
        for name in ("host_key", "settings"):
            (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """End the connection immediately, which ends the server."""
        if (number := self.link.fileno()) >= 0:
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
            self.link.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """End the server."""
        if not self.over:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _write(self, name: str, text: str, mode: int = 0o600) -> None:
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)


class SshServers:
    """The servers of a session."""

    def __init__(self, state: Path, reaper: Reaper, origins: Origins) -> None:
        self._folder = state / "ssh"
        self._reaper, self._origins = reaper, origins
        self._running: set[SshServer] = set()
        self._made = 0
        removal.discard(self._folder)

    @property
    def count(self) -> int:
        """The number of servers."""
        return len(self._running)

    def start(self, order: SshOrder, program: Path = PLACE / "sshd") -> SshServer:
        """Start a server.

        Raises:
            SshNotStarted: it was not started; nothing has changed.
        """
        if len(self._running) >= MOST:
            raise SshNotStarted("busy", f"cannot connect by ssh: there are {MOST} connections already")
        if not os.access(program, os.X_OK):
            raise SshNotStarted(
                "no_ssh",
                "cannot connect by ssh: the session's image is older and lacks an ssh server",
            )
        self._made += 1
        try:
            SEPARATE.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o711, exist_ok=True)
            with self._reaper.held():
                server = SshServer(order, self._folder / f"{self._made:06d}", program)
                self._reaper.watch(server.pid, lambda: self._ended(server))
                self._running.add(server)
        except OSError as error:
            raise SshNotStarted("ssh", f"cannot connect by ssh: {error.strerror or error}") from None
        self._origins.own(server.pid, Origin("job", f"ssh-{self._made}", "ssh", order.actor))
        return server

    def _ended(self, server: SshServer) -> None:
        server.collect()
        server.close()
        self._running.discard(server)
        self._origins.disown(server.pid)

    async def cut(self) -> None:
        """End all connections, and wait for their servers and for the shells on their terminals."""
        servers = list(self._running)
        if not servers:
            return
        below = _below({each.pid for each in servers})
        for each in servers:
            each.close()
        await _until(lambda: all(each.over for each in servers))
        for each in servers:
            each.kill()
        await _until(lambda: all(each.over for each in servers))
        # A shell that has lost its terminal ends, after it has sent its children SIGHUP.
        on_terminals = {each.pid: each.start for each in below if each.terminal}
        await _until(lambda: not any(_is_there(pid, start) for pid, start in on_terminals.items()))


async def _until(over: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + END_SECONDS
    while not over() and loop.time() < deadline:
        await asyncio.sleep(_LOOK)


def _below(roots: set[int]) -> list[Stat]:
    """Return the processes that come from these, at any distance."""
    table = [found for pid in access.numbers("/proc") if (found := access.stat(pid)) is not None]
    family, grown = set(roots), True
    while grown:
        more = {each.pid for each in table if each.parent in family}
        grown = not more <= family
        family |= more
    return [each for each in table if each.pid in family]


def _is_there(pid: int, start: float) -> bool:
    found = access.stat(pid)
    return found is not None and found.start == start and not found.ended


def _in_child() -> None:
    # As for programs: ignored signals stay ignored in its children.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
