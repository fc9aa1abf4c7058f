"""The node that a session goes to.  Pure: nodes and needs come in, an order of nodes or reasons go out.

Nodes that cannot take it are left out for a stated reason: state, memory, number of sessions, and the needs
of the snapshot of the machine (the ladder of `snapshots.fitness`). Of the others the node that had it last
comes first, since it has its content; then the emptiest of a few picked at random, because agents that read
the same list and chose the emptiest would all choose one node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from random import Random

from holdfast.base.quantities import gib_text
from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.cluster.cluster_rows import NodeRow
from holdfast.snapshots.fitness import Here, Needs, compare

BEST_OF = 3
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes that can take a session, best first, and the reasons of the others."""

    nodes: tuple[str, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)

    def why_none(self) -> str:
        """Return in one line why no node fits; equal reasons are listed once."""
        if not self.refusals:
            return "the cluster is without nodes"
        grouped: dict[str, list[str]] = {}
        for node, reason in sorted(self.refusals.items()):
            grouped.setdefault(reason, []).append(node)
        parts = [f"{_names(nodes)}: {reason}" for reason, nodes in list(grouped.items())[:_SHOWN]]
        more = len(grouped) - _SHOWN
        return "no node fits: " + "; ".join(parts) + (f"; and {more} more reasons" if more > 0 else "")


class FitnessTable:
    """Verdicts of the ladder by machine and needs: nodes of one kind are compared once."""

    def __init__(self) -> None:
        self._here: dict[str, Here] = {}
        self._verdicts: dict[tuple[str, str], str] = {}

    def lacks(self, machine: str) -> bool:
        """Return whether the facts of a machine, by their digest, are not known yet."""
        return machine not in self._here

    def learn(self, machine: str, here: Here) -> None:
        """Take in the facts of a machine."""
        self._here[machine] = here

    def refusal(self, needs: Needs, needs_key: str, machine: str) -> str:
        """Return why a snapshot cannot continue on a machine; empty if it can.

        A snapshot of processes has to continue live: nothing is lost unasked.
        """
        key = (needs_key, machine)
        if key not in self._verdicts:
            if len(self._verdicts) > 100_000:
                self._verdicts.clear()
            ladder = compare(needs, self._here.get(machine, Here()))
            rung = ladder.rung("live" if needs.live else "files")
            self._verdicts[key] = "; ".join(rung.reasons)
        return self._verdicts[key]


def choose(
    nodes: Iterable[NodeRow],
    fitness: FitnessTable,
    needs: Needs,
    memory_bytes: int,
    random: Random,
    *,
    fresh_s: float,
    avoid: Collection[str] = (),
    origin: str | None = None,
) -> Choice:
    """Return which nodes can take a session, best first.

    Args:
        nodes: all nodes.
        fitness: knows the machines of these nodes.
        needs: the snapshot's that it begins from; empty without a snapshot.
        memory_bytes: its limit.
        random: picks among the nodes that fit.
        fresh_s: a node that was not seen for longer is not chosen; it is possibly being lost.
        avoid: nodes that have failed to start it.
        origin: the node that had it last.
    """
    needs_key = needs.model_dump_json()
    fit: dict[str, float] = {}
    refusals: dict[str, str] = {}
    for node in nodes:
        reason = _unready(node, memory_bytes, fresh_s, avoid) or fitness.refusal(
            needs, needs_key, node.machine
        )
        if reason:
            refusals[node.id] = reason
        else:
            fit[node.id] = node.reserved_bytes / node.memory_bytes if node.memory_bytes else 1.0
    first = [origin] if origin in fit else []
    others = [name for name in fit if name not in first]
    random.shuffle(others)
    order = sorted(others[:BEST_OF], key=fit.__getitem__) + others[BEST_OF:]
    return Choice(tuple(name for name in [*first, *order] if name is not None), refusals)


def _unready(node: NodeRow, memory_bytes: int, fresh_s: float, avoid: Collection[str]) -> str:
    free = node.memory_bytes - node.reserved_bytes
    if node.state != "ready":
        return f"is {node.state}"
    if node.id in avoid:
        return "has failed to start it"
    if node.seen_s > fresh_s:
        return "does not answer"
    if free < memory_bytes:
        return f"has {gib_text(max(0, free))} free, it needs {gib_text(memory_bytes)}"
    if node.sessions >= node.most_sessions:
        return f"has {node.most_sessions} sessions, as many as it takes"
    return ""


def _names(nodes: list[str]) -> str:
    shown = ", ".join(nodes[:_SHOWN])
    more = len(nodes) - _SHOWN
    return shown + (f" and {more} more" if more > 0 else "")
