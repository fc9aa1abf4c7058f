"""What clients were told of each of their acts, compared with what the sessions hold.

Pure.  An act appends one line to a file of its client: its name.  So an act that was acknowledged has its
name there exactly once, whatever was killed in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

Outcome = Literal["done", "unknown", "failed"]


@dataclass(frozen=True, slots=True)
class Act:
    """One act of a client; times in seconds of the monotonic clock.

    `done`: it was acknowledged. `unknown`: the client was told that nobody can know. `failed`: it was told an
    error, `code`. `wrong` says what of its output was lost or doubled. Without `appends` it leaves no line.
    """

    client: str
    kind: str
    name: str
    began: float
    ended: float
    outcome: Outcome
    keyed: bool = False
    appends: bool = True
    code: str = ""
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """A server was killed, and another one answered in its place; seconds of the monotonic clock."""

    killed: float
    answered: float

    def cut(self, act: Act) -> bool:
        """Return whether an act was under way when the server was killed, or began while none was there."""
        return act.began <= self.answered and act.ended >= self.killed


@dataclass(slots=True)
class Compared:
    """Names of acts by what is wrong with them; nothing is if all lists are empty."""

    lost: list[str] = field(default_factory=list)
    """Acknowledged, and not in the session."""
    doubled: list[str] = field(default_factory=list)
    """More than once in the session."""
    unasked: list[str] = field(default_factory=list)
    """In the session, and no client's act."""
    output: list[str] = field(default_factory=list)
    """Output that came with a loss or a double."""
    unfounded: list[str] = field(default_factory=list)
    """Reported as unknown although it could be known: it had a key, or no server was killed while it ran."""
    failed: list[str] = field(default_factory=list)
    """Ended in an error."""

    @property
    def faults(self) -> list[str]:
        """All of them, a line each."""
        kinds = ("lost", "doubled", "unasked", "output", "unfounded", "failed")
        return [f"{kind}: {name}" for kind in kinds for name in getattr(self, kind)]


def compare(
    acts: Sequence[Act], held: Mapping[str, Iterable[str]], outages: Sequence[Outage] = ()
) -> Compared:
    """Compare what was told with the lines that each client's file has."""
    found = Compared()
    lines = {client: Counter(names) for client, names in held.items()}
    for act in acts:
        there = lines.get(act.client, Counter())[act.name]
        if act.appends and there > 1:
            found.doubled.append(f"{act.name} ({there} times)")
        if act.appends and act.outcome == "done" and not there:
            found.lost.append(act.name)
        if act.wrong:
            found.output.append(f"{act.name} ({act.wrong})")
        if act.outcome == "failed":
            found.failed.append(f"{act.name} ({act.code})")
        if act.outcome == "unknown" and (act.keyed or not any(each.cut(act) for each in outages)):
            found.unfounded.append(act.name)
    asked = {(act.client, act.name) for act in acts if act.appends}
    found.unasked += [
        f"{client}: {name}"
        for client, names in lines.items()
        for name in names
        if (client, name) not in asked
    ]
    return found


def difference(shown: str, whole: str) -> str:
    """Return where an output differs from what it must be; nothing if it does not."""
    if shown == whole:
        return ""
    place = next(
        (at for at, (one, other) in enumerate(zip(shown, whole, strict=False)) if one != other),
        min(len(shown), len(whole)),
    )
    return f"{len(shown)} of {len(whole)} bytes; from {place} on {shown[place : place + 40]!r}"


def missed(seen: Sequence[int], every: Iterable[int]) -> str:
    """Return what a follower of events did not see, or saw twice; nothing if it saw each once, in order."""
    if any(later <= earlier for earlier, later in pairwise(seen)):
        return "events out of order or doubled"
    absent = sorted(set(every) - set(seen))
    return f"{len(absent)} events not seen, the first is {absent[0]}" if absent else ""
