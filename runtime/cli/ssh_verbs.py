"""Verbs: ssh-config, ssh-proxy."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from holdfast.base import private_files
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import acting_at, controller, is_over_a_url
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from holdfast.base.home import Home

PIECE = 64 << 10
LEAVE_SECONDS = 1.0
"""For the client to leave after the session has ended the connection, in which case it wanted that."""


@examples("ssh-config", "ssh-config --install     # then: ssh work.holdfast")
def ssh_config(
    install: bool = option("--install", help="Include it in ~/.ssh/config, once for all sessions."),
    domain: str | None = option(
        "--domain", metavar="NAME", help="End of the sessions' names in place of `holdfast`, such as `build`."
    ),
) -> None:
    """Print the part of ~/.ssh/config by which `ssh NAME.holdfast` reaches every session of this home.

    It opens no port and asks for no password. It is all that scp, rsync, git and editors need. With
    HOLDFAST_URL it reaches the sessions of that server, with the key of `holdfast login`, or the token or
    key in HOLDFAST_TOKEN when ssh is started.
    """
    from holdfast.base.home import Home
    from holdfast.runtime.client import client_address
    from holdfast.runtime.sessions import ssh_access

    end, home = ssh_access.domain_of(domain), _home()
    ssh_access.client_key(home)
    root, url = home.root, os.environ.get("HOLDFAST_URL")
    where = ["-u", "HOLDFAST_URL", "-u", "HOLDFAST_TEAM"]
    if url:
        client_address.address_of(url)  # refuses what is not one, and a server without a token
        team = Home.team_named()
        where = [f"HOLDFAST_URL={url}", *([f"HOLDFAST_TEAM={team}"] if team else ["-u", "HOLDFAST_TEAM"])]
        where.sort(key=lambda word: "=" in word)  # the options of env(1) come first
    python = [sys.executable, "-I", "-m", "holdfast", "ssh-proxy"]
    named = [] if end == ssh_access.DOMAIN else ["--domain", end]
    text = ssh_access.stanza(root, ["env", *where, f"HOLDFAST_HOME={root}", *python, *named], end)
    if not install:
        printing.say(text.rstrip("\n"))
        return
    kept = root / "ssh" / ("config" if end == ssh_access.DOMAIN else f"config{end}")
    private_files.replace(kept, text)
    if _include(Path.home() / ".ssh", f'Include "{kept}"'):
        printing.note(f"~/.ssh/config includes {kept}; `ssh NAME{end}` reaches a session")
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
    domain: str | None = option("--domain", metavar="NAME", help="End of the name, as for `ssh-config`."),
) -> None:
    """Join standard input and output to a session's ssh server: ssh starts this."""
    from holdfast.runtime.sessions import ssh_access

    end = ssh_access.domain_of(domain)
    name = ssh_access.session_of(host, end)
    if is_over_a_url():
        _over_a_url(name, end)
    else:
        _here(name, end)


def _over_a_url(name: str, end: str) -> None:
    from holdfast.runtime.client import client_address
    from holdfast.runtime.client.ssh_stream import SshStream
    from holdfast.runtime.sessions import ssh_access

    home, url = _home(), os.environ["HOLDFAST_URL"]
    key = ssh_access.client_key(home)
    with SshStream(client_address.address_of(url), name, key, acting_at(url)) as stream:
        ssh_access.make_known(home, name, ssh_access.checked_key(stream.host_key), end)
        if why := stream.joined(0, 1):
            printing.note(why)


def _here(name: str, end: str) -> None:
    from holdfast.runtime.guest_rpc import session_sockets
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.sessions import health, ssh_access

    context = controller().context
    row = context.session_row(name)
    private, public = ssh_access.host_key(context.store, row.id)
    ssh_access.make_known(context.home, name, public, end)
    rows = [row]
    channel = SessionChannel(context, lambda: rows[-1], rows.append)
    with session_sockets.ssh_socket(channel, private, ssh_access.client_key(context.home)) as opened:
        if not _joined(opened):
            printing.note(health.why_cut(context, row))


def _home() -> Home:
    """Return the home whose keys this machine's clients of ssh have, of a server's sessions as well."""
    from holdfast.base.home import Home

    return Home.own().create() if is_over_a_url() else controller().home


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
