"""The machine that a session belongs to: the chain of its tenures, and the comparison of two chains. Pure.

A session keeps its id for life. Each machine that takes it over, by a move or by a recovery, adds a *tenure*
to the chain that travels with it. Of two chains of one session, one that contains the last tenure of the
other continues it; if neither does, two machines have run it since they parted. The ids of tenures are
random: knowing the last one shows that the session, or a bundle of it, was there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Literal

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.base.value_classes import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

MOST = 100
"""Tenures that a chain has at most; of more, the newest."""
SLACK = 120.0
"""Seconds by which the clocks of two machines can differ."""
_HOST = 100
_ID = re.compile(ids.ID)
Relation = Literal["same", "earlier", "later", "parted"]


@dataclass(frozen=True, slots=True)
class Tenure:
    """A machine's time with a session: since `at`, in Unix seconds. `host` is its own name."""

    id: str
    at: float
    host: str


@dataclass(frozen=True, slots=True)
class Tenures:
    """The chain of a session, oldest first; empty if nothing is known."""

    chain: tuple[Tenure, ...] = ()

    @classmethod
    def parse(cls, given: object) -> Self:
        """Read a chain from the store or from another machine; empty if it is not valid."""
        if not isinstance(given, list) or len(given) > MOST:
            return cls()
        found = [_tenure(each) for each in given]
        if None in found:
            return cls()
        return cls(tuple(each for each in found if each is not None))

    @classmethod
    def begun(cls, at: float, host: str) -> Self:
        """Return the chain of a session that was made here."""
        return cls((Tenure(ids.new_id(), at, plain(host, _HOST)),))

    def kept(self) -> list[dict[str, Any]]:
        """Return the chain for the store and for other machines."""
        return [{"id": each.id, "at": each.at, "host": each.host} for each in self.chain]

    def plus(self, tenure: str, host: str) -> Self:
        """Return the chain with a tenure that begins now."""
        added = Tenure(tenure, time.time(), plain(host, _HOST))
        return type(self)((*self.chain, added)[-MOST:])

    def until(self, at: float) -> Self:
        """Return the chain as it was at a time; its first tenure is always part of it."""
        return type(self)(self.chain[:1] + tuple(each for each in self.chain[1:] if each.at <= at))

    def without_hosts(self) -> Self:
        """Return the chain without the names of machines, for bundles, whose readers are unknown."""
        return type(self)(tuple(Tenure(each.id, each.at, "") for each in self.chain))

    def has(self, tenure: str) -> bool:
        """Return whether a tenure is part of the chain."""
        return any(each.id == tenure for each in self.chain)

    def relation(self, other: Tenures) -> Relation:
        """Return the position of a second chain of the same session relative to this one; neither is
        empty."""
        mine, theirs = self.chain[-1].id, other.chain[-1].id
        if mine == theirs:
            return "same"
        if other.has(mine):
            return "later"
        return "earlier" if self.has(theirs) else "parted"

    def continued_by(self, other: Tenures) -> bool:
        """Return whether a second chain equals this one, or continues it."""
        return bool(self.chain and other.chain) and self.relation(other) in ("same", "later")

    def related_to(self, other: Tenures) -> bool:
        """Return whether two chains share a tenure, and so belong to the same session."""
        return any(other.has(each.id) for each in self.chain)

    def twin(self, other: Tenures, taken_at: float) -> str:
        """Return why a snapshot with this other chain shows that a second machine also runs the session.

        The session runs here, with this chain. Empty if the snapshot shows nothing of the kind.
        """
        if not self.chain or not other.chain:
            return ""
        mine, theirs = self.chain[-1], other.chain[-1]
        match self.relation(other):
            case "same":
                return ""
            case "earlier":
                late = taken_at > self._after(theirs.id).at + SLACK
                return f"{_named(theirs)} ran it after it had been taken over here" if late else ""
            case "later":
                return f"{_named(theirs)} has since taken it over"
        return f"{_named(theirs)} has taken it over as well as {_named(mine)}"

    def _after(self, tenure: str) -> Tenure:
        place = [each.id for each in self.chain].index(tenure)
        return self.chain[place + 1]


def _named(tenure: Tenure) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(tenure.at))
    return f"{tenure.host or 'another machine'} (since {when} UTC)"


def _tenure(given: object) -> Tenure | None:
    if not isinstance(given, Mapping):
        return None
    id_, at, host = given.get("id"), given.get("at"), given.get("host")
    if not isinstance(id_, str) or not _ID.fullmatch(id_) or not isinstance(host, str):
        return None
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < 1 << 33:
        return None
    return Tenure(id_, float(at), plain(host, _HOST))
