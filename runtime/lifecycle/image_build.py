"""Images that are built for sessions, of a folder with a Dockerfile: by BuildKit or the older builder.

The image is named after the folder and its own id, so that the same build gives the same name. A session's
use of it is not known here. The folder is a project's, and not trusted: its steps have the network rules of
a session, the engine fetches nothing for it that the caller did not allow (`dockerfile_context`), and
nothing that it says is in the environment of a process of this machine.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.interrupts import held
from holdfast.base.text import plain
from holdfast.engine import buildkit_command, networks
from holdfast.engine.engine_faults import said
from holdfast.errors import EngineError, EngineUnavailable, ImageError, InvalidArgument
from holdfast.images import build as images
from holdfast.images import proxy_settings
from holdfast.images.buildlog import BuildKitLog, BuildLog
from holdfast.runtime.egress import host_network
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.lifecycle import dockerfile_context, provision
from holdfast.runtime.lifecycle.dockerfile_context import USUAL_FILE, BuildSource
from holdfast.runtime.lifecycle.take_back import take_back
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.sessions import image_settings, init_program
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.rows import PROVIDED, OperationKind

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


_MOST_OF_NAME = 40
_NEEDS_BUILDKIT = re.compile(r"requires? BuildKit|unknown flag: mount|Unknown flag: mount", re.IGNORECASE)
_LOST_STEP = re.compile(
    r"(unable to find image|no such image|failed to set parent|failed to get digest)"
    r":? \W{0,2}sha256:[0-9a-f]{12}",
    re.IGNORECASE,
)
_BUILDKIT_HINT = "install Docker's plugin buildx: `holdfast` uses it then"
_NO_RULES_HINT = (
    "BuildKit cannot give steps the network rules of a session: it builds with "
    "`--build-network none`, or with `--build-network engine`, without rules"
)
KINDS = ("internet", "none", "engine")
"""As a session has it by default; nothing; the engine's own network, without rules."""
ROLE = "build"
_MEMORY = 128 << 20
_RESOLVER = "import pathlib, sys; pathlib.Path('/etc/resolv.conf').write_text(sys.argv[1])"

undoes(OperationKind.BUILD)(take_back)


@dataclass(frozen=True, slots=True)
class BuildRights:
    """The rights that a caller gives to a build.

    Attributes:
        network: of its steps: `internet`, as a session has it; `none`; `engine`, the engine's, without rules.
        allow: private destinations that are open to them all the same, as for a session.
        deny: addresses and networks that they do not reach, as for a session.
        remote: the engine may fetch what the Dockerfile names, from wherever that is.
    """

    network: str = "internet"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    remote: bool = False

    @classmethod
    def of(
        cls,
        network: str | None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        *,
        remote: bool = False,
    ) -> BuildRights:
        """Check that the rights are valid.

        Raises:
            InvalidArgument: the network or the destination does not exist.
        """
        kind = network or "internet"
        check_network(kind, allow, deny)
        return cls(kind, tuple(allow), tuple(deny), remote)


@dataclass(frozen=True, slots=True)
class ImageBuild:
    """The input of the build.

    Attributes:
        folder: the context of the build; its .dockerignore is heeded.
        file: the Dockerfile; by default `Dockerfile` in the folder.
        arguments: values of ARG that the project has, by name.
        target: the stage to build; by default the last one.
        private: values of ARG that the caller gives; they win, and are on no command line.
        rights: its rights.
    """

    folder: Path
    file: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    private: Mapping[str, str] = field(default_factory=dict)
    rights: BuildRights = BuildRights()

    @classmethod
    def of(
        cls,
        folder: str | Path,
        file: str | Path | None = None,
        arguments: Mapping[str, str] | None = None,
        target: str | None = None,
        private: Mapping[str, str] | None = None,
        rights: BuildRights | None = None,
    ) -> ImageBuild:
        """Check that there is an image to build.

        Raises:
            ImageError: the folder or its Dockerfile is missing.
            InvalidArgument: an argument or the target is not the name of one.
        """
        context = Path(folder).expanduser().absolute()
        shown = plain(str(folder), 200)
        if not os.path.isdir(context):  # noqa: PTH112 - false for a name that is too long, too
            there = os.path.lexists(context)
            why = "it is not a folder" if there else "the folder does not exist"
            raise ImageError(f"cannot build {shown}: {why}")
        dockerfile = context / USUAL_FILE if file is None else Path(file).expanduser().absolute()
        if not os.path.isfile(dockerfile):  # noqa: PTH113 - likewise
            raise ImageError(
                f"cannot build {shown}: there is no {plain(str(file or USUAL_FILE), 200)}",
                hint="name the Dockerfile with --file",
            )
        for name in (*(arguments or {}), *(private or {})):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise InvalidArgument(
                    f"cannot build {shown}: '{plain(name, 60)}' is not the name of an argument"
                )
        if target is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", target):
            raise InvalidArgument(f"cannot build {shown}: '{plain(target, 60)}' is not the name of a stage")
        return cls(
            context,
            dockerfile,
            dict(arguments or {}),
            target,
            dict(private or {}),
            rights or BuildRights(),
        )


def provided_name(called: str, identity: str) -> str:
    """Return the name that an image has which was built or loaded for sessions.

    Args:
        called: the name of the folder or file that it is from.
        identity: the id of the image.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", called.lower()).strip("-")[:_MOST_OF_NAME].strip("-") or "image"
    return f"{PROVIDED}{slug}-{identity.removeprefix('sha256:')[:12]}"


def build(context: Context, wanted: ImageBuild) -> str:
    """Build an image, and return its name. The results of its steps stay with the engine for the next build.

    Raises:
        ImageError: the build failed, or asks for something that is not permitted; the hint is the end
            of its output.
        NetworkNotClosed: its steps cannot have the network rules of a session here.
        EngineError: the engine refuses.
    """
    shown = plain(str(wanted.folder), 200)
    ruled = wanted.rights.network == "internet"
    command = None if ruled else buildkit_command.find()
    try:
        source = dockerfile_context.read(wanted.folder, wanted.file)
        dockerfile_context.admit(
            context, source, {**wanted.arguments, **wanted.private}, remote=wanted.rights.remote
        )
        context.progress(f"building {shown}" + (" with BuildKit" if command else ""))
        with _network(context, wanted.rights) as network:
            if command:
                return _named(context, wanted, _with_buildkit(context, wanted, source, command))
            return _without(context, wanted, source, network)
    except OSError as error:
        raise ImageError(f"cannot build {shown}: {plain(str(error), 300)}") from error
    finally:
        context.idle()


@contextmanager
def _network(context: Context, rights: BuildRights) -> Iterator[str | None]:
    """Yield the network of the steps by the engine's name for it; None means its default."""
    if rights.network != "internet":
        yield None if rights.network == "engine" else "none"
        return
    if proxy_settings.on_this_machine(os.environ):
        context.progress("build: the proxy on this machine's loopback cannot be reached by the steps")
    with opened_network(context, rights.allow, rights.deny) as network:
        yield network


def _with_buildkit(context: Context, wanted: ImageBuild, source: BuildSource, command: str) -> str:
    log = BuildKitLog()

    def feed(line: str) -> None:
        for shown in log.feed(line):
            context.progress(f"build: {plain(shown, 200)}")
        context.doing(f"building: {plain(line, 100)}", *log.steps)

    with tempfile.TemporaryDirectory() as place:
        identity = buildkit_command.build(
            command,
            wanted.folder,
            source.written(Path(place)),
            wanted.arguments,
            wanted.target,
            feed,
            private={**_proxies(), **wanted.private},
            network="none" if wanted.rights.network == "none" else "default",
        )
    if identity is None:
        raise _failed(wanted, log.error, log.tail())
    if not context.engine.images.exists(identity):
        raise ImageError(
            f"cannot build {plain(str(wanted.folder), 200)}: BuildKit gave the image to a different engine",
            hint="DOCKER_BUILDKIT=0 builds without it",
        )
    return identity


def _without(context: Context, wanted: ImageBuild, source: BuildSource, network: str | None) -> str:
    try:
        return _named(context, wanted, _in_engine(context, wanted, source, network))
    except (ImageError, EngineError) as error:
        if not lost_step(str(error)):
            raise
    context.progress("build: the image of a step was removed while it was used; building again")
    return _named(context, wanted, _in_engine(context, wanted, source, network))


def _named(context: Context, wanted: ImageBuild, identity: str) -> str:
    name = provided_name(wanted.folder.name, identity)
    context.engine.images.tag(identity, name)
    return name


def lost_step(why: str) -> bool:
    """Return whether a build failed because its engine no longer has the image of one of its steps.

    Builds share the images of equal steps, and one that is removed takes those along that no other image
    needs at that instant. The engine does not hold them for a build that has just found them in its cache.
    """
    return _LOST_STEP.search(why) is not None


def _in_engine(context: Context, wanted: ImageBuild, source: BuildSource, network: str | None) -> str:
    log = BuildLog(every_step=True)
    images = context.engine.images
    arguments = {**_proxies(), **wanted.arguments, **wanted.private}
    try:
        for event in images.build_folder(
            wanted.folder,
            (source.name, source.text),
            list(source.ignored),
            arguments,
            wanted.target,
            network=network,
        ):
            for line in log.feed(event):
                context.progress(f"build: {plain(line, 200)}")
            if written := str(event.get("stream", "")).strip():
                context.doing(f"building: {plain(written.splitlines()[-1], 100)}", *log.steps)
    except EngineUnavailable:
        raise
    except EngineError as error:
        why = str(error).partition(": ")[2] or str(error)
        raise _failed(wanted, why, error.hint or log.tail()) from error
    if log.error or not log.image:
        raise _failed(wanted, log.error or "the engine did not make an image", log.tail())
    return log.image


def _failed(wanted: ImageBuild, why: str, tail: str) -> ImageError:
    hint = tail
    if _NEEDS_BUILDKIT.search(why):
        hint = _NO_RULES_HINT if wanted.rights.network == "internet" else _BUILDKIT_HINT
    return said(
        ImageError,
        (f"build {plain(str(wanted.folder), 200)}"),
        why or "the builder did not give a reason",
        hint,
    )


def _proxies() -> dict[str, str]:
    """Return values of ARG whose names the engine knows, and keeps out of the image.

    None if a proxy is on the host's loopback, which no step reaches.
    """
    return {} if proxy_settings.on_this_machine(os.environ) else proxy_settings.both_spellings(os.environ)


def check_network(kind: str, allow: Sequence[str], deny: Sequence[str] = ()) -> None:
    """Raise InvalidArgument unless a network is available, with these destinations opened and closed."""
    if kind not in KINDS:
        raise InvalidArgument(
            f"cannot build in the network '{kind[:40]}': it is {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        )
    SessionOptions.parse(allow=tuple(allow), deny=tuple(deny))


@contextmanager
def opened_network(context: Context, allow: Sequence[str], deny: Sequence[str] = ()) -> Iterator[str]:
    """Yield the network of the steps by the engine's name for it; it exists during the block.

    Args:
        context: the context of the call.
        allow: destinations that are open although they are private, as for a session.
        deny: addresses and networks that are closed, as for a session.

    Raises:
        NetworkNotClosed: it cannot be had here.
        EngineError, ImageError, StoreError: the engine refuses.
    """
    what = "build an image"
    options = SessionOptions.parse(network="internet", allow=tuple(allow), deny=tuple(deny))
    network = Closing(context.engine, context.home, context.progress)
    network.check_names(options)
    provision.require_fit(context.engine)
    with carry_out(context, OperationKind.BUILD) as operation:
        init = init_program.obtain(context.engine, context.home, context.progress)
        with network.ahead(options):
            toolbox = images.ensure(context.engine.images, "toolbox", context.progress)
            asked = _options(context, toolbox, init, operation.id)
            with held():
                container = context.engine.create_session_container(**asked)
            context.engine.start(container)
        try:
            network.hold(options, container, what)
            _name_servers(context, container, what)
            yield f"container:{container}"
        finally:
            with held():
                context.engine.kill_remove(container)


def _options(context: Context, image: str, init: Path, operation_id: str) -> dict[str, Any]:
    first = init_program.place()
    mount = {"Type": "bind", "Source": str(init), "Target": first, "ReadOnly": True}
    return {
        "image": image,
        "name": f"holdfast-build-{operation_id}",
        "hostname": "build",
        "entrypoint": [first],
        "command": ["start"],
        "labels": {
            "holdfast.home": context.home.digest,
            "holdfast.role": ROLE,
            "holdfast.operation": operation_id,
        },
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": 16,
        "mem_limit": _MEMORY,
        "memswap_limit": _MEMORY,
        "mounts": [mount],
        "network": networks.ensure(context.engine),
        "healthcheck": image_settings.NO_HEALTH_CHECK,
        "log_config": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
    }


def _name_servers(context: Context, container: str, what: str) -> None:
    """Make steps ask the host's resolvers: the engine's knows the names of other containers."""
    command = ["/usr/bin/python3", "-I", "-c", _RESOLVER, host_network.resolver_file()]
    code, said = context.engine.run_inside(container, command, {}, what)
    if code != 0:
        raise EngineError(
            f"cannot {what}: its name servers cannot be set: {said[-200:].decode(errors='replace')}"
        )
