"""The check before a capture, and the removal of obstacles that the caller named.

The check costs milliseconds and disturbs nothing. Whatever blocks the capture is reported by name. Only what
the caller names with `force_drop` is ended, or left out of the copy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.base import polling
from holdfast.base.text import plain
from holdfast.errors import (
    CaptureFailed,
    GuestDisconnected,
    GuestError,
    HoldfastError,
    LiveUnsupported,
    SessionDead,
)
from holdfast.runtime.capture import capture_failures, copied_amounts
from holdfast.runtime.capture.capture_record import root_of
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.sessions import health
from holdfast.snapshots import service, survivability
from holdfast.snapshots.checkpointer.survey.catalogue import CATALOGUE
from holdfast.snapshots.link import CheckpointerFailed, Target
from holdfast.snapshots.survivability import Resource, Survivability

if TYPE_CHECKING:
    from holdfast.engine.container_state import ContainerState
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

MAX_SHOWN = 50
"""The most findings that an error carries."""
ARRIVING = 120.0
"""Seconds to wait for memory that is still being restored."""


@dataclass(frozen=True, slots=True)
class Clearance:
    """The result of a check that nothing blocks.

    Attributes:
        left_out: the descriptors to leave out.
        versions: the checkpointer's answer to "hello"; None if it could not check.
        memory_bytes: the memory of the session's processes; 0 if it could not check.
        changed_bytes: the size of files changed since the session's image; 0 if it could not check.
        processes: the number of the session's processes; 0 if it could not check.
    """

    left_out: list[dict[str, Any]]
    versions: Mapping[str, Any] | None
    memory_bytes: int = 0
    changed_bytes: int = 0
    processes: int = 0


def report(context: Context, session: SessionRow) -> Survivability:
    """Return the resources that a capture of a running session would keep and lose now.

    Raises:
        SessionDead, GuestError: the session does not run or answer.
        LiveUnsupported, CaptureFailed, EngineError: the check is not possible.
    """
    container = context.engine.inspect(session.container_id or "")
    if container is None or not container.running:
        raise SessionDead(f"cannot check session {session.name}: its container is gone")
    health.check_awake(context, session, container)
    return _Check(context, session, container).loaded(everything=True)


def clear(
    context: Context, session: SessionRow, container: ContainerState, force_drop: Sequence[str]
) -> Clearance:
    """Refuse a capture that would fail, and end the named obstacles.

    Raises:
        LiveUnsupported: something that was not named blocks the capture.
        InvalidArgument: something that was named does not block it.
    """
    check = _Check(context, session, container)
    try:
        found = check.settled()
    except CaptureFailed:
        if force_drop:
            raise
        return Clearance([], None)  # the capture itself will find out
    chosen = survivability.drops(force_drop, found.blocks)
    _refuse(session, [one for one in found.blocks if not chosen.cover(one)])
    if chosen.pids:
        check.end(chosen.pids)
        # A process that lost its parent or its peer may block the capture now.
        _refuse(session, [one for one in check.look().blocks if not chosen.cover(one)])
    left_out = [{"pid": pid, "fd": fd, "with": "null"} for pid, fd in chosen.descriptors]
    return Clearance(left_out, check.versions, found.memory_bytes, found.changed_bytes, found.processes)


def names(
    context: Context, session: SessionRow, container: ContainerState
) -> dict[tuple[int, int | None], str]:
    """Return commands by pid, and open files by pid and descriptor, to describe a failure."""
    found: dict[tuple[int, int | None], str] = {}

    def look() -> Survivability:
        return _Check(context, session, container).look(everything=True)

    with suppress(HoldfastError):
        # The capture has just failed, and the supervisor may not listen again yet.
        seen = polling.while_raising(GuestDisconnected, look, capture_failures.AWAKE_SECONDS, 0.05)
        for one in seen.resources:
            found[one.pid, None] = one.command
            if one.fd is not None:
                found[one.pid, one.fd] = one.what
    return found


def _refuse(session: SessionRow, left: list[Resource]) -> None:
    if not left:
        return
    first = left[0]
    more = f", and {len(left) - 1} more" if len(left) > 1 else ""
    where = f", descriptor {first.fd}" if first.fd is not None else ""
    named = " ".join(f"--force-drop {one.name}" for one in left[:5])
    raise LiveUnsupported(
        f"cannot take a live snapshot of session {session.name}: {plain(first.command, 60)} "
        f"(pid {first.pid}{where}) "
        f"{first.reason}: {first.what}{more}",
        hint=f"{first.advice}; `holdfast snapshot {session.name} --check` lists all; "
        f"`{named}` does without; `--kind filesystem` keeps files only",
        findings=tuple(one.as_dict() for one in left[:MAX_SHOWN]),
    )


def _supervisor(client: GuestClient) -> tuple[int, int]:
    """Return the inner pids of the root of the tree and of the supervisor, which is the root of older ones.

    They are from a read-only request that the oldest ones answer differently.
    """
    with suppress(GuestError):
        answer = client.request("moment")
        if "supervisor_pid" in answer.head:
            return root_of(answer), wire_fields.integer(answer, "supervisor_pid", least=2)
    pid = wire_fields.integer(client.request("hello"), "pid", least=2)
    return pid, pid


class _Check:
    """The check of one session, through the checkpointer."""

    def __init__(self, context: Context, session: SessionRow, container: ContainerState) -> None:
        self._context = context
        self._name = session.name
        self._origin = session.parent_snapshot_id
        client = GuestClient(context.home.run_dir(session.id))
        root, self._supervisor = _supervisor(client)
        self.versions: Mapping[str, Any] | None = None
        self._target = Target(container.id, container.pid, root)
        self._mounts = [
            str(layout.RUN_DIR),
            container.program,
            *(mount["target"] for mount in session.options["mounts"]),
        ]

    def _ask(self, op: str, **more: object) -> dict[str, Any]:
        home, engine = self._context.home, self._context.engine
        own = {**self._target.fields(), "supervisor": self._supervisor}
        link = service.ask(engine, home, self._context.progress, op, **own, **more)
        try:
            with link:
                return link.until("done", self._looked)
        except CheckpointerFailed as refusal:
            raise CaptureFailed(
                f"cannot look into session {self._name}: {refusal}", hint="the session continues"
            ) from refusal

    def _looked(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "looked":
            text = f"checking what would survive of {self._name}, processes"
            self._context.doing(text, int(event["done"]), int(event["total"]))

    def look(self, *, everything: bool = False) -> Survivability:
        """Request the findings."""
        answer = self._ask("check", everything=everything, mounts=self._mounts)
        self.versions = answer["versions"]
        return Survivability(
            resources=tuple(_resource(one) for one in answer["findings"]),
            processes=int(answer["processes"]),
            descriptors=int(answer["descriptors"]),
            memory_bytes=int(answer["memory_bytes"]),
            file_bytes=int(answer["deleted_bytes"]) + int(answer["tmpfs_bytes"]),
            free_bytes=int(answer["free_bytes"]),
            seconds=round(float(answer["seconds"]), 4),
            whole=bool(answer["whole"]),
            left_out=int(answer["left_out"]),
            changed_files=int(answer["changed"]["files"]),
            changed_length=int(answer["changed"]["length"]),
            changed_bytes=int(answer["changed"]["held"]),
            fault=plain(str(answer["changed"]["fault"]), 400),
        )

    def settled(self) -> Survivability:
        """Return the findings; ask again while everything that blocks may be transient."""
        found = self.loaded()
        for pause in capture_failures.PAUSES:
            if not found.blocks or not all(CATALOGUE[one.kind].passing for one in found.blocks):
                break
            time.sleep(pause)
            found = self.look()
        return found

    def loaded(self, *, everything: bool = False) -> Survivability:
        """Return the findings once all memory that is restored on demand is there; a capture needs it."""

        def arrived() -> Survivability | None:
            now = self.look(everything=everything)
            return None if _is_arriving(now) else now

        found = self.look(everything=everything)
        if _is_arriving(found):
            with copied_amounts.arriving_shown(self._context, self._name, self._present, self._captured()):
                self._ask("hello")  # answers when it is there
                found = polling.until(arrived, ARRIVING, 0.1) or found
        return found

    def _present(self) -> int:
        """Return the bytes of memory that are there; 0 if that cannot be seen now."""
        with suppress(HoldfastError):
            return self.look().memory_bytes
        return 0

    def _captured(self) -> int:
        """Return the bytes of memory in the snapshot that the session comes from; 0 if that is not known."""
        found = self._context.store.find_snapshot(self._origin)
        return int(found.details.get("memory_bytes") or 0) if found is not None else 0

    def end(self, pids: tuple[int, ...]) -> None:
        """End processes and their descendants."""
        self._ask("end", pids=list(pids))


def _is_arriving(found: Survivability) -> bool:
    return any(one.kind == "arriving" for one in found.blocks)


def _resource(fields: dict[str, Any]) -> Resource:
    """Convert a finding of the checkpointer; its texts come from the session."""
    kind = str(fields["kind"])
    fd = int(fields["fd"])
    return Resource(
        kind=kind if kind in CATALOGUE else "file",
        pid=int(fields["pid"]),
        command=plain(str(fields["command"]), 200),
        what=plain(str(fields["what"]), 300),
        fd=fd if fd >= 0 else None,
        also=tuple(int(pid) for pid in fields["also"]),
        own=bool(fields["own"]),
    )
