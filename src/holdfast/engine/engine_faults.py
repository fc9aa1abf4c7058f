"""Errors of the Docker SDK, translated into errors of this package.

The SDK is imported when an error occurs: commands that need no engine should not pay for it.
"""

from __future__ import annotations

import functools
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from holdfast.base.text import plain
from holdfast.errors import EngineError, EngineUnavailable, HoldfastError, ImageError

START_HINT = "start it (`systemctl start docker`), or point DOCKER_HOST or a Docker context at one that runs"
SILENT_HINT = "it hangs or is overloaded; running sessions continue without it"
PERMISSION_HINT = "join the group of its socket, or run as root"
CERTIFICATES_HINT = (
    "ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, or those of the context, must be for this engine"
)
ELSEWHERE_HINT = (
    "the command `holdfast` works with it from here; run programs that use the API on its machine"
)

FULL_HINT = (
    "make room there: `docker system df` shows what uses the space; `holdfast rmi` and `gc` work without room"
)

_FULL_WORDS = ("no space left on device", "disk quota exceeded", "you don't have enough free space in")
"""The last is apt's."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn errors of the SDK in the block into errors of this package: "cannot <what>: …"."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        if not isinstance(error, tuple(kind for kind, _ in table())):
            raise
        raise translate(error, what) from error


@functools.cache
def table() -> tuple[tuple[type[Exception], type[EngineError | ImageError]], ...]:
    """Return the SDK's errors with ours, from the particular to the general."""
    import docker.errors
    import requests.exceptions
    import urllib3.exceptions

    return (
        (docker.errors.ImageNotFound, ImageError),
        (docker.errors.ImageLoadError, ImageError),
        (docker.errors.BuildError, ImageError),
        (docker.errors.APIError, EngineError),
        (requests.exceptions.ConnectionError, EngineUnavailable),
        (requests.exceptions.RequestException, EngineError),
        (urllib3.exceptions.HTTPError, EngineError),
        (docker.errors.StreamParseError, EngineError),
        (docker.errors.DockerException, EngineError),
    )


def translate(error: Exception, what: str) -> EngineError | ImageError:
    """Return this package's error for an error of the SDK."""
    kind = next(ours for theirs, ours in table() if isinstance(error, theirs))
    if fault := _distrust(error):
        return EngineUnavailable(f"cannot {what}: {fault}", hint=CERTIFICATES_HINT)
    if kind is EngineUnavailable or _refused(error):
        why = "permission denied" if "Permission" in str(error) else "no Docker engine answers"
        hint = PERMISSION_HINT if why.startswith("permission") else START_HINT
        return EngineUnavailable(f"cannot {what}: {why}", hint=hint)
    if _silent(error):
        return EngineUnavailable(f"cannot {what}: the Docker engine does not answer", hint=SILENT_HINT)
    text = getattr(error, "explanation", None) or str(error)
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return said(kind, what, str(text))


Kind = TypeVar("Kind", bound=EngineError | ImageError)


def said(kind: type[Kind], what: str, text: str, hint: str = "") -> Kind:
    """Return the error for a message of the engine: "cannot <what>: …"."""
    if is_full(f"{text} {hint}"):
        return kind(f"cannot {what}: the engine's disk is full", hint=FULL_HINT)
    return kind(f"cannot {what}: {plain(_brief(text), 300)}", hint=hint)


def is_full(text: str) -> bool:
    """Check whether a message of the engine or of a build step reports a full disk or quota."""
    return any(words in text.lower() for words in _FULL_WORDS)


def is_lost_start(text: str) -> bool:
    """Check whether a container's first process ended before the runtime had set it up.

    runc then finds the pipe to it closed ("write init-p: broken pipe", libcontainer/sync.go). It happens on a
    machine that is short of time, and says nothing about the container.
    """
    return "runtime" in text and "init-p: broken pipe" in text


def unmounted(text: str) -> str:
    """Return the place in a container that its runtime could not mount; empty for any other error.

    The words are runc's (libcontainer/rootfs_linux.go).
    """
    found = re.search(r'error mounting "[^"]*" to rootfs at "(/[^"]*)"', text)
    return plain(found[1], 200) if found is not None else ""


def is_lost_unpacking(text: str) -> bool:
    """Check whether the process in which the engine unpacks a layer was killed.

    It is the engine's own (`docker-untar`, chrootarchive of moby). That says nothing about the layer: the
    kernel may end it when memory is short.
    """
    return "processing tar file(signal: killed)" in text


def _distrust(error: Exception) -> str:
    """Return why TLS failed; empty if it did not."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            reason = getattr(seen, "verify_message", "") or seen.reason or str(seen)
            return f"TLS with it failed: {plain(reason, 200)}"
        seen = seen.__cause__ or seen.__context__
    return ""


def _silent(error: Exception) -> bool:
    """Check whether no answer came in time, which the SDK wraps when it asks for the engine's version."""
    import docker.errors
    import requests.exceptions

    seen: BaseException | None = None if isinstance(error, docker.errors.APIError) else error
    while seen is not None and not isinstance(seen, requests.exceptions.Timeout):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def _refused(error: Exception) -> bool:
    """Check for a refused connection, which the SDK wraps when it asks for the engine's version."""
    import docker.errors
    import requests.exceptions

    # The context of an answer is whatever its caller was handling.
    seen: BaseException | None = None if isinstance(error, docker.errors.APIError) else error
    while seen is not None:
        if isinstance(seen, (ConnectionRefusedError, FileNotFoundError, PermissionError)):
            return True
        if isinstance(seen, requests.exceptions.ConnectionError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _brief(text: str) -> str:
    """Return the engine's own message, without the prefix of the software that passed it on."""
    return re.sub(r"^(Error response from daemon: )", "", text.strip())
