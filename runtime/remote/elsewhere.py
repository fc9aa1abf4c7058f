"""A command line on an engine of another machine, from its words to its exit code.

Words that name files or streams of the caller's machine are refused or passed on (`CommandLine`, pure).
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from holdfast.engine import image_store
from holdfast.engine.engine import Engine
from holdfast.engine.engine_place import SOCKET, EnginePlace
from holdfast.engine.exec_stream import ExecStream
from holdfast.engine.image_store import ImageStore
from holdfast.errors import EngineError, InvalidArgument
from holdfast.images import build
from holdfast.runtime.remote import relay
from holdfast.runtime.remote.relay import CallerStreams, Relay

_VERBS: Mapping[str, str] = {
    "export": "pipe it: `holdfast export S - > FILE`",
    "import": "pipe it: `holdfast import - < FILE`",
    "cp": "pipe it: `holdfast cp S:PATH - | tar x`, `tar c FILE | holdfast cp - S:PATH`",
}
"""Verbs that always name a file of the caller's, unless one of their words is `-`; and what to do instead."""
_NEVER: Mapping[str, str] = {
    "ci": "run it on the engine's machine, where the job's folder is",
    "move": "run it on the engine's machine, which has the keys for the next one",
    "receive": "`holdfast move` on the engine's machine starts it",
    "mcp": "start it on the engine's machine: `ssh HOST holdfast mcp`",
    "serve": "start it on the engine's machine, and reach its port through SSH",
    "serve-captures": "run it on the engine's machine",
}
_OPTIONS: Mapping[tuple[str, str], str] = {
    ("cell", "--save"): "leave it out: `holdfast journal S --ipynb - > FILE` has the pictures",
    ("replay", "--cast"): "pipe it: `holdfast replay S --cast - > FILE`",
    ("new", "--build"): "build it on the engine's machine, and name the image with --image",
    ("new", "--devcontainer"): "run it on the engine's machine, where the project is",
    ("journal", "--ipynb"): "pipe it: `holdfast journal S --ipynb - > FILE`",
}
"""Options that name a file of the caller's, unless it is `-`."""
_FILES = "run it on the engine's machine, or import it first: `holdfast import - < FILE`"
_WITH_FILES = ("thaw", "fits")
_VALUES = "pipe it (`=@-`) or name a variable (`=env:VARIABLE`)"
_EARLY_WITH_VALUE = ("--as", "--reason")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The words of a command line.

    Attributes:
        verb: an empty string without one.
        options: the words after the verb and before `--`.
    """

    verb: str
    options: Sequence[str]

    @classmethod
    def of(cls, given: Sequence[str]) -> CommandLine:
        """Find the verb behind the options that can precede it."""
        at = 0
        while at < len(given) and given[at].startswith("-"):
            at += 2 if given[at] in _EARLY_WITH_VALUE else 1
        rest = list(given[at + 1 :])
        return cls(given[at] if at < len(given) else "", rest[: rest.index("--")] if "--" in rest else rest)


def refuse(line: CommandLine, exists: Mapping[str, bool]) -> None:
    """Refuse a command line that names the caller's files.

    `exists` says of words whether there is a file of that name here.

    Raises:
        InvalidArgument: it does; the hint says what to do instead.
    """
    verb, options = line.verb, line.options
    hint = _NEVER.get(verb) or next(
        (hint for (of, name), hint in _OPTIONS.items() if of == verb and _names_file(options, name)), None
    )
    if hint is None and verb in _VERBS and "-" not in options:
        hint = _VERBS[verb]
    if hint is None and verb == "task" and "import" in options[:1] and "-" not in options:
        hint = "pipe it: `holdfast task import S - < FILE`"
    if hint is None and verb == "artifact" and "get" in options[:1] and "-" not in options:
        hint = "pipe it: `holdfast artifact get NAME - > FILE`"
    if hint is None and verb in _WITH_FILES and any(exists.get(word) for word in options):
        hint = _FILES
    if hint is None and verb == "new" and any("=@" in word and "=@-" not in word for word in options):
        hint = _VALUES
    if hint is None and verb == "new" and _has_path(options, "--image"):
        hint = "load it there: `docker load < FILE`, and name the image with --image"
    if hint is not None:
        raise InvalidArgument(
            f"cannot {verb} with files of this machine: the engine is on a different machine", hint=hint
        )


def reads_input(line: CommandLine) -> bool:
    """Check whether a command reads standard input even when that is not a terminal."""
    words = line.options
    return (
        line.verb in ("attach", "cell")
        or any(word == "-" or word.endswith("=@-") for word in words)
        or (line.verb == "run" and any(word in ("-i", "--input") for word in words))
    )


def variables(line: CommandLine, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that go with a command line: ours, the terminal's, and the ones that it names."""
    named = {
        word.rpartition("env:")[2] for word in line.options if word.startswith("env:") or "=env:" in word
    }
    return {
        key: value
        for key, value in environment.items()
        if key in _SHOWN or key in named or (key.startswith("HOLDFAST_") and key not in _OURS)
    }


_SHOWN = frozenset(
    (
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "USER",
        "LOGNAME",
        "COLUMNS",
        "LINES",
    )
)
_OURS = frozenset(("HOLDFAST_HOME", "HOLDFAST_REMOTE", "HOLDFAST_REMOTE_HOME", "HOLDFAST_SSH"))


def _has_path(options: Sequence[str], name: str) -> bool:
    """Check whether the value of an option is a path, which names of images are not."""
    values = [word.partition("=")[2] for word in options if word.startswith(f"{name}=")]
    values += [value for word, value in pairwise(options) if word == name]
    return any(value.startswith(("/", ".", "~")) for value in values)


def _names_file(options: Sequence[str], name: str) -> bool:
    for at, word in enumerate(options):
        if word == name:
            return list(options[at + 1 : at + 2]) != ["-"]
        if word.startswith(f"{name}="):
            return word != f"{name}=-"
    return False


HOME = "HOLDFAST_REMOTE_HOME"
"""Where the state is kept on the engine's machine."""
DEFAULT_HOME = "/var/lib/holdfast"
CAPABILITIES = ("SYS_PTRACE", "DAC_READ_SEARCH")
"""To read what root can read of other processes and their files; the checkpointer has the rest."""
_SERVE = ("/opt/python/bin/python", "-I", "-m", "holdfast.runtime.remote.doorkeeper", "serve")
_WHAT = "start a controller next to the engine"
_TRIES = 5


def run(given: Sequence[str], place: EnginePlace, say: Callable[[str], None]) -> int:
    """Run a command line next to the engine, and return its exit code.

    Raises:
        EngineError: no controller can be started there.
        EngineUnavailable: the engine cannot be reached, or the connection was lost.
        ImageError: the controller's image cannot be built.
        InvalidArgument: it names files of this machine.
    """
    line = CommandLine.of(given)
    refuse(line, {word: os.path.exists(word) for word in line.options})  # noqa: PTH110 - bytes of any kind
    streams = CallerStreams.of_process(reads=reads_input(line))
    environment = variables(line, os.environ)
    with relay.connected(place) as engine:
        stream = joined(engine, relay.socket_of(place), os.environ, say)
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
        start(engine, image, name, options(home, socket, engine.info()))
    raise EngineError(
        f"cannot {_WHAT}: {name} does not stay up", hint=f"`docker logs {name}` there can say why"
    )


def start(engine: Engine, image: str, name: str, how: dict[str, Any]) -> None:
    """Start a container with the rights of a controller, with options of the SDK.

    Raises:
        EngineError: it cannot be started.
    """
    try:
        engine.run_service(image, _WHAT, **{**how, "name": name})
    except EngineError as error:
        if "shared or slave mount" not in str(error):
            raise
        # A machine whose mounts do not spread: sessions work, but what they share with it has no limit.
        (home,) = how["volumes"]
        alone = {home: {"bind": home, "mode": "rw"}}
        engine.run_service(image, _WHAT, **{**how, "name": name, "volumes": alone})


def home_of(environment: Mapping[str, str]) -> str:
    """Return the home on the engine's machine.

    Raises:
        InvalidArgument: it is not an absolute path.
    """
    home = posixpath.normpath(environment.get(HOME) or DEFAULT_HOME)
    if not home.startswith("/") or home == "/" or ":" in home or not home.isprintable():
        raise InvalidArgument(
            f"cannot use the {HOME} {home!r}: it must be an absolute path, without a colon",
            hint=f"name a folder on the engine's machine; without it, {DEFAULT_HOME} is used",
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
