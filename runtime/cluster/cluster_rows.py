"""The records that nodes and the cluster's database exchange.  Values alone: no SQL, clock or decision."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.base.value_classes import dataclass, field
from holdfast.snapshots.fitness import Here, Needs

NodeState = Literal["ready", "draining", "lost"]
"""`draining` nodes keep what they run and get no further sessions; a `lost` one has to register again."""

SessionState = Literal["starting", "running", "asleep", "waiting_for_node", "lost", "removed"]
"""`starting` and `running` sessions have a node, all others have none.

`waiting_for_node`: no node fits now; `reason` says why. `lost`: nothing can bring it back but the machine
that had it; `reason` says why.
"""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The times that all nodes of a cluster share, in seconds; the database holds them.

    A node renews every `beat_s`, can run its sessions for `ttl_s` from before it sent a renewal that was
    answered, and must have frozen them when `margin_s` more have passed. Its sessions are taken over no
    sooner.
    """

    ttl_s: float = 30.0
    beat_s: float = 3.0
    margin_s: float = 10.0


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """A node as it registers, with its facts and its capacity.

    `boot` is the machine's boot id (/proc/sys/kernel/random/boot_id): a node that registers again in the same
    boot keeps its sessions, since their containers can still be there. `address` is the URL other machines
    reach its doors at. `memory_bytes` is the memory of all sessions together, `here` decides which
    snapshots fit.
    """

    id: str
    boot: str
    address: str
    memory_bytes: int
    here: Here = field(default_factory=Here)
    most_sessions: int = 1000
    version: str = ""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the database has it. `seen_s`: seconds since its last renewal, by the database's clock.

    `reserved_bytes` and `sessions` are of the sessions it has.
    """

    id: str
    incarnation: int
    beat: int
    state: NodeState
    boot: str
    address: str
    memory_bytes: int
    reserved_bytes: int
    sessions: int
    most_sessions: int
    machine: str
    version: str
    seen_s: float


@dataclass(frozen=True, slots=True)
class NodeTicket:
    """The right of one registration to renew: of two agents with one node's id, the later one has it."""

    node: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Held:
    """A session that exists on a node, frozen or not, with the epoch it was started under."""

    session: str
    epoch: int


@dataclass(frozen=True, slots=True)
class DurableCopy:
    """A snapshot that a session can return from on another machine. Its row is the commit.

    `number` grows with each capture for the session's life: a node continues from its grant's. `reference`
    names the content in the registry (a digest), `journal_seq` is the last entry of the session's journal in
    it, and `needs` decides which nodes fit. `captured_age_s` is how long before the commit the capture was
    frozen, by the node's own clock.
    """

    session: str
    epoch: int
    number: int
    snapshot: str
    reference: str
    journal_seq: int = 0
    size_bytes: int = 0
    needs: Needs = field(default_factory=Needs)
    captured_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SessionOrder:
    """A session to be placed: `options` and `durable` (the policy) are opaque here, and are kept as they are.

    `key` makes the order idempotent: the same key is the same session. `needs` filters nodes; empty for a
    session that is created rather than restored.
    """

    id: str
    name: str
    memory_bytes: int
    options: dict[str, Any] = field(default_factory=dict)
    durable: dict[str, Any] = field(default_factory=dict)
    needs: Needs = field(default_factory=Needs)
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """A session as the database has it. Its id, name and options stay for its life, on whichever node it is.

    `epoch` grows with each placement. `attempts` counts nodes that failed to start it since it last ran.
    `durable_age_s`: how old the state in the durable copy is by the database's clock; None without a copy.
    """

    id: str
    name: str
    state: SessionState
    node: str | None
    last_node: str | None
    epoch: int
    memory_bytes: int
    options: dict[str, Any]
    durable: dict[str, Any]
    reason: str
    attempts: int
    copy: DurableCopy | None
    durable_age_s: float | None


@dataclass(frozen=True, slots=True)
class SessionGrant:
    """A session that a node can run under an epoch, as a renewal answers.

    `started`: it has run under this epoch. A session that never did begins from `copy`, or from `options`
    without a copy; both are left out (None and empty) once it is started. `copy_number` numbers the newest
    committed copy, 0 without one; a node whose own is newer (the database failed over) commits it again.
    `recovery` is the report, in the event `recovered`, of the loss before this epoch: `node`, `lost_s`,
    `at_most_s`, `commands` (as CommandNote); None without a loss.
    """

    session: str
    name: str
    epoch: int
    started: bool
    memory_bytes: int
    durable: dict[str, Any]
    copy_number: int
    options: dict[str, Any] = field(default_factory=dict)
    copy: DurableCopy | None = None
    recovery: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a renewal. Permission comes from here alone, and ends with the lease it belongs to.

    `reign` changes whenever the database has possibly lost its last commits (it failed over, was restored
    from a backup): `lease_rules` says what waits then. `reign_age_s` is infinite for the first. `unknown` are
    held sessions without a row in the database.
    """

    beat: int
    reign: int
    reign_age_s: float
    state: NodeState
    terms: LeaseTerms
    grants: tuple[SessionGrant, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sighting:
    """A node's heartbeat as another node reads it; `lease_rules.LostWatch` judges how long it has stayed."""

    node: str
    incarnation: int
    beat: int


@dataclass(frozen=True, slots=True)
class SessionRoute:
    """The node that a request for a session goes to; without an address, `reason` says why."""

    session: str
    name: str
    state: SessionState
    epoch: int
    node: str | None
    address: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CommandNote:
    """A command of a session's journal: a loss names all that are newer than the copy."""

    seq: int
    text: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened to a session in the cluster: `placed`, `lost`, `recovered`, `asleep`, …"""

    session: str
    kind: str
    age_s: float
    details: dict[str, Any]
