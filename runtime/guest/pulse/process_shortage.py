"""The culprit of a process shortage: the largest process group, which one signal ends.

Pure. A signal to a group reaches all of it at one instant: a fork that is under way fails, see fork(2) and
kill(2). So it ends a fork bomb, which would outrun signals to single processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.pulse.process_lineage import ScannedProcess

LEAST = 8
"""Processes of a group that is worth naming."""


@dataclass(frozen=True, slots=True)
class ProcessCrowd:
    """The largest process group: its number, its size, and one of its processes."""

    group: int
    members: int
    member: int

    @property
    def remedy(self) -> str:
        """The command that ends it; the shell runs it itself, without a process."""
        return f"kill -KILL -- -{self.group}"


def largest(table: Iterable[ScannedProcess], spared: Collection[int]) -> ProcessCrowd | None:
    """Return the largest group that is not `spared`, or None if all groups are small."""
    there = [process for process in table if process.group > 1 and process.group not in spared]
    for group, members in Counter(process.group for process in there).most_common(1):
        if members >= LEAST:
            return ProcessCrowd(group, members, next(each.pid for each in there if each.group == group))
    return None
