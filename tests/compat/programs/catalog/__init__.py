"""The programs that are tried, by family. Data only."""

from __future__ import annotations

from collections.abc import Sequence

from tests.compat.programs.catalog import (
    building,
    compiled,
    everyday,
    guarded,
    python,
    scripting,
    services,
    shells,
    terminals,
    watching,
)
from tests.compat.programs.program import Program

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

PROGRAMS: tuple[Program, ...] = (
    *shells.PROGRAMS,
    *python.PROGRAMS,
    *scripting.PROGRAMS,
    *watching.PROGRAMS,
    *compiled.PROGRAMS,
    *services.PROGRAMS,
    *terminals.PROGRAMS,
    *building.PROGRAMS,
    *guarded.PROGRAMS,
)

FURTHER: tuple[Program, ...] = everyday.PROGRAMS
"""Programs that are tried by name or family only, and are not on the page."""


def chosen(only: Sequence[str] = ()) -> list[Program]:
    """Return the programs of these names or families, in the order of the catalog; all of the page if none is
    named.

    Raises:
        InvalidArgument: one of them is not in the catalog.
    """
    programs = (*PROGRAMS, *FURTHER)
    known = {program.name for program in programs} | {program.family for program in programs}
    for name in only:
        if name not in known:
            raise InvalidArgument(
                f"cannot try program '{plain(name, 60)}': it is not in the catalog",
                hint="`python -m tests.compat programs list` shows what is",
            )
    return [one for one in programs if one.name in only or one.family in only] if only else [*PROGRAMS]
