"""What the Docker SDK raises, as errors of this package.

The table is ordered from the particular to the general; a test checks that nothing the SDK can raise is
missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import docker.errors
import requests.exceptions
import urllib3.exceptions

from holdfast.base.text import plain
from holdfast.engine.engine import PERMISSION_HINT, START_HINT
from holdfast.errors import EngineError, EngineUnavailable, HoldfastError, ImageError

TABLE: tuple[tuple[type[Exception], type[EngineError | ImageError]], ...] = (
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


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the SDK raises while doing `what` into an error "cannot <what>: …"."""
    try:
        yield
    except HoldfastError:
        raise
    except tuple(kind for kind, _ in TABLE) as error:
        raise translate(error, what) from error


def translate(error: Exception, what: str) -> EngineError | ImageError:
    """The error of this package that says what the SDK's error says."""
    kind = next(ours for theirs, ours in TABLE if isinstance(error, theirs))
    if kind is EngineUnavailable or _refused(error):
        why = "permission denied" if "Permission" in str(error) else "no Docker engine answers"
        hint = PERMISSION_HINT if why.startswith("permission") else START_HINT
        return EngineUnavailable(f"cannot {what}: {why}", hint=hint)
    text = getattr(error, "explanation", None) or str(error)
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return kind(f"cannot {what}: {plain(_brief(str(text)), 300)}")


def _refused(error: Exception) -> bool:
    """The SDK wraps a refused connection in its base class when it asks for the engine's version."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (ConnectionRefusedError, FileNotFoundError, PermissionError)):
            return True
        if isinstance(seen, requests.exceptions.ConnectionError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _brief(text: str) -> str:
    """The engine's own words, without the layers of software that passed them on."""
    return re.sub(r"^(Error response from daemon: )", "", text.strip())
