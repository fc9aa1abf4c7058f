"""The parts of a session that survive a capture, as the host knows them, and the effect of dropping some.

Pure. The wording comes from the catalogue that the checkpointer judges by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument
from holdfast.snapshots.checkpointer.survey.catalogue import BLOCKS, CATALOGUE, RESET, SURVIVES

_NAME = re.compile(r"pid:(\d{1,7})|fd:(\d{1,7})/(\d{1,7})")


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of a session. `kind` is a key of the catalogue; pids are the session's own.

    `fd` is None if it is not a descriptor. `also` are other processes whose end would clear it; `own` says
    that it is the supervisor's, not a program's.
    """

    kind: str
    pid: int
    command: str
    what: str
    fd: int | None = None
    also: tuple[int, ...] = ()
    own: bool = False

    @property
    def verdict(self) -> str:
        """`survives`, `reset` (a copy finds it closed or empty), or `blocks` (a capture is refused)."""
        return CATALOGUE[self.kind].verdict

    @property
    def reason(self) -> str:
        """The reason for the verdict, as the end of a sentence about it; may be empty."""
        return CATALOGUE[self.kind].reason

    @property
    def advice(self) -> str:
        """The advice about it; may be empty."""
        return CATALOGUE[self.kind].advice.replace("PID", str(self.pid)).replace("FD", str(self.fd))

    @property
    def name(self) -> str:
        """Its name for `--force-drop`: the descriptor, or the process if that cannot be left out."""
        if self.fd is not None and CATALOGUE[self.kind].replaceable:
            return f"fd:{self.pid}/{self.fd}"
        return f"pid:{self.pid}"

    def as_dict(self) -> dict[str, Any]:
        """Return the resource as plain values, for programs."""
        return {
            **as_table(self),
            "verdict": self.verdict,
            "reason": self.reason,
            "advice": self.advice,
            "drop": self.name if self.verdict == BLOCKS else None,
        }


@dataclass(frozen=True, slots=True)
class Survivability:
    """The fate of everything in a session if it were captured now. Bytes are estimates, at most.

    If there was more than is examined or reported, `whole` is false and `left_out` counts the rest. Files
    that changed since the session's image have a `changed_length` and take `changed_bytes` on the disk, which
    is less if there are holes; `fault` says why they cannot be copied, and is usually empty.
    """

    resources: tuple[Resource, ...]
    processes: int
    descriptors: int
    memory_bytes: int
    file_bytes: int
    free_bytes: int
    seconds: float
    whole: bool = True
    left_out: int = 0
    changed_files: int = 0
    changed_length: int = 0
    changed_bytes: int = 0
    fault: str = ""

    @property
    def blocks(self) -> tuple[Resource, ...]:
        """The resources that make a capture impossible."""
        return self._of(BLOCKS)

    @property
    def resets(self) -> tuple[Resource, ...]:
        """The resources that stay with the session and are closed or empty in copies."""
        return self._of(RESET)

    @property
    def survives(self) -> tuple[Resource, ...]:
        """The resources that copies have unchanged."""
        return self._of(SURVIVES)

    def _of(self, verdict: str) -> tuple[Resource, ...]:
        return tuple(one for one in self.resources if one.verdict == verdict)

    def as_dict(self, *, own: bool = False) -> dict[str, Any]:
        """Return the report as plain values, for programs; with `own`, include what is the supervisor's."""
        shown = [one for one in self.resources if own or not one.own]
        return {
            "blocks": sum(one.verdict == BLOCKS for one in shown),
            "reset": sum(one.verdict == RESET for one in shown),
            "survives": sum(one.verdict == SURVIVES for one in shown),
            **as_table(self, "resources"),
            "findings": [one.as_dict() for one in shown],
        }


@dataclass(frozen=True, slots=True)
class Drops:
    """The resources named to be left out: processes that end, descriptors not connected in a copy."""

    pids: tuple[int, ...] = ()
    descriptors: tuple[tuple[int, int], ...] = ()

    def cover(self, one: Resource) -> bool:
        """Return whether these drops remove this obstacle."""
        ended = one.pid in self.pids or any(pid in self.pids for pid in one.also)
        return ended or (one.fd is not None and (one.pid, one.fd) in self.descriptors)


def drops(names: Sequence[str], found: Iterable[Resource]) -> Drops:
    """Return the drops of blocking resources in `found` that `names` request.

    Raises:
        InvalidArgument: a name is not valid, names something that does not block, or names a descriptor that
            cannot be left out.
    """
    blocking = list(found)
    pids: list[int] = []
    descriptors: list[tuple[int, int]] = []
    for name in names:
        parts = _NAME.fullmatch(name)
        if parts is None:
            raise InvalidArgument(
                f"cannot drop '{name[:60]}': it is neither pid:PID nor fd:PID/FD",
                hint="`holdfast snapshot SESSION --check` lists the blockers",
            )
        if parts[1]:
            _check(name, [one for one in blocking if int(parts[1]) in (one.pid, *one.also)])
            pids.append(int(parts[1]))
            continue
        place = int(parts[2]), int(parts[3])
        _check(name, [one for one in blocking if (one.pid, one.fd) == place], by_descriptor=True)
        descriptors.append(place)
    return Drops(tuple(dict.fromkeys(pids)), tuple(dict.fromkeys(descriptors)))


def _check(name: str, named: list[Resource], *, by_descriptor: bool = False) -> None:
    if not named:
        raise InvalidArgument(
            f"cannot drop {name}: no resource of that name blocks a capture",
            hint="`holdfast snapshot SESSION --check` lists the blockers",
        )
    if by_descriptor and not all(CATALOGUE[one.kind].replaceable for one in named):
        raise InvalidArgument(
            f"cannot drop {name}: this cannot be left out on its own ({named[0].what})",
            hint=f"`--force-drop pid:{named[0].pid}` ends the process",
        )


def table() -> str:
    """Return the catalogue as it appears in docs/survivability.md."""
    lines = ["| resource | verdict | a process with it … | what to do |", "|---|---|---|---|"]
    for verdict in (BLOCKS, RESET, SURVIVES):
        lines += [
            f"| {kind.title} | {verdict} | {kind.reason} | {kind.advice} |"
            for kind in CATALOGUE.values()
            if kind.verdict == verdict
        ]
    return "\n".join(lines) + "\n"
