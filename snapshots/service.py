"""The checkpointer's container: found, or started when it is first needed.

There is one for each state directory and version of its image. It ends automatically after ten minutes
without a request, so nothing here stops it in normal operation.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.base import locks
from holdfast.base.home import Home
from holdfast.engine.container_mounts import bind, seen_by_engine
from holdfast.engine.engine import Engine
from holdfast.errors import EngineError, EngineUnavailable, ImageError, LiveUnsupported, StoreError
from holdfast.images import build
from holdfast.snapshots.link import SOCKET, CheckpointerLink, LinkLost

START_SECONDS = 120.0
"""While its container runs; on a machine with many more programs than processors, 30 were not enough."""
POLL_SECONDS = 0.005

# Each with its reason; the others are those a session may have, which a restored process gets back.
CAPABILITIES = (
    "SYS_ADMIN",  # enter namespaces, choose pids, read and restore seccomp filters
    "SYS_PTRACE",  # stop and read the session's processes
    "SYS_TIME",  # restored clocks continue: time namespaces (time_namespaces(7))
    "NET_ADMIN",  # read and repair TCP connections
    "NET_RAW",  # half-closed connections: CRIU replays the end of the stream by a packet of its own
    "DAC_READ_SEARCH",
    "IPC_OWNER",  # read System V shared memory that belongs to other users, as PostgreSQL's does
    "SYS_RESOURCE",  # limits and pipe sizes above the default; some machines cannot grant it
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "SETFCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "LEASE",  # learn whether a file is open for writing (fcntl(2), F_SETLEASE)
)
_OPTIONAL = "SYS_RESOURCE"
# Its limits on the host. Memory includes what it writes, until that is on the disk: with less than a
# session has, it would wait for the disk while that session is frozen. The tasks of a tree being restored
# are in it until they join their own cgroups, four restores at a time.
MEMORY_LEAST = 2 << 30
PIDS = 32768
TMPFS = "256m"
_FOLDER = "holdfast.folder"


def ask(
    engine: Engine, home: Home, progress: Callable[[str], None], op: str, /, **fields: object
) -> CheckpointerLink:
    """Send one request to the checkpointer; start it if necessary.

    Raises:
        LiveUnsupported: it cannot be started on this engine.
        StoreError: the engine cannot use the home.
        ImageError: its image cannot be built.
    """
    image = build.toolbox()
    where = socket_folder(home, image)
    try:
        return CheckpointerLink(where, op, **fields)
    except LinkLost:
        is_new = _start(engine, home, build.ensure(engine.images, "toolbox", progress))
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return CheckpointerLink(where, op, **fields)
        except LinkLost:
            if time.monotonic() > deadline:
                raise
        state = engine.inspect(container_name(home, image))
        if state is None or not state.running:
            if is_new:
                raise EngineError(
                    "cannot start the checkpointer: its container ended immediately",
                    hint="`holdfast doctor` shows why",
                )
            # The one that was found was about to end, because it had been idle for long.
            is_new = _start(engine, home, image)
        time.sleep(POLL_SECONDS)


def start_early(engine: Engine, home: Home, progress: Callable[[str], None]) -> None:
    """Start the checkpointer unless its socket exists. `ask` finds out whether it answers.

    Raises:
        LiveUnsupported: it cannot be started on this engine.
        ImageError: its image cannot be built.
        EngineError: the engine failed.
    """
    if not (socket_folder(home, build.toolbox()) / SOCKET).exists():
        with ask(engine, home, progress, "hello") as link:
            link.until("done")


def stop(engine: Engine, home: Home) -> None:
    """End every checkpointer of this home."""
    for container in engine.containers(holdfast_home=home.digest, holdfast_role="checkpointer"):
        engine.kill_remove(container)


def container_name(home: Home, image: str) -> str:
    """Return the name of this home's checkpointer that runs on an image."""
    return f"holdfast-checkpointer-{home.digest}-{image.rpartition(':')[2]}"


def socket_folder(home: Home, image: str) -> Path:
    """Return the folder where the socket of that checkpointer appears."""
    folder = home.root / "checkpointer" / image.rpartition(":")[2]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _folder(home: Home, image: str) -> str:
    """Return the folder's identity beyond its name. While it is mounted, no other folder gets its number."""
    found = socket_folder(home, image).stat()
    return f"{found.st_dev}-{found.st_ino}"


def _start(engine: Engine, home: Home, image: str) -> bool:
    """Start the container; return False if there is one. That of another process serves equally well.

    Unless it serves a folder that was removed since: the present one with the same name is different. One
    process at a time: a container that is not yet started looks like one that has ended.
    """
    with locks.whole_file(home.locks / "checkpointer"):
        return _start_alone(engine, home, image)


def _start_alone(engine: Engine, home: Home, image: str) -> bool:
    name = container_name(home, image)
    state = engine.inspect(name)
    if state is not None and state.running and state.labels.get(_FOLDER) == _folder(home, image):
        return False
    if state is not None:
        engine.kill_remove(state.id)
    # A host that lacks the optional capability cannot give it to a container; CRIU can do without it.
    fewer = tuple(capability for capability in CAPABILITIES if capability != _OPTIONAL)
    for layers, capabilities in itertools.product(_layer_folders(engine), (CAPABILITIES, fewer)):
        try:
            with seen_by_engine(home.root):
                _run(engine, home, image, capabilities, layers)  # if the name is taken, another process did
            return True
        except EngineUnavailable:
            raise
        except (EngineError, ImageError, StoreError) as error:
            engine.kill_remove(name)
            if isinstance(error, StoreError):
                raise
            failure = error
    raise LiveUnsupported(
        str(failure),
        hint="`holdfast doctor` says what this engine lacks; `--kind filesystem` works without it",
    ) from failure


def _layer_folders(engine: Engine) -> list[Path | None]:
    """Return the folders of layers to try, None for none.

    Only root is certain where containerd has its own. The engine refuses a folder that does not exist, and
    the checkpointer compares it with the mounts of each container; without it, the engine keeps the files.
    """
    places = engine.layers.places()
    return [*places] if len(places) == 1 else [*places, None]


def _run(engine: Engine, home: Home, image: str, capabilities: tuple[str, ...], layers: Path | None) -> None:
    options: dict[str, Any] = {
        "name": container_name(home, image),
        "labels": {
            "holdfast.home": home.digest,
            "holdfast.role": "checkpointer",
            _FOLDER: _folder(home, image),
        },
        "auto_remove": True,
        "pid_mode": "host",
        "network_mode": "none",
        "cgroupns": "host",
        "cap_drop": ["ALL"],
        "cap_add": list(capabilities),
        # It reads and writes other containers' processes: no profile or label of a container allows that.
        "security_opt": ["seccomp=unconfined", "apparmor=unconfined", "label=disable"],
        "read_only": True,
        "tmpfs": {"/run": f"size={TMPFS}", "/tmp": f"size={TMPFS}"},  # noqa: S108 - inside the container
        "mem_limit": memory_limit(),
        "memswap_limit": memory_limit(),
        "pids_limit": PIDS,
        "shm_size": "16m",
        "mounts": [
            bind(home.root, "/state"),
            bind(socket_folder(home, image), "/run/holdfast"),
            bind(Path("/sys/fs/cgroup"), "/host/cgroup"),
        ],
    }
    if layers is not None:
        options["environment"] = {"HOLDFAST_LAYERS": str(layers)}
        # Mounts of the engine below it must not be held here: they are left out, and end when they end there.
        options["mounts"].append(bind(layers, "/layers", read_only=True, recursive=False))
    engine.run_service(image, "start the checkpointer", **options)


def memory_limit() -> int:
    """Return the memory limit of a checkpointer in bytes: half of the host's, at least its own need."""
    return max(MEMORY_LEAST, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
