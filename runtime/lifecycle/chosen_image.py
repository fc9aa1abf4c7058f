"""The image of a new session: our own, one made from it, or any other, fetched and fitted as needed.

An image's user and working directory become options of the session, unless the caller chose others. The
command of an image is never run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import EngineError, ImageError, InvalidArgument
from holdfast.images import build
from holdfast.runtime.lifecycle import fitting, provision
from holdfast.runtime.sessions import image_settings, writable_places
from holdfast.runtime.sessions.session_options import SessionOptions

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

DATA = "data"
"""Our image that is built on request, by the name that callers choose it with."""
MOST_FOLDERS = writable_places.MOST
_LAYERS_MOST = 500
"""Of whose amounts a sum is made."""
SILENT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ChosenImage:
    """An image that a session can run on.

    `options` are the caller's, with the image's own. `folders` are those for which the image declares
    volumes: a session has folders of its own there.
    """

    name: str
    options: SessionOptions
    folders: tuple[str, ...] = ()


def choose(context: Context, options: SessionOptions) -> ChosenImage:
    """Return the image for a session with these options.

    Raises:
        EngineUnfit: no image would do: sessions cannot run on this engine.
        ImageError: the image does not exist, cannot be built, or is not suitable for sessions.
    """
    found = _choose(context, options)
    if not found.options.read_only or not found.folders:
        return found
    fields = found.options.model_dump(mode="json")
    writable = [*found.options.writable, *found.folders]
    return replace(found, options=SessionOptions.parse(**fields | {"writable": writable}))


def _choose(context: Context, options: SessionOptions) -> ChosenImage:
    provision.require_fit(context.engine)
    name = options.image
    if name is None:
        return ChosenImage(build.ensure(context.engine.images, "session", context.progress), options)
    if name == DATA:
        return ChosenImage(_built(context, name), options)
    found = context.engine.images.inspect(name) or pull(context, name)
    config: Mapping[str, Any] = found["Config"] or {}
    if fitting.has_guest(config):
        image_settings.check(name, config)
        return ChosenImage(name, options)
    completed, folders = as_said(name, config, options)
    return ChosenImage(fitting.fit(context, name, found), completed, folders)


def _built(context: Context, kind: str) -> str:
    """Return one of our images that is built on request alone: it is large.

    Raises:
        ImageError: it is not built, or not for this version.
    """
    tag = build.reference(kind)
    if not context.engine.images.exists(tag):
        raise ImageError(
            f"cannot use image {kind}: it is not built on this machine",
            hint=f"`holdfast image build {kind}` builds it, once for each version",
        )
    return tag


def as_said(
    name: str, config: Mapping[str, Any], options: SessionOptions
) -> tuple[SessionOptions, tuple[str, ...]]:
    """Return options with an image's user and folder, and the places of its volumes. Pure.

    Args:
        name: the caller's name for the image, for messages.
        config: its settings for containers; others made it.
        options: the caller's, which win.

    Raises:
        ImageError: no session can have its user or folder, or as many volumes.
    """
    changes = {"user": options.user or _user(config), "workdir": options.workdir or _folder(config)}
    fields = options.model_dump(mode="json") | changes
    try:
        completed = SessionOptions.parse(**fields)
    except InvalidArgument as error:
        why = f"cannot use image {name}: {error}"
        raise ImageError(why, hint="choose with --user and --workdir") from error
    volumes = sorted(str(each) for each in config.get("Volumes") or {})
    if len(volumes) > MOST_FOLDERS:
        raise ImageError(
            f"cannot use image {name}: it declares {len(volumes)} volumes, more than {MOST_FOLDERS}"
        )
    return completed, tuple(dict.fromkeys(place for each in volumes if (place := _place(each))))


def _place(volume: str) -> str | None:
    """Return the session's folder for a volume; None where the system has its own, or it is impossible."""
    try:
        return writable_places.plain(volume)
    except ValueError:
        return None


def _user(config: Mapping[str, Any]) -> str | None:
    """Return the user of an image, as a session has it: a name alone, or numbers."""
    user, _, group = str(config.get("User") or "").partition(":")
    if user in ("", "root", "0"):
        return None
    return f"{user}:{group}" if user.isdecimal() and group.isdecimal() else user


def _folder(config: Mapping[str, Any]) -> str | None:
    return str(config.get("WorkingDir") or "") or None


def pull(context: Context, name: str) -> dict[str, Any]:
    """Fetch an image from the registry in its name, and return the engine's description of it.

    Raises:
        ImageError: the image does not exist, or its registry does not offer it.
    """
    repository, tag = _parts(name)
    there = context.engine.images.exists(name)
    asking = (
        f"waiting for the registry of {name}"
        if there
        else (f"the engine does not have image {name}; waiting for its registry")
    )
    slow = threading.Timer(SILENT_SECONDS, context.progress, (asking,))
    last, sizes = "", dict[str, tuple[int, int]]()
    slow.start()
    try:
        for event in context.engine.images.pull(repository, tag):
            slow.cancel()
            if "error" in event:
                raise _not_pulled(name, there, str(event["error"]))
            if (amount := _pulled(event, sizes)) is not None:
                context.doing(f"pulling {name}, MiB", *amount)
            status = plain(str(event.get("status")), 100)
            if status != last and "id" not in event:
                last = status
                context.progress(f"{name}: {status}")
    except EngineError as error:
        raise _not_pulled(name, there, str(error)) from error
    finally:
        slow.cancel()
        context.idle()
    found = context.engine.images.inspect(name)
    if found is None:
        raise _not_pulled(name, there, "its registry did not return one")
    return found


def _pulled(event: Mapping[str, Any], sizes: dict[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Return how many MiB of the known layers have arrived, and of how many; None if unchanged."""
    detail, layer = event.get("progressDetail"), event.get("id")
    if event.get("status") != "Downloading" or not isinstance(detail, Mapping) or not isinstance(layer, str):
        return None
    done, total = detail.get("current"), detail.get("total")
    if not isinstance(done, int) or not isinstance(total, int) or len(sizes) > _LAYERS_MOST:
        return None
    sizes[layer] = done, total
    return sum(part for part, _ in sizes.values()) >> 20, sum(whole for _, whole in sizes.values()) >> 20


def _parts(name: str) -> tuple[str, str]:
    """Return an image's repository, and its tag or digest: `latest` as `docker pull` has it."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    above, colon, tag = name.rpartition(":")
    return (above, tag) if colon and "/" not in tag else (name, "latest")


def _not_pulled(name: str, there: bool, why: str) -> ImageError:
    """Shorten an error to its root cause, the last part of an engine's chain."""
    cause = plain(why.strip().rsplit(": ", 1)[-1], 200)
    if there:
        return ImageError(
            f"cannot pull image {name} again ({cause})", hint="--pull missing uses the engine's copy"
        )
    return ImageError(
        f"cannot use image {name}: the engine does not have it, and cannot pull it ({cause})",
        hint="`docker images` lists the engine's images",
    )
