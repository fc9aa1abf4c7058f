"""Images that are built for sessions, of a folder with a Dockerfile: by BuildKit or the older builder.

The image is named after the folder and its own id, so that the same build gives the same name. What a session
makes of it is not known here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base import way_to_internet
from holdfast.base.text import plain
from holdfast.engine import buildkit_command
from holdfast.engine.engine_faults import said
from holdfast.errors import EngineError, EngineUnavailable, ImageError, InvalidArgument
from holdfast.images import proxy_settings
from holdfast.images.buildkit_log import BuildKitLog
from holdfast.images.buildlog import BuildLog
from holdfast.runtime.store.rows import PROVIDED

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

USUAL_FILE = "Dockerfile"
_MOST_OF_NAME = 40
_NEEDS_BUILDKIT = re.compile(r"requires? BuildKit", re.IGNORECASE)
_BUILDKIT_HINT = "install Docker's plugin buildx: `holdfast` uses it then"


@dataclass(frozen=True, slots=True)
class ImageBuild:
    """What is built.

    Attributes:
        folder: the context of the build; its .dockerignore is heeded.
        file: the Dockerfile; by default that of the folder.
        arguments: values of ARG, by name.
        target: the stage to build; by default the last one.
    """

    folder: Path
    file: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None

    @classmethod
    def of(
        cls,
        folder: str | Path,
        file: str | Path | None = None,
        arguments: Mapping[str, str] | None = None,
        target: str | None = None,
    ) -> ImageBuild:
        """Check that there is something to build.

        Raises:
            ImageError: the folder or its Dockerfile is missing.
            InvalidArgument: an argument or the target is not the name of one.
        """
        context = Path(folder).expanduser().absolute()
        shown = plain(str(folder), 200)
        if not context.is_dir():
            why = "it is no folder" if context.exists() else "there is no such folder"
            raise ImageError(f"cannot build {shown}: {why}")
        dockerfile = context / USUAL_FILE if file is None else Path(file).expanduser().absolute()
        if not dockerfile.is_file():
            raise ImageError(
                f"cannot build {shown}: there is no {plain(str(file or USUAL_FILE), 200)}",
                hint="name the Dockerfile with --file",
            )
        for name in arguments or {}:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise InvalidArgument(
                    f"cannot build {shown}: '{plain(name, 60)}' is not the name of an argument"
                )
        if target is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", target):
            raise InvalidArgument(f"cannot build {shown}: '{plain(target, 60)}' is not the name of a stage")
        return cls(context, dockerfile, dict(arguments or {}), target)


def provided_name(called: str, identity: str) -> str:
    """Return the name that an image has which was built or loaded for sessions.

    Args:
        called: the name of the folder or file that it is from.
        identity: the id of the image.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", called.lower()).strip("-")[:_MOST_OF_NAME].strip("-") or "image"
    return f"{PROVIDED}{slug}-{identity.removeprefix('sha256:')[:12]}"


def build(context: Context, wanted: ImageBuild) -> str:
    """Build an image, and return its name. What its steps have made stays with the engine for the next build.

    Raises:
        ImageError: the build failed; the hint is the end of its output.
        EngineError: the engine refuses.
    """
    shown = plain(str(wanted.folder), 200)
    command = buildkit_command.find()
    context.progress(f"building {shown}" + (" with BuildKit" if command else ""))
    try:
        identity = _with_buildkit(context, wanted, command) if command else _without(context, wanted)
    except OSError as error:
        raise ImageError(f"cannot build {shown}: {plain(str(error), 300)}") from error
    name = provided_name(wanted.folder.name, identity)
    context.engine.images.tag(identity, name)
    return name


def _with_buildkit(context: Context, wanted: ImageBuild, command: str) -> str:
    log = BuildKitLog()

    def feed(line: str) -> None:
        for shown in log.feed(line):
            context.progress(f"build: {plain(shown, 200)}")

    identity = buildkit_command.build(
        command,
        wanted.folder,
        wanted.file,
        _arguments(wanted),
        wanted.target,
        feed,
        host_network=_needs_host(),
    )
    if identity is None:
        raise _failed(wanted, log.error, log.tail())
    if not context.engine.images.exists(identity):
        raise ImageError(
            f"cannot build {plain(str(wanted.folder), 200)}: BuildKit gave the image to another engine",
            hint="DOCKER_BUILDKIT=0 builds without it",
        )
    return identity


def _without(context: Context, wanted: ImageBuild) -> str:
    log = BuildLog(every_step=True)
    images = context.engine.images
    try:
        for event in images.build_folder(
            wanted.folder, wanted.file, _arguments(wanted), wanted.target, host_network=_needs_host()
        ):
            for line in log.feed(event):
                context.progress(f"build: {plain(line, 200)}")
    except EngineUnavailable:
        raise
    except EngineError as error:
        why = str(error).partition(": ")[2] or str(error)
        raise _failed(wanted, why, error.hint or log.tail()) from error
    if log.error or not log.image:
        raise _failed(wanted, log.error or "the engine made no image", log.tail())
    return log.image


def _failed(wanted: ImageBuild, why: str, tail: str) -> ImageError:
    hint = _BUILDKIT_HINT if _NEEDS_BUILDKIT.search(why) else tail
    return said(
        ImageError, f"build {plain(str(wanted.folder), 200)}", why or "the builder gave no reason", hint
    )


def _arguments(wanted: ImageBuild) -> dict[str, str]:
    """Return the values of ARG. The engine knows the names of proxies, and keeps them out of the image."""
    return {**proxy_settings.both_spellings(os.environ), **wanted.arguments}


def _needs_host() -> bool:
    """Check whether steps of a build reach the outside from the host's network only."""
    return proxy_settings.on_this_machine(os.environ) or way_to_internet.is_missing()
