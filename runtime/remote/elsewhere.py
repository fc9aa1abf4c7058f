"""A command line on an engine of another machine, from its words to its exit code."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from holdfast.engine import image_store
from holdfast.engine.engine import Engine
from holdfast.engine.engine_place import SOCKET, EnginePlace
from holdfast.engine.exec_stream import ExecStream
from holdfast.engine.image_store import ImageStore
from holdfast.errors import EngineError, InvalidArgument
from holdfast.images import build
from holdfast.runtime.remote import engine_tunnel, local_paths
from holdfast.runtime.remote.relay import CallerStreams, Relay

HOME = "HOLDFAST_REMOTE_HOME"
"""Where the state is kept on the engine's machine."""
DEFAULT_HOME = "/var/lib/holdfast"
CAPABILITIES = ("SYS_PTRACE", "DAC_READ_SEARCH")
"""To read what root can read of other processes and their files; the checkpointer has the rest."""
_SERVE = ("/opt/python/bin/python", "-I", "-m", "holdfast.runtime.remote.doorkeeper", "serve")
_WHAT = "start a controller next to the engine"
_TRIES = 5


def run(given: Sequence[str], place: EnginePlace, say: Callable[[str], None]) -> int:
    """Run a command line beside the engine, and return its exit code.

    Raises:
        EngineError: no controller can be started there.
        EngineUnavailable: the engine cannot be reached, or the connection was lost.
        ImageError: the controller's image cannot be built.
        InvalidArgument: it names files of this machine.
    """
    line = local_paths.CommandLine.of(given)
    local_paths.refuse(line, {word: os.path.exists(word) for word in line.options})  # noqa: PTH110 - bytes of any kind
    streams = CallerStreams.of_process(reads=local_paths.reads_input(line))
    environment = local_paths.variables(line, os.environ)
    with engine_tunnel.connected(place) as engine:
        stream = joined(engine, engine_tunnel.socket_of(place), os.environ, say)
        with closing(stream):
            return Relay(stream, streams).run(list(given), environment)


def joined(
    engine: Engine, socket: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> ExecStream:
    """Start a doorkeeper in the container, and create the container if it does not exist.

    Args:
        engine: of the other machine.
        socket: the path of the engine's socket on that machine.
        environment: of the caller, which may name the home there.
        say: gets a line for each step of building the image.

    Raises:
        EngineError: it cannot be started.
        ImageError: its image cannot be built.
        InvalidArgument: the home is not an absolute path.
    """
    home = home_of(environment)
    image = build.ensure(engine.images, "controller", say)
    name = name_of(home, image)
    for _ in range(_TRIES):
        # False if another caller makes it now, or it has just ended and is being removed.
        stream = engine.join_inside(name, list(_SERVE), _WHAT)
        if stream is not None:
            return stream
        state = engine.inspect(name)
        if state is not None and not state.running:
            engine.kill_remove(state.id)
        _start(engine, image, name, options(home, socket, engine.info()))
    raise EngineError(
        f"cannot {_WHAT}: {name} does not stay up", hint=f"`docker logs {name}` there can say why"
    )


def _start(engine: Engine, image: str, name: str, how: dict[str, Any]) -> None:
    try:
        engine.run_service(image, _WHAT, name=name, **how)
    except EngineError as error:
        if "shared or slave mount" not in str(error):
            raise
        # A machine whose mounts do not spread: sessions work, but what they share with it has no limit.
        (home,) = how["volumes"]
        alone = {home: {"bind": home, "mode": "rw"}}
        engine.run_service(image, _WHAT, name=name, **{**how, "volumes": alone})


def home_of(environment: Mapping[str, str]) -> str:
    """Return the home on the engine's machine.

    Raises:
        InvalidArgument: it is not an absolute path.
    """
    home = posixpath.normpath(environment.get(HOME) or DEFAULT_HOME)
    if not home.startswith("/") or home == "/" or ":" in home or not home.isprintable():
        raise InvalidArgument(
            f"cannot use the {HOME} {home!r}: it must be an absolute path, without a colon",
            hint=f"a folder on the engine's machine; {DEFAULT_HOME} if it is not set",
        )
    return home


def name_of(home: str, image: str) -> str:
    """Return the name of the container: one for each home and version."""
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    return f"holdfast-controller-{digest}-{image.rpartition(':')[2][:12]}"


def options(home: str, socket: str, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the container is made, as options of the SDK.

    Args:
        home: on the engine's machine.
        socket: the engine's, there.
        info: what the engine reports of itself.
    """
    return {
        "auto_remove": True,
        "cap_add": list(CAPABILITIES),
        "security_opt": ["seccomp=unconfined", "apparmor=unconfined", "label=disable"],
        "userns_mode": "host",
        "pid_mode": "host",
        "cgroupns": "host",
        "network_mode": "host",
        # Of the kind for which the engine makes the folder. Sessions' mounts in it are made for the engine.
        "volumes": {home: {"bind": home, "mode": "rw,rslave"}},
        "mounts": [
            _bind(socket, SOCKET),
            _bind("/sys/fs/cgroup"),
            *(_bind(each, read_only=True) for each in _data(info)),
        ],
        "environment": {"HOLDFAST_HOME": home, "HOLDFAST_REMOTE": "no", "LANG": "C.UTF-8"},
        "labels": {"holdfast.controller": home},
    }


def _bind(path: str, at: str = "", *, read_only: bool = False) -> dict[str, Any]:
    return {"Type": "bind", "Source": path, "Target": at or path, "ReadOnly": read_only}


def _data(info: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders in which the engine keeps layers."""
    if root := info.get("DockerRootDir"):
        yield str(root)
    if image_store.kind(info) is ImageStore.CONTAINERD and image_store.is_systems(info):
        yield str(image_store.SYSTEM)
