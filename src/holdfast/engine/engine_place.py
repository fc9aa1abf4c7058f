"""Where the engine is, by Docker's own rules: DOCKER_HOST, else a context, else this machine's socket.

A context is a folder below Docker's configuration that names an endpoint and holds its certificates
(`docker context`). Only reads files; connects to nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import EngineUnavailable

LOCAL = "unix:///var/run/docker.sock"
DEFAULT = "default"
"""The context that stands for this machine's socket."""


@dataclass(frozen=True, slots=True)
class EnginePlace:
    """An engine's address, and the context it is from.

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
    def named(self) -> str:
        """The context for a message, in parentheses; empty without one."""
        return f" (context {plain(self.context, 60)})" if self.context else ""


def find() -> EnginePlace:
    """Return where the engine is.

    Raises:
        EngineUnavailable: a context was chosen that does not exist or cannot be read.
    """
    if host := os.environ.get("DOCKER_HOST"):
        return EnginePlace(host)
    folder = Path(os.environ.get("DOCKER_CONFIG") or _home() / ".docker")
    name = os.environ.get("DOCKER_CONTEXT") or _chosen(folder / "config.json")
    return EnginePlace() if name in ("", DEFAULT) else _context(folder / "contexts", name)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an account
        return Path("/")


def _chosen(config: Path) -> str:
    """Return the context in use; none if there is no readable configuration, as for Docker's own client."""
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
        raise EngineUnavailable(f"cannot reach Docker: there is no context {shown}", hint=hint) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EngineUnavailable(f"cannot reach Docker: context {shown} cannot be read", hint=hint) from error
    if not isinstance(host, str):
        raise EngineUnavailable(f"cannot reach Docker: context {shown} has no address", hint=hint)
    certificates = folder / "tls" / key / "docker"
    return EnginePlace(host, name, certificates if certificates.is_dir() else None, not skips)
