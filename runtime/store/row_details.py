"""Details of sessions, snapshots and operations that do not have a column of their own.  Pure.

Each is a JSON object in its row. Rows of older versions lack later keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.base.value_classes import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, TypedDict, Unpack

    Table = Mapping[str, Any]

    class SnapshotKeys(TypedDict, total=False):
        """The keys of a snapshot's details. None removes one.

        `auto` names the trigger of an automatic snapshot; `base` is the snapshot its container was made from,
        empty for the plain image; `files_by` what kept the files of a live one, `copy` or `engine`; `life`
        the earlier life of its session it belongs to; `note` how its session was still; `task` its
        session's task record at that instant; `repositories` where Git repositories stood at a checkpoint;
        `tenures` the machines that the session of an imported one had belonged to; `about` what the session
        of a durable copy takes along to another node (`runtime/moving/travelling_identity.py`).
        """

        generation: int
        actor: str | None
        auto: Table | None
        failure: Table | None
        moment: Table | None
        base: str
        frozen_seconds: float
        copied_later: int
        unwritten: int
        capture_seconds: float
        memory_bytes: int
        dropped: list[str]
        files_by: str
        note: Table
        same_as: str
        storage: Table
        damage: str | None
        origin: Table
        life: str
        task: Table | None
        template: bool | None
        repositories: Table
        tenures: Sequence[Table] | None
        about: Table | None

    class SessionKeys(TypedDict, total=False):
        """The keys of a session's details. None removes one.

        `ancestor` is the snapshot before it, if the one its container was made from is gone; `capture_failed`
        the code of the error of its last automatic capture; `refused` destinations it was refused; `moving`
        where it is being moved; `arrival` the move that brought it here; `of_older` the container of it that
        an older version left running, which this one does not reach; `sandbox` what a client of the E2B wire
        said of it; `by` the user who made it, for quotas; `task` its task record; `agent` whose default
        session it is, and what was asked for then; `labels` what its caller calls it by; `previews` the
        grants of its ports; `ssh` its key as a host of ssh; `tenures` the machines it has belonged to, and
        `moved` the one that has it now (`runtime/sessions/tenures.py`); `pool` whether it was taken from the
        home's pool (`used`), or why not (`why`); `cluster` its place in a cluster (`Clustered`).
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
        moving: Table | None
        arrival: Table
        of_older: str
        sandbox: Table | None
        lifetime: Table | None
        task: Table | None
        agent: Table
        labels: dict[str, str] | None
        by: str
        previews: Table | None
        ssh: Table
        tenures: Sequence[Table]
        moved: Table | None
        pool: Table | None
        cluster: Table | None

    class OperationKeys(TypedDict, total=False):
        """The keys of an operation's details: the data needed to finish or undo it, even in another
        process."""

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
        suspends: bool
        asleep: str


@dataclass(frozen=True, slots=True)
class RecordsEnd:
    """The ends of a session's records in a snapshot: its journal, and the output of each shell."""

    journal_seq: int | None = None
    at: float | None = None
    offsets: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moving:
    """A move that has suspended a session: its destination, and the attempt in which it can run there."""

    to: str
    attempt: str | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A move that brings a session here: the attempt of its source, and its outcome.

    `state` is empty until it runs here, then `arrived`; `given_up` if its source was promised that it never
    will.
    """

    attempt: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Clustered:
    """A session of a cluster: the epoch under which its node has it, and its last durable copy.

    `number` counts the copies of an epoch. The copy shows the session as it was at `at`, in Unix seconds, and
    is also here, as `snapshot`; 0 and empty without one. `loss`: how many seconds of work its policy risks.
    """

    epoch: int
    number: int = 0
    at: float = 0.0
    snapshot: str = ""
    loss: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return it for the store and for programs."""
        return {name: getattr(self, name) for name in self.__slots__}


class _Details(dict[str, "Any"]):
    def _table(self, key: str) -> dict[str, Any] | None:
        found = self.get(key)
        return found if isinstance(found, dict) else None

    def _texts(self, key: str) -> list[str]:
        found = self.get(key)
        return [str(item) for item in found] if isinstance(found, list) else []

    def _with(self, changes: Mapping[str, Any]) -> Self:
        return type(self)({key: value for key, value in {**self, **changes}.items() if value is not None})


class SnapshotDetails(_Details):
    """The details of a snapshot."""

    @classmethod
    def of(cls, **kept: Unpack[SnapshotKeys]) -> SnapshotDetails:
        """Return the details of a new snapshot."""
        return cls()._with(kept)

    def plus(self, **changes: Unpack[SnapshotKeys]) -> SnapshotDetails:
        """Return these details and others."""
        return self._with(changes)

    @property
    def moment(self) -> RecordsEnd:
        """The end of the session's records; empty if an old version took the snapshot."""
        found = self._table("moment") or {}
        seq, at, offsets = found.get("journal_seq"), found.get("at"), found.get("offsets")
        return RecordsEnd(
            None if seq is None else int(seq),
            None if at is None else float(at),
            offsets if isinstance(offsets, dict) else {},
        )

    @property
    def generation(self) -> int:
        """The number of restores before it."""
        return int(self.get("generation", 0))

    @property
    def auto(self) -> dict[str, Any] | None:
        """The trigger of an automatic snapshot."""
        return self._table("auto")

    @property
    def template(self) -> bool:
        """Whether new sessions start from it by its label, which is kept for that."""
        return bool(self.get("template"))

    @property
    def frozen_seconds(self) -> float:
        """The duration of its session's freeze."""
        return float(self.get("frozen_seconds") or 0.0)

    @property
    def storage(self) -> dict[str, Any] | None:
        """Its sizes in bytes: `raw`, `own`, `shared`, `besides`; and whether it is `packed`."""
        return self._table("storage")

    @property
    def damage(self) -> str:
        """Why it cannot be used; empty if it is intact."""
        return str(self.get("damage") or "")

    @property
    def origin(self) -> dict[str, Any] | None:
        """Its origin, if it was imported."""
        return self._table("origin")

    @property
    def has_base(self) -> bool:
        """True if its container's origin is known."""
        return "base" in self

    @property
    def base(self) -> str | None:
        """The snapshot its container was made from; None for the plain image, or if that is not known."""
        return self.get("base") or None

    @property
    def life(self) -> str | None:
        """The earlier life of its session that it belongs to; None for the present one."""
        return self.get("life")

    @property
    def task(self) -> dict[str, Any] | None:
        """The task record of its session at that instant."""
        return self._table("task")

    @property
    def repositories(self) -> object:
        """The state of Git repositories at a checkpoint, as `repository_state.parse` reads it."""
        return self.get("repositories")

    @property
    def tenures(self) -> object:
        """The machines that the session of an imported one had belonged to, as `Tenures.parse` reads them."""
        return self.get("tenures")

    @property
    def about(self) -> dict[str, Any] | None:
        """The facts that its session takes along, if it is a durable copy; from elsewhere, as they were
        sent."""
        return self._table("about")

    @property
    def about_options(self) -> dict[str, Any]:
        """The options of a session that take effect on another node."""
        found = (self.about or {}).get("options")
        return found if isinstance(found, dict) else {}

    @property
    def note(self) -> dict[str, Any] | None:
        """The evidence that its session was still."""
        return self._table("note")

    @property
    def dropped(self) -> bool:
        """True if a part of the session's state was left out."""
        return bool(self.get("dropped"))

    @property
    def committed(self) -> bool:
        """True if the engine committed its files, during the freeze; they were copied before otherwise."""
        return self.get("files_by") == "engine"

    @property
    def inherited(self) -> SnapshotDetails:
        """The details that also apply to a snapshot with the same content."""
        own = ("storage", "moment", "generation", "actor", "auto", "life", "failure", "task", "repositories")
        return SnapshotDetails({key: value for key, value in self.items() if key not in (*own, "about")})

    @property
    def listed(self) -> dict[str, Any]:
        """The details for programs; unknown ones are None.

        Its session was frozen for `frozen_seconds`: None for files only, 0 if nothing had changed since the
        last one.
        """
        names = ("actor", "auto", "failure", "generation", "frozen_seconds")
        return {key: self.get(key) for key in names}

    @property
    def portable(self) -> dict[str, Any]:
        """The details that travel with it to a different host."""
        names = ("moment", "failure", "dropped", "base", "frozen_seconds", "memory_bytes", "task", "tenures")
        return {key: self[key] for key in (*names, "about") if key in self}


class SessionDetails(_Details):
    """The details of a session."""

    def plus(self, **changes: Unpack[SessionKeys]) -> SessionDetails:
        """Return these details and others."""
        return self._with(changes)

    @property
    def policy(self) -> dict[str, Any] | None:
        """The differences from the default policy."""
        return self._table("policy")

    @property
    def verification(self) -> dict[str, Any] | None:
        """The verification of its last restore."""
        return self._table("verification")

    @property
    def pool(self) -> dict[str, Any] | None:
        """Whether it was taken from a pool, or why not; None without a pool."""
        return self._table("pool")

    @property
    def cluster(self) -> Clustered | None:
        """Its place in a cluster; None if it is in none, or not yet."""
        found = self._table("cluster")
        try:
            return None if found is None else Clustered(**found)
        except TypeError:
            return None

    @property
    def hooks(self) -> list[str]:
        """The failures of its hooks."""
        return self._texts("hooks")

    @property
    def capture_failed(self) -> str | None:
        """The error code of its last automatic capture, if that failed."""
        return self.get("capture_failed")

    @property
    def refused(self) -> dict[str, Any] | None:
        """Its refused destinations."""
        return self._table("refused")

    @property
    def ancestor(self) -> str | None:
        """The snapshot before it, if the origin of its container was removed."""
        return self.get("ancestor")

    @property
    def lives(self) -> list[dict[str, Any]]:
        """Its earlier lives."""
        return list(self.get("lives", ()))

    @property
    def rewound(self) -> dict[str, Any]:
        """When it was last rewound (`at`), and to which journal entry (`position`)."""
        return self._table("rewound") or {}

    @property
    def task(self) -> dict[str, Any] | None:
        """Its task record."""
        # What is not a table is unreadable, as a table of another form is: the session has a task.
        return {} if self.get("task") is not None and self._table("task") is None else self._table("task")

    @property
    def labels(self) -> dict[str, str]:
        """Its caller's labels."""
        found: dict[str, str] = self.get("labels") or {}
        return found

    @property
    def agent(self) -> dict[str, Any] | None:
        """The agent whose default session it is."""
        return self._table("agent")

    @property
    def moving(self) -> Moving | None:
        """The move that has suspended it."""
        found = self._table("moving")
        return None if found is None else Moving(str(found.get("to")), found.get("attempt"))

    @property
    def arrival(self) -> Arrival | None:
        """The move that brought it here."""
        found = self._table("arrival")
        return None if found is None else Arrival(str(found.get("attempt")), str(found.get("state", "")))

    @property
    def tenures(self) -> object:
        """The machines it has belonged to, as `tenures.Tenures.parse` reads them."""
        return self.get("tenures")

    @property
    def moved_to(self) -> str:
        """The machine that has it now; empty if it did not move away."""
        return str((self._table("moved") or {}).get("to", ""))

    @property
    def marked_unhealthy(self) -> bool:
        """True if a container of it did not answer."""
        return "unhealthy" in self

    def is_of_older(self, container: str | None) -> bool:
        """Check whether an older version left this container running."""
        return container is not None and self.get("of_older") == container

    def trouble(self, container: str | None) -> str:
        """Return why a container cannot be reached; empty if it can, or if an earlier one had failed."""
        mark = self._table("unhealthy")
        return str(mark["why"]) if mark and mark["container"] == container else ""


class OperationDetails(_Details):
    """The details of an operation."""

    @classmethod
    def of(cls, **kept: Unpack[OperationKeys]) -> OperationDetails:
        """Return the details of a new operation."""
        return cls()._with(kept)

    def plus(self, **changes: Unpack[OperationKeys]) -> OperationDetails:
        """Return these details and others."""
        return self._with(changes)

    @property
    def session(self) -> str | None:
        """The name of the session of a job."""
        return self.get("session")

    @property
    def session_ids(self) -> list[str]:
        """The sessions it makes."""
        return self._texts("session_ids")

    @property
    def snapshot_ids(self) -> list[str]:
        """The snapshots it makes."""
        return self._texts("snapshot_ids")

    @property
    def copies(self) -> tuple[str | None, list[str]]:
        """The snapshot of trial sessions, and their names."""
        return self.get("of"), self._texts("names")

    @property
    def aside(self) -> str:
        """The suffix of the names that a rewind uses; empty before there is any."""
        return str(self.get("aside", ""))

    @property
    def snapshot(self) -> str:
        """The snapshot that a rewind goes back to."""
        return str(self["snapshot"])

    @property
    def old(self) -> str | None:
        """The container that a rewind replaces."""
        return self.get("old")

    @property
    def addresses(self) -> list[str]:
        """The addresses of the session, which the new container gets."""
        return self._texts("addresses")

    @property
    def proven(self) -> str | None:
        """The restored container once it answers."""
        return self.get("proven")

    @property
    def suspends(self) -> bool:
        """True if a move has suspended the session, or is about to."""
        return bool(self.get("suspends"))

    @property
    def asleep(self) -> str:
        """Why a suspension puts its session to sleep; empty if a caller wanted it."""
        return str(self.get("asleep", ""))

    @property
    def columns(self) -> Table:
        """The columns of the session in its new life."""
        return self._table("columns") or {}
