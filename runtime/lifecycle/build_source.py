"""The Dockerfile of a build and what it needs, read once; and whether the engine may fetch that.

What is checked is what is built: builders get the text that was read here. A file of the project is not
followed out of its folder. Images that a project names are had before it is built: what they trigger in
a build (ONBUILD) counts as if it stood in the project's own file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import ImageError
from holdfast.runtime.egress import host_network
from holdfast.runtime.lifecycle import build_file, chosen_image

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

USUAL_FILE = "Dockerfile"
_IGNORE = ".dockerignore"
_LONGEST_IGNORE = 1 << 20
_OUTSIDE = ".dockerfile.holdfast"
"""The name of a Dockerfile from elsewhere; the engine takes it out of the context."""
_NAME_SECONDS = 15.0
"""How long a resolver may take; a name without an address leads to no host."""
_OPTION = "--allow-remote-sources builds it, if you trust the project"


@dataclass(frozen=True, slots=True)
class BuildSource:
    """What a build begins with.

    Attributes:
        folder: the context.
        name: the Dockerfile's in the context.
        text: the Dockerfile.
        ignored: lines of the .dockerignore.
        own_ignore: that which only BuildKit heeds, beside the Dockerfile and with its name; None without.
    """

    folder: Path
    name: str
    text: str
    ignored: tuple[str, ...]
    own_ignore: str | None

    def written(self, place: Path) -> Path:
        """Write the Dockerfile into a private folder, for a builder that reads it from a file."""
        path = place / USUAL_FILE
        path.write_text(self.text, "utf-8")
        if self.own_ignore is not None:
            (place / f"{USUAL_FILE}{_IGNORE}").write_text(self.own_ignore, "utf-8")
        return path


def read(folder: Path, file: Path) -> BuildSource:
    """Read what a build begins with.

    Raises:
        ImageError: a file of the folder leads out of it, is too long, or is no file.
        OSError: one cannot be read.
    """
    inside = file.is_relative_to(folder)
    if inside and not file.resolve().is_relative_to(folder.resolve()):
        raise _refused(folder, f"{plain(file.name, 100)} leads out of the folder")
    text = _text(folder, file.resolve(), build_file.LONGEST)
    assert text is not None
    own = _text(folder, file.with_name(file.name + _IGNORE), _LONGEST_IGNORE)
    lines = (_text(folder, folder / _IGNORE, _LONGEST_IGNORE) or "").splitlines()
    ignored = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    name = str(file.resolve().relative_to(folder.resolve())) if inside else _OUTSIDE
    return BuildSource(folder, name, text, ignored, own)


def admit(context: Context, source: BuildSource, arguments: Mapping[str, str], *, remote: bool) -> None:
    """Refuse a build for which the engine would fetch what the caller did not allow.

    Args:
        context: the context of the call.
        source: what is built.
        arguments: values of ARG.
        remote: all is allowed.

    Raises:
        ImageError: something of it is not, or an image cannot be had.
    """
    if remote:
        return
    found = build_file.look(source.text, arguments)
    _refuse(source, found, "its Dockerfile")
    for name in found.images:
        config = obtain(context, name)["Config"] or {}
        triggers = [str(each) for each in config.get("OnBuild") or ()]
        if triggers:
            later = build_file.look("\n".join(triggers), arguments)
            _refuse(source, later, f"its image {plain(name, 100)}")
            for other in later.images:
                obtain(context, other)


def obtain(context: Context, name: str) -> dict[str, Any]:
    """Return the engine's description of an image that a project names; it is fetched if it is missing.

    Raises:
        ImageError: it cannot be had, or its registry would be this machine.
    """
    if there := context.engine.images.inspect(name):
        return there
    host = registry_host(name)
    if host is not None and _is_this_machine(host):
        raise ImageError(
            f"cannot use image {plain(name, 100)}: the project has the engine ask a service of this machine",
            hint=f"`docker pull` it, or {_OPTION}",
        )
    return chosen_image.pull(context, name)


def registry_host(name: str) -> str | None:
    """Return the host of the registry that an image's name has, without its port; None without one."""
    first, slash, _ = name.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first):
        return None
    return first.rpartition("]")[0].lstrip("[") if first.startswith("[") else first.partition(":")[0]


def _is_this_machine(host: str) -> bool:
    """Check whether a name leads to loopback, to a link (as of metadata services), or to the host."""
    own = host_network.look().addresses
    try:
        found = [ip_address(host)]
    except ValueError:
        found = [ip_address(text) for text in host_network.lookup_of([host], _NAME_SECONDS)(host)]
    return any(one.is_loopback or one.is_link_local or one.is_unspecified or one in own for one in found)


def _refuse(source: BuildSource, found: build_file.Fetched, where: str) -> None:
    asked = [*found.remote, *(f"images for {name}" for name in found.platforms)]
    if asked:
        raise _refused(
            source.folder,
            f"{where} has the engine fetch from the host's network: {plain(asked[0], 200)}",
            f"COPY takes files of the folder; {_OPTION}",
        )


def _text(folder: Path, path: Path, longest: int) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(folder, f"{plain(path.name, 100)} cannot be read ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _refused(folder, f"{plain(path.name, 100)} is no regular file")
        data = file.read(longest + 1)
    if len(data) > longest:
        raise _refused(folder, f"{plain(path.name, 100)} is longer than {longest} bytes")
    return data.decode("utf-8", "replace")


def _refused(folder: Path, why: str, hint: str = "") -> ImageError:
    return ImageError(f"cannot build {plain(str(folder), 200)}: {why}", hint=hint)
