"""The engine's place, by Docker's own rules: DOCKER_HOST, else a context, else this machine's socket.

A context is a folder below Docker's configuration that names an endpoint and holds its certificates
(`docker context`). Only reads files; connects to nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.base.text import plain
from holdfast.engine import usual_place
from holdfast.engine.usual_place import SOCKET as SOCKET
from holdfast.errors import EngineUnavailable

LOCAL = f"unix://{SOCKET}"
DEFAULT = "default"
"""The context that stands for this machine's socket."""


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """An engine's address, and the context that names it.

    Attributes:
        url: such as unix:///var/run/docker.sock.
        context: the name of the context; empty if it is from DOCKER_HOST or nothing was chosen.
        certificates: the folder with ca.pem, cert.pem and key.pem of a context, if it has one.
        verified: whether the engine's certificate must be valid.
    """

    url: str = LOCAL
    context: str = ""
    certificates: Path | None = None
    verified: bool = True

    @property
    def path(self) -> str:
        """The path of a unix socket; empty for any other address."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else ""

    @property
    def elsewhere(self) -> bool:
        """Whether it is on another machine: over SSH, or TCP to an address that is not this machine's.

        HOLDFAST_REMOTE (`yes` or `no`) decides instead, for addresses that do not show it.
        """
        choice = usual_place.choice()
        return _is_elsewhere(self.url) if choice is None else choice

    @property
    def named(self) -> str:
        """The context for a message, in parentheses; empty without one."""
        return f" (context {plain(self.context, 60)})" if self.context else ""


def find() -> EnginePlace:
    """Return the engine's place.

    Raises:
        EngineUnavailable: a context was chosen that does not exist or cannot be read.
    """
    if host := os.environ.get("DOCKER_HOST"):
        return EnginePlace(host)
    folder = Path(usual_place.folder())
    name = os.environ.get("DOCKER_CONTEXT") or _chosen(folder / "config.json")
    return EnginePlace() if name in ("", DEFAULT) else _context(folder / "contexts", name)


def _chosen(config: Path) -> str:
    """Return the context in use; None without a readable configuration, as in Docker's own client."""
    try:
        found = json.loads(config.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    name = found.get("currentContext") if isinstance(found, dict) else None
    return name if isinstance(name, str) else ""


def _context(folder: Path, name: str) -> EnginePlace:
    shown = plain(name, 60)
    hint = "`docker context ls` lists them; DOCKER_CONTEXT or `docker context use` chooses one"
    key = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    try:
        told: Any = json.loads((folder / "meta" / key / "meta.json").read_bytes())
        endpoint = told["Endpoints"]["docker"]
        host = endpoint.get("Host") or LOCAL
        skips = endpoint.get("SkipTLSVerify") is True
    except FileNotFoundError:
        raise EngineUnavailable(f"cannot reach Docker: unknown context {shown}", hint=hint) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EngineUnavailable(f"cannot reach Docker: context {shown} cannot be read", hint=hint) from error
    if not isinstance(host, str):
        raise EngineUnavailable(f"cannot reach Docker: context {shown} does not have an address", hint=hint)
    certificates = folder / "tls" / key / "docker"
    return EnginePlace(host, name, certificates if certificates.is_dir() else None, not skips)


def _is_elsewhere(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if parts.scheme == "ssh":
        return True
    if parts.scheme not in ("tcp", "http", "https") or not host:
        return False
    try:
        known = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except OSError:
        return True
    return not any(_is_ours(family, address) for family, _, _, _, address in known)


def _is_ours(family: int, address: Any) -> bool:
    """Check by binding a socket to it, which only an address of this machine allows (bind(2))."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as trying:
        trying.bind(address)
        return True
    return False
