"""The number of rounds of every measurement."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """Rounds of each family; heaps in bytes, `stored` those of storage.

    A round of `exec` and `cell` is a batch of calls.
    """

    create: int
    execute: int
    cell: int
    heap: int
    instant: int
    heaps: tuple[int, ...]
    storage: int = 3
    stored: tuple[int, ...] = (256 * MIB, 1024 * MIB)


FULL = Plan(create=15, execute=25, cell=20, heap=7, instant=12, heaps=(50 * MIB, 500 * MIB, 1024 * MIB))
QUICK = Plan(create=3, execute=5, cell=4, heap=2, instant=3, heaps=(50 * MIB, 1024 * MIB), storage=1)


def heap_name(size: int) -> str:
    """Return the name of a heap in the results."""
    return f"{size // MIB} MiB" if size < 1024 * MIB else f"{size / (1024 * MIB):g} GiB"
