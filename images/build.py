"""Images named by the content they are made of: built when missing, never rebuilt needlessly.

`holdfast/<kind>:<digest>` names the content (recipe, guest, the host's certificate authorities), so an image
that exists is current, and a change anywhere gives another tag.  Sessions are not known here.
"""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import docker
import docker.errors

from holdfast.errors import ImageError, InvalidArgument
from holdfast.images import base, host_authorities
from holdfast.images.build_context import Context, File, tree
from holdfast.images.buildlog import BuildLog

KINDS = ("session", "toolbox", "gateway")
ALWAYS = ("session", "toolbox")
"""The images every session needs; the others are built when they are first needed."""
PACKAGE = Path(__file__).resolve().parent.parent
IMAGES = PACKAGE / "images"

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


def context(kind: str, environ: Mapping[str, str] = os.environ) -> Context:
    """Return the build context of the image `kind` on this host.

    Raises:
        InvalidArgument: there is no such kind of image.
    """
    if kind not in KINDS:
        raise InvalidArgument(f"cannot build an image {kind!r}: the kinds are {', '.join(KINDS)}")
    files = dict(tree(IMAGES / kind, kind))
    if kind == "session":
        # The guest's packages go where the import system looks for them: namespace packages, no host code.
        for part in ("runtime", "kernels"):
            files.update(tree(PACKAGE / part / "guest", f"guest/holdfast/{part}/guest", "*.py"))
        files.update(tree(PACKAGE / "runtime" / "pytest_plugin", "session", "holdfast_pytest.py"))
    elif kind == "gateway":
        files.update(tree(PACKAGE / "runtime" / "gateway", "runtime/gateway", "*.py"))
    else:
        files.update(tree(PACKAGE / "snapshots" / "checkpointer", "snapshots/checkpointer"))
    # A folder must not be empty for COPY to find it.
    files["host-ca/README"] = File(b"Certificate authorities of the host that built this image.\n")
    for name, pem in host_authorities.host_additions(environ).items():
        files[f"host-ca/{name}"] = File(pem)
    return Context(kind, files)


def reference(kind: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the tag under which the current image `kind` is or will be."""
    return f"holdfast/{kind}:{context(kind, environ).digest}"


def ensure(
    client: docker.DockerClient,
    kind: str,
    progress: Callable[[str], None] | None = None,
    *,
    lock_folder: Path | None = None,
) -> str:
    """Return the tag of the current image `kind`, built first if the engine does not have it.

    `progress` gets one short line per step.  Two builders of one kind take turns; the second finds the image
    of the first.

    Raises:
        ImageError: the image could not be built; the hint is the end of the build's output.
    """
    say = progress or (lambda _line: None)
    made_of = context(kind)
    tag = f"holdfast/{kind}:{made_of.digest}"
    return once(client, made_of, tag, lambda: base.obtain(client, say), say, lock_folder, turn=kind)


def once(
    client: docker.DockerClient,
    made_of: Context,
    tag: str,
    base_reference: Callable[[], str],
    say: Callable[[str], None],
    lock_folder: Path | None,
    *,
    turn: str,
) -> str:
    """Build a context under a tag unless the engine has it; builders of one `turn` wait for each other.

    Raises:
        ImageError: as `ensure`.
    """
    if _exists(client, tag):
        return tag
    with _turn(lock_folder or _default_lock_folder(), turn, say):
        if not _exists(client, tag):
            _build(client, made_of, tag, base_reference(), say)
    return tag


@dataclass(frozen=True, slots=True)
class Image:
    """One of our images in the engine; `size` in bytes, `current` if a new session would use it."""

    tag: str
    kind: str
    size: int
    created: datetime
    current: bool


def list_images(client: docker.DockerClient) -> list[Image]:
    """Return our images in the engine, current ones first, then newest first."""
    found = []
    for kind in KINDS:
        current = reference(kind)
        for image in client.images.list(name=f"holdfast/{kind}"):
            created = datetime.fromisoformat(image.attrs["Created"].replace("Z", "+00:00"))
            found += [
                Image(tag, kind, int(image.attrs["Size"]), created, tag == current)
                for tag in image.tags
                if tag.startswith(f"holdfast/{kind}:")
            ]
    return sorted(found, key=lambda image: (image.kind, not image.current, -image.created.timestamp()))


def _exists(client: docker.DockerClient, tag: str) -> bool:
    try:
        client.images.get(tag)
    except docker.errors.ImageNotFound:
        return False
    return True


def _build(
    client: docker.DockerClient, made_of: Context, tag: str, base_reference: str, say: Callable[[str], None]
) -> None:
    say(f"{made_of.kind}: building {tag} on {base_reference}")
    log = BuildLog()
    arguments = {"BASE": base_reference, **_proxy_arguments(os.environ)}
    try:
        events: Iterator[dict[str, Any]] = client.api.build(
            fileobj=io.BytesIO(made_of.tar()),
            custom_context=True,
            dockerfile=f"{made_of.kind}/Dockerfile",
            tag=tag,
            buildargs=arguments,
            labels={"holdfast.image": made_of.kind},
            rm=True,
            forcerm=True,
            decode=True,
        )
        for event in events:
            for line in log.feed(event):
                say(f"{made_of.kind}: {line}")
    except docker.errors.APIError as error:
        raise ImageError(f"cannot build {tag}: {error.explanation or error}", hint=log.tail()) from error
    if log.error or not _exists(client, tag):
        raise ImageError(f"cannot build {tag}: {log.error or 'the engine made no image'}", hint=log.tail())
    say(f"{made_of.kind}: {tag} is ready")


def _proxy_arguments(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the host's proxy settings; the engine knows these names and keeps them out of the image."""
    names = [*_PROXIES, *(name.upper() for name in _PROXIES)]
    return {name: environ[name] for name in names if environ.get(name)}


def _default_lock_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "holdfast"


@contextmanager
def _turn(folder: Path, kind: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the build lock of `kind`; it is released by the end of the process at the latest."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"image-{kind}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{kind}: another build is at work; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
