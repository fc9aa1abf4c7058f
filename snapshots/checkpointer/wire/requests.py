"""Requests to the checkpointer, and their form.

Pure: a line of JSON in, a checked request out. Nothing here opens, reads or runs anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.snapshots.checkpointer.egress import netrules
from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules

PROTOCOL = 1
MAX_LINE = 64 * 1024
MAX_SUBSTITUTES = 256  # MOST in guard_substitute.c
MAX_PLACES = 1000
COPY_LIMIT = 300.0
"""Seconds that a session can be frozen while its files and its shared memory are copied."""

_CONTAINER = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[0-9a-f]{12}")
_PLACE = re.compile(r"(/(?!\.{0,2}(/|\Z))[^/\0]{1,255}){1,100}")
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FOLDER = re.compile(r"[0-9a-f]{12}([.-][0-9a-z]{1,20}){0,3}")


class BadRequest(Exception):
    """The request is not valid."""


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """One session, as the engine knows it.

    `init_pid` is the container's first process in the host's PID namespace; `root_pid` is the root of the
    tree that is captured, in the container's own PID namespace: the supervisor's parent, or an older
    supervisor itself.
    """

    container: str
    init_pid: int
    root_pid: int


@dataclass(frozen=True, slots=True)
class Substitute:
    """A descriptor that is left out of the copy, and of every process it is shared with; pids are inner ones.

    `with_what` is "null": something that is never ready, or at its end (guard_substitute.c).
    """

    pid: int
    fd: int
    with_what: str = "null"


@dataclass(frozen=True, slots=True)
class Dump:
    """Capture the target's tree into staging folder `folder`; end it afterwards unless `leave_running`.

    `limit`: seconds in which files and shared memory are to be copied while it is frozen. `twins`: large
    heaps can be copied when it runs again. `snapshot`: have writes to them noted from now on, under this id.
    `since`: the id of the snapshot that has what was not written since; its images are there until the end.
    """

    target: CaptureTarget
    folder: str
    leave_running: bool
    substitute: tuple[Substitute, ...] = ()
    limit: float = COPY_LIMIT
    twins: bool = True
    snapshot: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Report what blocks a capture of the target's tree; with `everything`, also what would survive it.

    `mounts` are the places in the container where folders of the host are mounted, `supervisor` is the inner
    pid of the supervisor, which is the root or a child of it.
    """

    target: CaptureTarget
    everything: bool
    mounts: tuple[str, ...]
    supervisor: int


@dataclass(frozen=True, slots=True)
class EndRequest:
    """End processes of the target's tree, named by their inner pids, and their descendants, except for the
    supervisor.
    """

    target: CaptureTarget
    pids: tuple[int, ...]
    supervisor: int


@dataclass(frozen=True, slots=True)
class Mend:
    """Resume connections in the container that an interrupted capture left suspended."""

    container: str
    init_pid: int


@dataclass(frozen=True, slots=True)
class HostName:
    """Give a running container a new host name."""

    container: str
    init_pid: int
    name: str


@dataclass(frozen=True, slots=True)
class ReadOnlyRoot:
    """The writable places of a container whose root is read-only.

    That is `own`, the needed ones, and `folders`, the requested ones; and the folders among the `usual`
    places. `files` are mounts of the engine in it, to be read-only as well.
    """

    own: tuple[str, ...]
    folders: tuple[str, ...]
    usual: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MountedPlaces:
    """Paths in a container where something is mounted: `own`, which no link leads to, and `given`, which
    can be reached through links of the image.
    """

    own: tuple[str, ...]
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Confine:
    """Check the rules for the network of the container, after setting them if `load`.

    With `release`, the container's first process, which waits for that, continues, if everything is mounted
    in its place; with `root`, in a container whose root is read-only. With `links`, packets that programs
    give to a link are judged too.
    """

    container: str
    init_pid: int
    rules: NetworkRules
    load: bool
    release: bool
    root: ReadOnlyRoot | None = None
    links: bool = False
    places: MountedPlaces | None = None


@dataclass(frozen=True, slots=True)
class Attempts:
    """Report recent refusals by the rules of a container's network."""

    container: str
    init_pid: int


@dataclass(frozen=True, slots=True)
class LeaseGate:
    """Let a container's network be open until an instant of CLOCK_BOOTTIME, in seconds, and no longer."""

    container: str
    init_pid: int
    until: float


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring the tree in snapshot `folder` to life inside the target.

    `lazy`: memory is loaded while it runs, large heaps in a moment; `on_touch`: these only as they are
    touched, or when a capture needs all of them. `last_pid` is where the PID allocator continues.
    `old_addresses` are replaced by the address of the same family in `new_addresses`; connections to
    anywhere else are closed.
    """

    target: CaptureTarget
    folder: str
    scratch: str
    lazy: bool
    on_touch: bool
    last_pid: int
    old_addresses: tuple[str, ...]
    new_addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hello:
    """Ask for the checkpointer's versions, once no restore into `container` is in progress."""

    container: str | None


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe the processes in the images of staging folder `folder`.

    `ours`: they were just captured here, and the answer says what a restore would refuse of them. With
    `target`, their session is frozen, so that the names in them can be followed there.
    """

    folder: str
    ours: bool = False
    target: CaptureTarget | None = None


@dataclass(frozen=True, slots=True)
class CopyFiles:
    """Copy the container's layer into staging folder `folder`, together with `flatten` layers below it.

    With `last` the second time: only the changes since, in `limit` seconds; then the copy is complete. The
    caller ensures that the container is frozen then.
    """

    container: str
    init_pid: int
    folder: str
    flatten: int
    last: bool
    limit: float = COPY_LIMIT


@dataclass(frozen=True, slots=True)
class ApartFiles:
    """Make the files of snapshot `folder` that its image cannot hold, in a container that does not run
    yet."""

    container: str
    init_pid: int
    folder: str


@dataclass(frozen=True, slots=True)
class Room:
    """Make or remove the room of folder `folder` below `home`/run.

    `engine` is a process in the mount namespace in which the engine looks up folders, `home` a path there.
    """

    home: str
    folder: str
    engine: int
    make: bool


Request = (
    Dump
    | Restore
    | Hello
    | CheckRequest
    | EndRequest
    | Mend
    | HostName
    | Confine
    | Attempts
    | LeaseGate
    | Describe
    | CopyFiles
    | ApartFiles
    | Room
)


def parse(line: bytes) -> Request:
    """Check one request.

    Raises:
        BadRequest: it is not valid; the message is a sentence for the caller.
    """
    if len(line) > MAX_LINE:
        raise BadRequest("the request is too long")
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the request is not JSON: {error}") from error
    if not isinstance(raw, dict) or raw.get("v") != PROTOCOL:
        raise BadRequest(f"the request does not have protocol version {PROTOCOL}")
    return _parsed(raw)


def _parsed(raw: dict[str, object]) -> Request:
    form = _FORMS.get(str(raw.get("op")))
    if form is None:
        raise BadRequest(f"unknown operation {raw.get('op')!r}")
    return form(raw)


def _restore(raw: dict[str, object]) -> Restore:
    return Restore(
        target=_target(raw),
        folder=_name(raw, "folder"),
        scratch=_name(raw, "scratch"),
        lazy=bool(raw.get("lazy", False)),
        on_touch=bool(raw.get("on_touch", False)),
        last_pid=_pid(raw, "last_pid"),
        old_addresses=_strings(raw, "old_addresses"),
        new_addresses=_strings(raw, "new_addresses"),
    )


def _host_name(raw: dict[str, object]) -> str:
    name = raw.get("name")
    if not isinstance(name, str) or not _HOST_NAME.fullmatch(name):
        raise BadRequest("name is not a host name")
    return name


def _confine(raw: dict[str, object]) -> Confine:
    return Confine(
        _container(raw),
        _pid(raw, "init_pid"),
        _rules(raw),
        bool(raw.get("load", False)),
        bool(raw.get("release", False)),
        _root(raw.get("root")),
        bool(raw.get("links", False)),
        _mounted(raw.get("places")),
    )


def _mounted(raw: object) -> MountedPlaces | None:
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise BadRequest("'places' must be an object")
    return MountedPlaces(_places(raw, "own"), _places(raw, "given"))


def _root(raw: object) -> ReadOnlyRoot | None:
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise BadRequest("'root' must be an object")
    return ReadOnlyRoot(
        _places(raw, "own"), _places(raw, "folders"), _places(raw, "usual"), _places(raw, "files")
    )


def _files(raw: dict[str, object]) -> CopyFiles:
    return CopyFiles(
        _container(raw),
        _pid(raw, "init_pid"),
        _name(raw, "folder"),
        _count(raw, "flatten"),
        bool(raw.get("last", False)),
        _limit(raw),
    )


_FORMS: dict[str, Callable[[dict[str, object]], Request]] = {
    "hello": lambda raw: Hello(None if raw.get("container") is None else _container(raw)),
    "dump": lambda raw: Dump(
        _target(raw),
        _name(raw, "folder"),
        bool(raw.get("leave_running", True)),
        _substitutes(raw),
        _limit(raw),
        raw.get("twins") is not False,
        _name(raw, "snapshot") if raw.get("snapshot") else "",
        _name(raw, "since") if raw.get("since") else "",
    ),
    "check": lambda raw: CheckRequest(
        _target(raw), bool(raw.get("everything")), _strings(raw, "mounts"), _pid(raw, "supervisor")
    ),
    "end": lambda raw: EndRequest(_target(raw), _pids(raw, "pids"), _pid(raw, "supervisor")),
    "host_name": lambda raw: HostName(_container(raw), _pid(raw, "init_pid"), _host_name(raw)),
    "mend": lambda raw: Mend(_container(raw), _pid(raw, "init_pid")),
    "confine": _confine,
    "attempts": lambda raw: Attempts(_container(raw), _pid(raw, "init_pid")),
    "lease": lambda raw: LeaseGate(_container(raw), _pid(raw, "init_pid"), _instant(raw, "until")),
    "restore": _restore,
    "describe": lambda raw: Describe(
        _name(raw, "folder"),
        raw.get("ours") is True,
        None if raw.get("container") is None else _target(raw),
    ),
    "files": _files,
    "apart": lambda raw: ApartFiles(_container(raw), _pid(raw, "init_pid"), _name(raw, "folder")),
    "room": lambda raw: Room(
        _path(raw, "home"), _folder(raw, "folder"), _pid(raw, "engine", 1), raw.get("make") is True
    ),
}


def _rules(raw: dict[str, object]) -> NetworkRules:
    try:
        return netrules.parsed(raw.get("rules"))
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _target(raw: dict[str, object]) -> CaptureTarget:
    return CaptureTarget(_container(raw), _pid(raw, "init_pid"), _pid(raw, "root_pid"))


def _container(raw: dict[str, object]) -> str:
    value = raw.get("container")
    if not isinstance(value, str) or not _CONTAINER.fullmatch(value):
        raise BadRequest("'container' must be 64 hexadecimal digits")
    return value


def _name(raw: dict[str, object], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadRequest(f"{key!r} must be 12 hexadecimal digits")
    return value


def _folder(raw: dict[str, object], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not _FOLDER.fullmatch(value):
        raise BadRequest(f"{key!r} must be the name of a session's folder")
    return value


def _path(raw: dict[str, object], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise BadRequest(f"{key!r} must be an absolute path")
    return value


def _pid(raw: dict[str, object], key: str, least: int = 2) -> int:
    value = raw.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**22:
        raise BadRequest(f"{key!r} must be a process id")
    return value


def _pids(raw: dict[str, object], key: str) -> tuple[int, ...]:
    value = raw.get(key)
    if not isinstance(value, list) or len(value) > MAX_SUBSTITUTES:
        raise BadRequest(f"{key!r} must be a list of at most {MAX_SUBSTITUTES}")
    return tuple(_pid({key: item}, key) for item in value)


def _substitutes(raw: dict[str, object]) -> tuple[Substitute, ...]:
    value = raw.get("substitute", [])
    if not isinstance(value, list) or len(value) > MAX_SUBSTITUTES:
        raise BadRequest(f"'substitute' must be a list of at most {MAX_SUBSTITUTES}")
    return tuple(_substitute(item) for item in value)


def _substitute(item: object) -> Substitute:
    if not isinstance(item, dict) or item.get("with") != "null":
        raise BadRequest("an item of 'substitute' must be {pid, fd, with: \"null\"}")
    fd = item.get("fd")
    if not isinstance(fd, int) or isinstance(fd, bool) or not 0 <= fd < 2**30:
        raise BadRequest("'fd' must be a descriptor")
    return Substitute(_pid(item, "pid"), fd)


def _instant(raw: dict[str, object], key: str) -> float:
    value = raw.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 2**40:
        raise BadRequest(f"{key!r} must be seconds on CLOCK_BOOTTIME")
    return float(value)


def _count(raw: dict[str, object], key: str) -> int:
    value = raw.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 128:
        raise BadRequest(f"{key!r} must be a number of layers")
    return value


def _limit(raw: dict[str, object]) -> float:
    value = raw.get("limit", COPY_LIMIT)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= COPY_LIMIT:
        raise BadRequest(f"'limit' must be a number of seconds, at most {COPY_LIMIT:g}")
    return float(value)


def _places(raw: dict[str, object], key: str) -> tuple[str, ...]:
    """Return paths in a container, in their plain form: nothing leads up, and no slash ends one."""
    found = _strings(raw, key)
    if len(found) > MAX_PLACES or not all(_PLACE.fullmatch(path) for path in found):
        raise BadRequest(f"{key!r} must be at most {MAX_PLACES} absolute paths in their plain form")
    return found


def _strings(raw: dict[str, object], key: str) -> tuple[str, ...]:
    if isinstance(value := raw.get(key, []), list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise BadRequest(f"{key!r} must be a list of strings")
