"""The image of a new session as a command line chooses it: a name, a file, or a folder to build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli.caller import is_over_a_url
from holdfast.runtime.lifecycle.load_image import is_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.api.controller import Holdfast


def choose(
    holdfast: Holdfast,
    *,
    image: str | None,
    folder: str | None,
    file: str | None,
    arguments: Sequence[str],
    target: str | None,
    policy: str | None,
    devcontainer: str | None,
    entrypoint: bool,
    network: str | None = None,
    allow: Sequence[str] = (),
    remote: bool = False,
) -> str | None:
    """Return the name of the image for a session, built, loaded or pulled as asked; None for the usual one.

    Raises:
        InvalidArgument: what was asked does not go together, or names files that a server does not see.
        ImageError, EngineError: the image cannot be had.
    """
    _check_build(folder, devcontainer, what=bool(file or arguments or target), how=bool(network or remote))
    if folder is not None and image is not None:
        raise InvalidArgument("cannot use two images: leave out --build or --image")
    if devcontainer is not None and (folder is not None or image is not None):
        raise InvalidArgument("cannot use two images: leave out --devcontainer, or --build and --image")
    from_file = image is not None and is_path(image)
    if policy is not None and (image is None or from_file):
        raise InvalidArgument("cannot pull: no image was named", hint="add --image NAME")
    if is_over_a_url() and entrypoint:
        raise InvalidArgument(
            "cannot run the entrypoint over a URL", hint="`holdfast exec --detach` runs a command as a job"
        )
    if is_over_a_url() and (folder or devcontainer or from_file or policy is not None):
        raise InvalidArgument(
            "cannot build, load or pull over a URL: the server's engine needs the image",
            hint="do it on the server's machine, and name the image with --image",
        )
    if folder is not None:
        where: Any = network  # checked where it is used
        return holdfast.images.build(
            folder,
            file=file,
            arguments=dict(map(_argument, arguments)),
            target=target,
            network=where,
            allow=allow,
            remote_sources=remote,
        )
    if image is None:
        return None
    if from_file:
        return holdfast.images.load(image)
    chosen: Any = policy  # checked where it is used
    return image if policy is None else holdfast.images.pull(image, chosen)


def _check_build(folder: str | None, devcontainer: str | None, *, what: bool, how: bool) -> None:
    if folder is None and what:
        raise InvalidArgument("cannot choose what is built: nothing is", hint="add --build FOLDER")
    if folder is None and devcontainer is None and how:
        raise InvalidArgument(
            "cannot choose the rights of a build: nothing is built", hint="add --build or --devcontainer"
        )


def _argument(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgument(f"cannot set build argument '{text[:60]}': it is not KEY=VALUE")
    return key, value
