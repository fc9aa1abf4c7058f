"""How a new session begins: cold, warm, from a template, from a devcontainer, or with an entrypoint.

How each is carried out is in modules of their own, imported when it is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.base import shell_words
from holdfast.errors import ImageError, InvalidArgument
from holdfast.runtime.api.session import Session
from holdfast.runtime.store.rows import FITTED

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.runtime.operations.context import Context


def start(
    context: Context,
    name: str | None,
    policy: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    remove: bool = False,
    template: str | None = None,
    warm: bool = False,
    devcontainer: Path | str | None = None,
    entrypoint: bool = False,
    build_network: str | None = None,
    remote_sources: bool = False,
    labels: Mapping[str, str] | Sequence[str] | None = None,
    lifetime: Mapping[str, Any] | None = None,
) -> Session:
    """Start a session, as `Holdfast.new` says; `lifetime` has what `Session.lifetime` takes.

    Raises:
        HoldfastError: as for `Holdfast.new`; nothing is left of it.
    """
    how: dict[str, Any] = {"remove": remove, "template": template, "warm": warm, "devcontainer": devcontainer}
    how |= {"entrypoint": entrypoint, "build_network": build_network, "remote_sources": remote_sources}
    wish = {key: value for key, value in (lifetime or {}).items() if value is not None}
    if labels is None and not wish:
        return _started(context, name, policy, options, **how)
    from holdfast.runtime.sessions import session_labels
    from holdfast.runtime.store.lifetime import Lifetime, changed

    wanted = session_labels.parse(labels or {})  # before anything is made
    changed(Lifetime(), 0.0, wish)
    made = _started(context, name, policy, options, **how)
    try:
        if wish:
            made.lifetime(**wish)
        return made.set_labels(wanted)
    except BaseException:
        made.remove()
        raise


def _started(
    context: Context,
    name: str | None,
    policy: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    remove: bool,
    template: str | None,
    warm: bool,
    devcontainer: Path | str | None,
    entrypoint: bool,
    build_network: str | None,
    remote_sources: bool,
) -> Session:
    """Start a session without labels.

    Raises:
        InvalidArgument: two ways were chosen that do not go together.
        HoldfastError: as for `Holdfast.new`; nothing is left of it.
    """
    if devcontainer is None and (build_network is not None or remote_sources):
        raise InvalidArgument(
            "cannot choose the rights of a build: nothing is built", hint="name a devcontainer"
        )
    copied = template is not None or warm
    cold = partial(_cold, context, remove=remove, policy=policy)
    if entrypoint:
        if copied or devcontainer is not None:
            raise InvalidArgument(
                "cannot run the entrypoint in a copy or a devcontainer",
                hint="`holdfast exec --detach` runs it",
            )

        made = cold(name, **options)
        begin_entrypoint(context, made)
        return made
    if devcontainer is not None:
        if copied:
            raise InvalidArgument("cannot start from a devcontainer and a template", hint="leave out one")
        from holdfast.runtime.api import devcontainer_start
        from holdfast.runtime.lifecycle.image_build import BuildRights

        lists = (options.get(name) or () for name in ("allow", "deny"))
        rights = BuildRights.of(build_network, *lists, remote=remote_sources)
        return devcontainer_start.start(context, devcontainer, name, options, cold, rights)
    if template is not None:
        if warm:
            raise InvalidArgument(
                "cannot start warm from a template: templates are warm already", hint="leave out one"
            )
        from holdfast.runtime.restore import template_start

        row = template_start.start(context, template, name, policy, **options)
        return Session(context, row, remove=remove)
    if warm:
        from holdfast.runtime.api import warm_start

        row = warm_start.start(context, name, policy, options, partial(_cold, context))
        return Session(context, row, remove=remove)
    return cold(name, **options)


def _cold(
    context: Context,
    name: str | None = None,
    *,
    remove: bool = False,
    policy: Mapping[str, Any] | None = None,
    **options: Any,
) -> Session:
    from holdfast.runtime.lifecycle.create import create

    return Session(context, create(context, name, policy, **options), remove=remove)


NAME = "entrypoint"
"""The name of the job."""


def entrypoint_command(config: Mapping[str, Any]) -> list[str]:
    """Return the program of an image's configuration, with its arguments; empty if it has none."""
    return [str(word) for key in ("Entrypoint", "Cmd") for word in config.get(key) or ()]


def begin_entrypoint(context: Context, session: Session) -> None:
    """Start the entrypoint in a new session, which is removed if its image has none.

    Raises:
        ImageError: it has none.
        SessionError, GuestError: the job could not be started.
    """
    try:
        argv = entrypoint_command(context.engine.images.config(session.row.image) or {})
        of_sessions = not session.row.image.startswith(FITTED)  # its entrypoint is what sessions run
        if not argv or of_sessions:
            raise ImageError(
                f"cannot run the entrypoint of {session.image}: it does not have one", hint="leave it out"
            )
        session.detach(f"exec {shell_words.join(argv)}", name=NAME)
    except BaseException:
        session.remove()
        raise
