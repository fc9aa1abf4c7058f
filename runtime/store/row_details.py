"""What is kept about a session, a snapshot or an operation beside its columns.  Pure.

Each is a JSON object of its row. Rows of older versions lack what was not kept then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypedDict, Unpack

Table = Mapping[str, Any]


class Moment(NamedTuple):
    """Where a session's records ended in a snapshot: its journal, and the output of each shell."""

    journal_seq: int | None = None
    at: float | None = None
    offsets: Mapping[str, Any] = {}


class _Details(dict[str, Any]):
    def _table(self, key: str) -> dict[str, Any] | None:
        found = self.get(key)
        return found if isinstance(found, dict) else None

    def _texts(self, key: str) -> list[str]:
        found = self.get(key)
        return [str(item) for item in found] if isinstance(found, list) else []

    def _with(self, changes: Mapping[str, Any]) -> Self:
        return type(self)({key: value for key, value in {**self, **changes}.items() if value is not None})


class SnapshotKeys(TypedDict, total=False):
    """What is kept about a snapshot. None drops it.

    `auto` says what took it if nobody asked; `base` the snapshot its container was made from, empty for the
    plain image; `life` the earlier life of its session it is of; `note` how its session stood still.
    """

    generation: int
    actor: str | None
    auto: Table | None
    failure: Table | None
    moment: Table | None
    base: str
    frozen_seconds: float
    capture_seconds: float
    memory_bytes: int
    dropped: list[str]
    note: Table
    same_as: str
    storage: Table
    damage: str | None
    origin: Table
    life: str


class SnapshotDetails(_Details):
    """Those of a snapshot."""

    @classmethod
    def of(cls, **kept: Unpack[SnapshotKeys]) -> SnapshotDetails:
        """Those of a new one."""
        return cls()._with(kept)

    def plus(self, **changes: Unpack[SnapshotKeys]) -> SnapshotDetails:
        """Those and others."""
        return self._with(changes)

    @property
    def moment(self) -> Moment:
        """Empty if it was taken by an old version."""
        found = self._table("moment") or {}
        seq, at, offsets = found.get("journal_seq"), found.get("at"), found.get("offsets")
        return Moment(
            None if seq is None else int(seq),
            None if at is None else float(at),
            offsets if isinstance(offsets, dict) else {},
        )

    @property
    def generation(self) -> int:
        """The restores before it."""
        return int(self.get("generation", 0))

    @property
    def auto(self) -> dict[str, Any] | None:
        """What took it, if nobody asked."""
        return self._table("auto")

    @property
    def frozen_seconds(self) -> float:
        """How long its session was frozen."""
        return float(self.get("frozen_seconds") or 0.0)

    @property
    def storage(self) -> dict[str, Any] | None:
        """Bytes it takes: `raw`, `own`, `shared`, `besides`; and whether it is `packed`."""
        return self._table("storage")

    @property
    def damage(self) -> str:
        """Why it cannot be used; empty if nothing is wrong."""
        return str(self.get("damage") or "")

    @property
    def origin(self) -> dict[str, Any] | None:
        """Where it was imported from."""
        return self._table("origin")

    @property
    def has_base(self) -> bool:
        """Whether it is known what its container was made from."""
        return "base" in self

    @property
    def base(self) -> str | None:
        """The snapshot its container was made from; None for the plain image, or if that is not known."""
        return self.get("base") or None

    @property
    def life(self) -> str | None:
        """The earlier life of its session that it is of; None for the present one."""
        return self.get("life")

    @property
    def note(self) -> dict[str, Any] | None:
        """How its session stood still."""
        return self._table("note")

    @property
    def dropped(self) -> bool:
        """Whether something of the session was left out."""
        return bool(self.get("dropped"))

    @property
    def inherited(self) -> SnapshotDetails:
        """What is also true of a snapshot with the same content."""
        own = ("storage", "moment", "generation", "actor", "auto", "life", "failure")
        return SnapshotDetails({key: value for key, value in self.items() if key not in own})

    @property
    def listed(self) -> dict[str, Any]:
        """What programs are told of it; what is not known is None.

        Its session was frozen for `frozen_seconds`: None of files only, 0 if it was as in the last one.
        """
        names = ("actor", "auto", "failure", "generation", "frozen_seconds")
        return {key: self.get(key) for key in names}

    @property
    def portable(self) -> dict[str, Any]:
        """What goes with it to another host."""
        names = ("moment", "failure", "dropped", "base", "frozen_seconds", "memory_bytes")
        return {key: self[key] for key in names if key in self}


class SessionKeys(TypedDict, total=False):
    """What is kept about a session. None drops it.

    `ancestor` is the snapshot before it, if the one its container was made from is gone; `capture_failed` the
    code of the error of its last automatic capture; `refused` destinations it did not reach.
    """

    policy: Table | None
    verification: Table
    hooks: list[str]
    unhealthy: Table | None
    capture_failed: str | None
    refused: Table
    ancestor: str | None
    lives: list[Table]
    rewound: Table


class SessionDetails(_Details):
    """Those of a session."""

    def plus(self, **changes: Unpack[SessionKeys]) -> SessionDetails:
        """Those and others."""
        return self._with(changes)

    @property
    def policy(self) -> dict[str, Any] | None:
        """What differs from the default policy."""
        return self._table("policy")

    @property
    def verification(self) -> dict[str, Any] | None:
        """What was kept of its last restore."""
        return self._table("verification")

    @property
    def hooks(self) -> list[str]:
        """What went wrong with its hooks."""
        return self._texts("hooks")

    @property
    def capture_failed(self) -> str | None:
        """Why its last automatic capture failed, as a code."""
        return self.get("capture_failed")

    @property
    def refused(self) -> dict[str, Any] | None:
        """Destinations it did not reach."""
        return self._table("refused")

    @property
    def ancestor(self) -> str | None:
        """The snapshot before it, if the one its container was made from is gone."""
        return self.get("ancestor")

    @property
    def lives(self) -> list[dict[str, Any]]:
        """Its earlier lives."""
        return list(self.get("lives", ()))

    @property
    def rewound(self) -> dict[str, Any]:
        """When it last went back (`at`), and to which journal entry (`position`)."""
        return self._table("rewound") or {}

    @property
    def marked_unhealthy(self) -> bool:
        """Whether a container of it did not answer."""
        return "unhealthy" in self

    def trouble(self, container: str | None) -> str:
        """Why a container cannot be reached; empty if that is not known, or was so of an earlier one."""
        mark = self._table("unhealthy")
        return str(mark["why"]) if mark and mark["container"] == container else ""


class OperationKeys(TypedDict, total=False):
    """What an operation needs to be finished or undone, also by another process."""

    session: str
    session_ids: list[str]
    snapshot_ids: list[str]
    names: list[str]
    of: str
    snapshot: str
    old: str | None
    aside: str
    addresses: list[str]
    proven: str
    columns: Table


class OperationDetails(_Details):
    """Those of an operation."""

    @classmethod
    def of(cls, **kept: Unpack[OperationKeys]) -> OperationDetails:
        """Those of a new one."""
        return cls()._with(kept)

    def plus(self, **changes: Unpack[OperationKeys]) -> OperationDetails:
        """Those and others."""
        return self._with(changes)

    @property
    def session(self) -> str | None:
        """The name of the session of a job."""
        return self.get("session")

    @property
    def session_ids(self) -> list[str]:
        """Sessions it makes."""
        return self._texts("session_ids")

    @property
    def snapshot_ids(self) -> list[str]:
        """Snapshots it makes."""
        return self._texts("snapshot_ids")

    @property
    def copies(self) -> tuple[str | None, list[str]]:
        """The snapshot that sessions are made from to try something, and their names."""
        return self.get("of"), self._texts("names")

    @property
    def aside(self) -> str:
        """What is added to the names of what a rewind makes; empty before there is any."""
        return str(self.get("aside", ""))

    @property
    def snapshot(self) -> str:
        """What a rewind goes back to."""
        return str(self["snapshot"])

    @property
    def old(self) -> str | None:
        """The container a rewind replaces."""
        return self.get("old")

    @property
    def addresses(self) -> list[str]:
        """Those of the session, which the new container gets."""
        return self._texts("addresses")

    @property
    def proven(self) -> str | None:
        """The container that was restored; None before it is."""
        return self.get("proven")

    @property
    def columns(self) -> Table:
        """Those of the session in its new life."""
        return self._table("columns") or {}
