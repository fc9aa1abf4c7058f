"""Starts a session as a project's devcontainer.json describes it: image, folder, and commands.

`devcontainer` reads the file; its wishes are carried out here. A command that fails ends the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, SessionError
from holdfast.runtime.api.session_files import upload_project
from holdfast.runtime.lifecycle import devcontainer, dockerfile_context, image_build
from holdfast.runtime.sessions.session_options import SessionOptions

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.operations.context import Context

_LAST_BYTES = 2000
_METADATA = "devcontainer.metadata"
"""A label with settings of the same form, which an image gives to all that are made of it."""
_WHO = "echo $EUID ${GROUPS[0]}"
# The engine makes the folder that a container begins in, for root. An image may have no chown.
_GIVE = """
for python in /opt/holdfast/bin/python python3; do
    type -P "$python" >/dev/null || continue
    exec "$python" -I -c "import os, sys; os.chown(sys.argv[1], *map(int, sys.argv[2:]))" "$@"
done
exit 1
"""


def start(
    context: Context,
    folder: str | Path,
    name: str | None,
    options: Mapping[str, Any],
    new: Callable[..., Session],
    rights: image_build.BuildRights,
) -> Session:
    """Start a session as a folder's devcontainer.json says.

    Args:
        context: the context of the call.
        folder: the project.
        name: of the session; by default one is generated.
        options: as for `Holdfast.new`; they win over what the file says.
        new: starts a session.
        rights: what a build of its image may do.

    Raises:
        InvalidArgument: there is no such file, it is malformed, or needs features that sessions lack.
        SessionError: one of its commands failed; the hint is the end of its output.
        EngineError, ImageError, SessionExists: as for `Holdfast.new`.
    """
    if options.get("image") is not None:
        raise InvalidArgument("cannot use two images: leave out the image or the devcontainer")
    wanted = devcontainer.read(folder)
    for line in wanted.left_out:
        context.progress(f"devcontainer.json: {line}")
    image = wanted.image
    if wanted.context is not None:
        build = image_build.ImageBuild.of(
            wanted.context, wanted.file, wanted.arguments, wanted.target, rights=rights
        )
        image = image_build.build(context, build)
    elif image is not None and not rights.remote:
        SessionOptions.parse(image=image)
        dockerfile_context.obtain(context, image)
    config = context.engine.images.config(image) if image is not None else None
    if _METADATA in ((config or {}).get("Labels") or {}):
        context.progress(f"devcontainer.json: {_METADATA} of its image is ignored")
    given = {key: value for key, value in options.items() if value is not None}
    chosen = {"workdir": wanted.workspace, "user": wanted.user, **given, "image": image}
    chosen["env"] = _with_own(wanted.env, given.get("env"))
    if given.get("read_only"):
        chosen["writable"] = [*(given.get("writable") or ()), wanted.workspace]
    session = new(name, **chosen)
    try:
        _fill(context, session, wanted)
    except BaseException:
        session.remove()
        raise
    return session


def _with_own(env: Mapping[str, str], own: Any) -> list[str]:
    """Return variables in the form of options; the caller's come last, and win."""
    texts = [f"{key}={value}" for key, value in own.items()] if isinstance(own, Mapping) else list(own or ())
    return [*(f"{key}={value}" for key, value in env.items()), *texts]


def _fill(context: Context, session: Session, wanted: devcontainer.Devcontainer) -> None:
    context.progress(f"copying {plain(str(wanted.folder), 200)} to {wanted.workspace}")
    session.files.as_user("0").make_folder(wanted.workspace, parents=True)
    who = session.run(["/bin/bash", "-c", _WHO]).stdout.decode("ascii", "replace").split()
    if who[:1] != ["0"]:
        given = session.run(["/bin/bash", "-c", _GIVE, "-", wanted.workspace, *who], user="0")
        if given.exit_code != 0:
            raise SessionError(f"cannot prepare the session: {wanted.workspace} cannot be given to its user")
    upload_project(session.files, wanted.folder, wanted.workspace)
    for name, argv in wanted.commands:
        context.progress(f"running {name}")
        tail: deque[bytes] = deque(maxlen=50)
        done = session.run(list(argv), cwd=wanted.workspace, on_stdout=tail.append, on_stderr=tail.append)
        if done.exit_code != 0:
            said = b"".join(tail)[-_LAST_BYTES:].decode("utf-8", "replace").strip()
            lines = "\n".join(plain(line, 200) for line in said.splitlines()[-20:])
            raise SessionError(
                f"cannot prepare the session: {name} of devcontainer.json exited with {done.exit_code}",
                hint=lines,
            )
