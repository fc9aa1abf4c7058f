"""Provisioning: from a row of the store to a container whose supervisor answers.

The steps are separate because a restore does something between them. Each labels what it makes with the
operation, so that it can be found and undone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.base.home import Home
from holdfast.base.interrupts import held
from holdfast.base.text import plain
from holdfast.engine import disk_limits, networks
from holdfast.engine.engine import Engine
from holdfast.engine.machine_facts import INSTEAD
from holdfast.errors import (
    EngineUnfit,
    GuestDisconnected,
    HoldfastError,
    InvalidArgument,
    SessionError,
    SessionExists,
)
from holdfast.runtime.egress import close_network
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.sessions import (
    identity_messages,
    image_settings,
    init_program,
    name_files,
    shared_folder,
)
from holdfast.runtime.sessions.session_options import SessionOptions, container_options
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.rows import SessionRow

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.row_details import SessionDetails
    from holdfast.runtime.store.store import Store
    from holdfast.snapshots.manifest import Manifest


# A supervisor answers within half a second on an idle machine.
START_SECONDS = 60.0
POLL_SECONDS = 0.002
ASK_SECONDS = 0.25
_TRIES = 8


def labels(home: Home, row: SessionRow, operation_id: str, role: str = "session") -> dict[str, str]:
    """Return the labels by which a container of ours is found."""
    return {
        "holdfast.session": row.id,
        "holdfast.home": home.digest,
        "holdfast.role": role,
        "holdfast.operation": operation_id,
    }


def container_name(session_id: str) -> str:
    """Return the name of a session's container."""
    return f"holdfast-{session_id}"


@dataclass(frozen=True, slots=True)
class TemporaryPlace:
    """The temporary place of a container that will later replace another.

    Until then a suffix is appended to its name and to its folder's. It also holds the future addresses.
    """

    aside: str = ""
    addresses: tuple[str, ...] = ()

    def run_dir(self, home: Home, session_id: str) -> Path:
        """Return the folder that the container shares with the host."""
        return home.run_dir(session_id + self.aside)


HERE = TemporaryPlace()


def require_fit(engine: Engine) -> None:
    """Refuse an engine on which sessions cannot run.

    Raises:
        EngineUnfit: it is one.
    """
    if engine.unfit:
        raise EngineUnfit(f"cannot run sessions on this engine: {engine.unfit}", hint=INSTEAD)


def prepare_run_dir(context: Context, row: SessionRow, place: TemporaryPlace = HERE) -> Path:
    """Make the folder that the session will see.

    Raises:
        StoreError: the folder cannot be made.
    """
    return shared_folder.make(context.engine, context.home, row.id + place.aside, context.progress)


def create_container(
    engine: Engine,
    home: Home,
    row: SessionRow,
    operation_id: str,
    init: Path,
    command: Iterable[str] = ("start",),
    kept: Manifest | None = None,
    place: TemporaryPlace = HERE,
    waits: str = "",
    *,
    bridge: str | None = None,
) -> str:
    """Create, but do not start, the container of a session, leave its identity for it, and return its id.

    Args:
        init: the program of its first process (`init_program`).
        kept: the snapshot that it is made from, if any.
        waits: the parts that are to be ready if it is to wait in a pool (`identity.WAITS`).
        bridge: the sessions' network, if it has been made sure of.

    Raises:
        InvalidArgument: something that the options name does not exist on the host.
        EngineError, ImageError: the engine refuses, or is unfit for sessions.
    """
    from holdfast.images import seccomp

    require_fit(engine)
    options = SessionOptions.parse(**row.options)
    for mount in options.mounts:
        if not Path(mount.source).exists():
            raise InvalidArgument(
                f"cannot mount {plain(mount.source, 200)}: the file or folder does not exist"
            )
    network = "none" if options.network == "none" else bridge or networks.ensure(engine)
    if options.disk is not None and engine.disk_fault:
        raise InvalidArgument(
            f"cannot limit the session's files to {options.disk} bytes: {engine.disk_fault}",
            hint="leave --disk out, or move the engine's folder to xfs that is mounted with `pquota`",
        )
    made: dict[str, Any] = container_options(
        options,
        name=container_name(row.id) + place.aside,
        hostname=row.name,
        image=row.image,
        command=command,
        labels=_labels(engine, home, row, operation_id, options.image),
        run_dir=place.run_dir(home, row.id),
        init=init,
        first=init_program.place(),
        seccomp=seccomp.profile(),
        network=network,
        mptcp=Path("/proc/sys/net/mptcp/enabled").exists(),
        ipv6=Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6").exists(),
        resolver=close_network.resolver_file(home),
        names=name_files.make(place.run_dir(home, row.id), row.name),
        trust=_trust(home, row.id) if options.secrets else None,
        disk=None if engine.disk_fault else options.disk or disk_limits.DEFAULT,
    )
    if place.addresses and network != "none":
        made["networking_config"] = networks.endpoint(network, place.addresses)
    with held():
        container = engine.create_session_container(**made)
    if options.secrets:
        from holdfast.runtime.egress import gateway

        gateway.install_roots(engine, home, row.id, container)
    identity_messages.say_who(
        place.run_dir(home, row.id), replace(row, container_id=container), kept, waits=waits
    )
    return container


def _trust(home: Home, session_id: str) -> Path:
    from holdfast.runtime.egress import gateway

    return gateway.trust_folder(home, session_id)


def _labels(
    engine: Engine, home: Home, row: SessionRow, operation_id: str, chosen: str | None
) -> dict[str, str]:
    """Return our own labels only. Our own images do not have others to override, so they are not
    inspected."""
    ours = labels(home, row, operation_id)
    config = engine.images.config(row.image) if chosen is not None else None
    return image_settings.without_labels(config or {}, ours)


def start(engine: Engine, container_id: str) -> None:
    """Start a created container.

    Raises:
        ImageError: a file of its image is in the way of a mount.
        EngineError: the engine refuses.
    """
    with held():
        engine.start(container_id)


def await_guest(
    engine: Engine, container_id: str, folder: Path, check: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Wait until the supervisor answers and return its greeting.

    `check` is called between attempts and can raise to give up.

    Raises:
        SessionError: the container ended, or the supervisor did not answer for a minute.
    """
    client = GuestClient(folder)
    deadline = time.monotonic() + START_SECONDS
    ask = time.monotonic() + ASK_SECONDS
    while True:
        try:
            return client.request("hello").head
        except GuestDisconnected as error:
            last = error
        check()
        now = time.monotonic()
        if now >= ask:
            ask = now + ASK_SECONDS
            _check_running(engine, container_id)
        if now >= deadline:
            raise SessionError(
                f"cannot start session: its supervisor does not answer ({last})",
                hint=_log(engine, container_id),
            ) from last
        time.sleep(POLL_SECONDS)


def _check_running(engine: Engine, container_id: str) -> None:
    state = engine.inspect(container_id)
    if state is None:
        raise SessionError("cannot start session: its container was removed")
    if not state.running:
        if refusal := _refusal(engine, container_id):
            raise SessionError(refusal, hint="--shell and --user choose others")
        why = "it needs more memory" if state.oom_killed else f"exit code {state.exit_code}"
        raise SessionError(
            f"cannot start session: its supervisor ended ({why})", hint=_log(engine, container_id)
        )


def _refusal(engine: Engine, container_id: str) -> str:
    """Return why the supervisor refuses the options of its session, or an empty string."""
    _, refuses, why = _log(engine, container_id).rpartition("LookupError: cannot ")
    return f"cannot {why}" if refuses else ""


def _log(engine: Engine, container_id: str) -> str:
    """Return the last log line of the supervisor or the first process."""
    try:
        text = engine.files.read(container_id, str(layout.STATE_DIR / "supervisor.log")) or engine.logs(
            container_id
        )
    except HoldfastError:
        return ""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return f"its log ends with: {plain(lines[-1], 300)}" if lines else ""


def register(
    store: Store,
    name: str | None,
    image: str,
    options: dict[str, Any],
    *,
    session_id: str,
    details: SessionDetails,
    **columns: Any,
) -> SessionRow:
    """Reserve a name and record a session that is about to be made; `columns` as for `Store.add_session`.

    Its lifetime is within the quota of the home.

    Raises:
        SessionExists: the name is taken.
        QuotaReached: that is more than the quota of the home.
    """
    details = lifetime.limited_details(store.database.folder, store.made_by_user(details))
    made = {"details": details, **columns}
    made_up = [*(ids.new_name() for _ in range(_TRIES)), f"s-{session_id[:6]}"]
    for chosen in [name] if name else made_up:
        try:
            return store.add_session(chosen, image, options, session_id=session_id, **made)
        except SessionExists as error:
            taken = error
    raise taken
