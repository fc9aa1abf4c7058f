"""Verbs: ssh-config, ssh-proxy."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from holdfast.base import private_files
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import context_of, controller
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

PIECE = 64 << 10
LEAVE_SECONDS = 1.0
"""For the client to leave after the session has ended the connection, in which case it wanted that."""


@examples("ssh-config", "ssh-config --install     # then: ssh work.holdfast")
def ssh_config(
    install: bool = option("--install", help="Include it in ~/.ssh/config, once for all sessions."),
) -> None:
    """Print the part of ~/.ssh/config by which `ssh NAME.holdfast` reaches every session of this home.

    It opens no port and asks for no password. It is all that scp, rsync, git and editors need.
    """
    from holdfast.runtime.sessions import ssh_access

    context = context_of(controller(), "ssh-config")
    ssh_access.client_key(context.home)
    root = context.home.root
    python = [sys.executable, "-I", "-m", "holdfast", "ssh-proxy"]
    text = ssh_access.stanza(
        root, ["env", "-u", "HOLDFAST_URL", "-u", "HOLDFAST_TEAM", f"HOLDFAST_HOME={root}", *python]
    )
    if not install:
        printing.say(text.rstrip("\n"))
        return
    kept = root / "ssh" / "config"
    private_files.replace(kept, text)
    if _include(Path.home() / ".ssh", f'Include "{kept}"'):
        printing.note(f"~/.ssh/config includes {kept}; `ssh NAME{ssh_access.DOMAIN}` reaches a session")
    else:
        printing.note(f"{kept} is renewed; ~/.ssh/config included it already")


def _include(folder: Path, line: str) -> bool:
    """Begin a user's configuration with a line, unless it is there; the first value of a setting counts."""
    path = folder / "config"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        path = path.resolve()  # it may be a link to where someone keeps all of theirs
        before = path.read_text() if path.exists() else ""
        if line in before.splitlines():
            return False
        mode = path.stat().st_mode & 0o777 if path.exists() else private_files.MODE
        private_files.replace(path, f"{line}\n\n{before}" if before else f"{line}\n", mode=mode)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidArgument(
            f"cannot change {path}: {why}", hint=f"begin it yourself with the line {line}"
        ) from error
    return True


@examples("ssh-proxy work.holdfast")
def ssh_proxy(
    host: str = argument("NAME.holdfast", help="The session, as ssh calls it."),
) -> None:
    """Join standard input and output to a session's ssh server: ssh starts this."""
    from holdfast.runtime.guest_rpc import session_sockets
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.sessions import ssh_access

    name = ssh_access.session_of(host)
    context = context_of(controller(), "ssh-proxy")
    row = context.session_row(name)
    private, public = ssh_access.host_key(context.store, row.id)
    ssh_access.make_known(context.home, name, public)
    rows = [row]
    channel = SessionChannel(context, lambda: rows[-1], rows.append)
    with session_sockets.ssh_socket(channel, private, ssh_access.client_key(context.home)) as opened:
        if not _joined(opened):
            _explain(context, row)


def _joined(opened: socket.socket) -> bool:
    """Pass bytes on until either end has ended; return whether that was the client."""
    left = threading.Event()

    def send() -> None:
        try:
            while data := os.read(0, PIECE):
                opened.sendall(data)
        except OSError:
            return  # the session has ended it, while the client still sent something
        left.set()
        with suppress(OSError):
            opened.shutdown(2)

    threading.Thread(target=send, name="holdfast-ssh", daemon=True).start()
    with suppress(OSError):
        while data := opened.recv(PIECE):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(1, rest) :]
    return left.wait(LEAVE_SECONDS)


def _explain(context: Context, row: SessionRow) -> None:
    """Tell a person why the session has ended the connection."""
    from holdfast.runtime.sessions import health

    try:
        health.check(context, row.id)
    except HoldfastError as error:
        printing.note(f"the connection to session {row.name} has ended: {error}")
        return
    printing.note(f"the connection to session {row.name} has ended, as with every snapshot; connect again")
