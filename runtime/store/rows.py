"""Rows of the store as values. Knows nothing of how they are stored."""

from __future__ import annotations

from enum import StrEnum

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.store.row_details import OperationDetails, SessionDetails, SnapshotDetails

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Literal

    SessionState = Literal["creating", "running", "suspended", "dead", "removed"]
    SnapshotKind = Literal["live", "filesystem"]
    SnapshotState = Literal["pending", "ready", "damaged"]
    OperationState = Literal["intent", "done", "failed"]

FITTED = "holdfast/fitted:"
"""How the names of images begin that had the guest added."""
PROVIDED = "holdfast/provided:"
"""How the names of images begin that were built or loaded for sessions."""

_SEEN = ("stopped",)
"""Fields that a look at the engine fills, and no column."""


class OperationKind(StrEnum):
    """Kinds of operations: several steps that are undone if they are cut short."""

    NEW = "new"
    REMOVE = "remove"
    SNAPSHOT = "snapshot"
    SUSPEND = "suspend"
    RESUME = "resume"
    RESTORE = "restore"
    REWIND = "rewind"
    NETWORK = "network"
    EXPORT = "export"
    IMPORT = "import"
    CI = "ci"
    RETRY = "retry"
    MOVE = "move"
    BUILD = "build"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session. `generation` counts the restores between it and a session that was made fresh.

    `parent_snapshot_id` is the snapshot its container was made from. `stopped` is `paused` or `frozen` if
    another program had paused it or frozen its control group when it was looked at; the store does not keep
    that.
    """

    id: str
    name: str
    state: SessionState
    image: str
    created_at: datetime
    container_id: str | None = None
    parent_snapshot_id: str | None = None
    generation: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    details: SessionDetails = field(default_factory=SessionDetails)
    stopped: str = ""

    @property
    def seen_state(self) -> str:
        """The state as people should read it: `paused` or `frozen` if a program other than Holdfast has
        stopped it."""
        return self.stopped if self.stopped and self.state == "running" else self.state

    @property
    def image_name(self) -> str:
        """Its image by the caller's name, even if the guest was added to it."""
        return str(self.options.get("image") or self.image) if self.image.startswith(FITTED) else self.image


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One snapshot. `parent_snapshot_id` is the snapshot its session was restored from, or its last one.

    A policy never removes one that is `pinned`. `reason` is the caller's reason for it.
    """

    id: str
    label: str | None
    kind: SnapshotKind
    state: SnapshotState
    session_id: str
    created_at: datetime
    parent_snapshot_id: str | None = None
    image_id: str | None = None
    bytes: int = 0
    details: SnapshotDetails = field(default_factory=SnapshotDetails)
    pinned: bool = False
    reason: str | None = None

    @property
    def name(self) -> str:
        """The name for people: its label, or its id."""
        return self.label or self.id


@dataclass(frozen=True, slots=True)
class OperationRow:
    """Several steps; while the state is `intent`, they possibly have to be undone."""

    id: str
    kind: OperationKind
    state: OperationState
    owner_pid: int
    owner_start: str
    started_at: datetime
    session_id: str | None = None
    snapshot_id: str | None = None
    ended_at: datetime | None = None
    details: OperationDetails = field(default_factory=OperationDetails)


def columns(row: SessionRow | SnapshotRow | OperationRow) -> dict[str, Any]:
    """Return the values by column."""
    return {name: getattr(row, name) for name in row.__slots__ if name not in _SEEN}
