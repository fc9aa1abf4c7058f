"""A connection to an engine on another machine: through SSH, or with TLS.

Ends with the block. Knows nothing of what is asked of the engine.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from holdfast.base import ssh_command
from holdfast.base.text import plain
from holdfast.engine.engine import Engine
from holdfast.engine.engine_place import SOCKET, EnginePlace
from holdfast.errors import EngineUnavailable, InvalidArgument

_OPTIONS = (
    *("-n", "-N", "-T"),
    *("-o", "ExitOnForwardFailure=yes"),
    *ssh_command.ALIVE,
)
_LOOK_SECONDS = 0.02
_PATIENCE_SECONDS = 120.0
"""For a login; ssh itself gives up earlier on a machine that does not answer."""


@contextmanager
def connected(place: EnginePlace, environment: Mapping[str, str] = os.environ) -> Iterator[Engine]:
    """Connect to the engine.

    Raises:
        EngineUnavailable: no engine answers there, or the login failed.
        InvalidArgument: the address is not one, or HOLDFAST_SSH is not a command.
    """
    if not place.url.lower().startswith("ssh://"):
        engine = Engine.reach(place)
        try:
            yield engine
        finally:
            engine.close()
        return
    with _forwarded(place, environment) as path:
        engine = Engine.reach(EnginePlace(f"unix://{path}"))
        try:
            yield engine
        finally:
            engine.close()


def forwarding(place: EnginePlace, local: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the command that forwards a local socket to the engine's, as ssh://[USER@]HOST[:PORT][/SOCKET].

    Raises:
        InvalidArgument: the address is not one, or HOLDFAST_SSH is not a command.
    """
    try:
        parts = urlsplit(place.url)
        port, host = parts.port, parts.hostname
    except ValueError:
        port = host = None
    user = parts.username if host else None
    if not host or host.startswith("-") or (user or "").startswith("-") or parts.password:
        raise InvalidArgument(
            f"cannot reach Docker: its address is not one for ssh{place.named}",
            hint="ssh://[USER@]HOST[:PORT], or with the engine's socket behind it: ssh://HOST/run/docker.sock",
        )
    return [
        *(ssh_command.chosen(environment) or ["ssh"]),
        *_OPTIONS,
        *("-L", f"{local}:{socket_of(place)}"),
        *(("-p", str(port)) if port else ()),
        *(("-l", user) if user else ()),
        host,
    ]


def socket_of(place: EnginePlace) -> str:
    """Return the path of the engine's socket on its machine."""
    path = urlsplit(place.url).path if place.url.lower().startswith("ssh://") else ""
    return SOCKET if path in ("", "/") else path


@contextmanager
def _forwarded(place: EnginePlace, environment: Mapping[str, str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, tempfile.TemporaryFile() as errors:
        local = Path(folder) / "engine"
        command = forwarding(place, local, environment)
        try:
            # Apart from the terminal, or Ctrl-C would end the connection before what it is for.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
            )
        except OSError as error:
            why = f"{plain(command[0], 60)} cannot be run: {error.strerror}"
            raise EngineUnavailable(
                f"cannot reach Docker: {why}",
                hint=f"install OpenSSH, or name a different command in {ssh_command.SSH}",
            ) from error
        try:
            _wait(process, local, place, errors)
            yield local
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], local: Path, place: EnginePlace, errors: IO[bytes]) -> None:
    """Wait until ssh listens, which it does when it has logged in."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as trying:
            trying.connect(str(local))
            return
        time.sleep(_LOOK_SECONDS)
    errors.seek(0)
    said = [line for line in plain_lines(errors.read(4096)) if line]
    why = said[-1] if said else "ssh did not log in"
    raise EngineUnavailable(
        f"cannot reach Docker over SSH{place.named}: {why}",
        hint="`ssh HOST docker version` must work without a question (a key in an agent, a known host)",
    )


def plain_lines(said: bytes) -> list[str]:
    """Return what a program wrote, by lines without control characters."""
    return [plain(line, 300).strip() for line in said.decode("utf-8", "replace").splitlines()]
