"""Compatibility of a snapshot with a machine: its needs, the machine's features, and the possible rungs.
Pure.

    live      everything continues
        commands  its files, and the recorded commands as a script
    files     its files

A rung is possible or not, for stated reasons; a lower one is never taken unasked. `runtime.restore.compat`
examines the machine; docs/moving.md gives the sources of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.base.quantities import gib_text
from holdfast.snapshots.machine import MachineFeatures, Short, missing_instructions, order

Name = Literal["live", "commands", "files"]

# The engine's names for processors that the kernel names differently.
_PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}
_LOST = {
    "live": ("connections to the outside",),
    "commands": (
        "the processes and their memory",
        "variables of shells and kernels, unless the commands recreate them",
        "files in /dev/shm and other tmpfs",
    ),
    "files": (
        "the processes and their memory",
        "variables of shells and kernels",
        "files in /dev/shm and other tmpfs",
    ),
}


class _FitnessPart(BaseModel):
    """A part of the comparison. Fields of later versions are ignored, and so not compared."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Needs(_FitnessPart):
    """The machine a snapshot was taken on. Empty or None where unrecorded.

    `uses` names the kernel features its processes hold that not every kernel has, as in `Machine.has`.
    `memory` is in bytes.
    """

    live: bool = False
    machine: MachineFeatures = MachineFeatures()
    uses: Annotated[list[Short], Field(max_length=50)] = []
    memory_bytes: Annotated[int, Field(ge=0)] = 0
    engine: Short = ""
    holdfast: Short = ""


class Here(_FitnessPart):
    """This machine and its engine. `no_live`: why live restores are impossible on it, if so."""

    machine: MachineFeatures = MachineFeatures()
    memory_bytes: int | None = None
    engine: str = ""
    platform: str = ""
    holdfast: str = ""
    no_live: str | None = None


class Rung(_FitnessPart):
    """One way to continue a snapshot here.

    `reasons` say why it is not possible, `notes` what differs here without preventing it, `lost` what a
    session made this way lacks.
    """

    name: Name
    possible: bool
    reasons: list[str] = []
    notes: list[str] = []
    lost: list[str] = []


class Ladder(_FitnessPart):
    """All rungs, best first; `live`: processes were kept, so a lower rung would lose them."""

    rungs: list[Rung]
    live: bool = True

    def rung(self, name: Name) -> Rung:
        """Return the rung of that name."""
        return next(rung for rung in self.rungs if rung.name == name)

    @property
    def best(self) -> Rung | None:
        """The best possible rung; None if there is none."""
        return next((rung for rung in self.rungs if rung.possible), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the ladder as plain values, for programs."""
        return {"best": self.best.name if self.best else None, **self.model_dump(mode="json")}


def compare(needs: Needs, here: Here, *, commands: int | None = None) -> Ladder:
    """Return a snapshot's ladder on a machine; `commands` are recorded with it (None: not known yet)."""
    live = list(_live(needs, here))
    files = list(_files(needs, here))
    replay = [*files, *(["no commands are recorded with it"] if commands == 0 else [])]
    return Ladder(
        rungs=[
            _rung("live", [*files, *live], list(_notes(needs, here)) if needs.live else []),
            _rung("commands", replay, []),
            _rung("files", files, []),
        ],
        live=needs.live,
    )


def _rung(name: Name, reasons: list[str], notes: list[str]) -> Rung:
    return Rung(name=name, possible=not reasons, reasons=reasons, notes=notes, lost=list(_LOST[name]))


def _files(needs: Needs, here: Here) -> Iterator[str]:
    wanted = _PLATFORMS.get(needs.machine.arch, needs.machine.arch)
    has = here.platform.rpartition("/")[2]
    has = _PLATFORMS.get(has, has)
    if wanted and has and wanted != has:
        yield f"its programs are for {wanted}, this engine runs {has}"


def _live(needs: Needs, here: Here) -> Iterator[str]:
    if not needs.live:
        yield "it is a snapshot of files: it does not contain processes"
        return
    if here.no_live:
        yield here.no_live
    was, now = needs.machine, here.machine
    if was.arch and now.arch and was.arch != now.arch:
        yield f"its processes are from a {was.arch} machine, and this is {now.arch}"
        return
    yield from _processor(was, now)
    yield from _software(needs, here)
    if here.memory_bytes is not None and needs.memory_bytes > here.memory_bytes:
        held, memory = gib_text(needs.memory_bytes), gib_text(here.memory_bytes)
        yield f"its processes hold {held}, but this machine has {memory}"


def _processor(was: MachineFeatures, now: MachineFeatures) -> Iterator[str]:
    # Libraries chose their routines by these when the programs started, and would continue to use them.
    missing = missing_instructions(was, now)
    if missing:
        yield f"this processor lacks {_some(missing)}, which its programs perhaps use"
    if was.xfeatures is not None and now.xfeatures is not None and was.xfeatures & ~now.xfeatures:
        sets = f"sets {was.xfeatures:#x}, here {now.xfeatures:#x}"
        yield f"this processor cannot hold registers of its programs ({sets})"
    elif was.xsave_bytes and now.xsave_bytes and was.xsave_bytes != now.xsave_bytes:
        # Programs keep the size they learned at their start, and save registers into areas of that size.
        yield f"registers take {now.xsave_bytes} bytes here, its programs provide for {was.xsave_bytes}"
    if was.page_bytes and now.page_bytes and was.page_bytes != now.page_bytes:
        yield f"its memory is in pages of {was.page_bytes} bytes, this kernel's have {now.page_bytes}"


def _software(needs: Needs, here: Here) -> Iterator[str]:
    was, now = needs.machine, here.machine
    if was.kernel and now.kernel and order(now.kernel) < order(was.kernel):
        yield f"this kernel ({now.kernel}) is older than the one its programs know ({was.kernel})"
    if was.criu and now.criu and order(now.criu) < order(was.criu):
        yield f"it was written by CRIU {was.criu}, which CRIU {now.criu} perhaps cannot read"
    if needs.holdfast and here.holdfast and order(here.holdfast) < order(needs.holdfast):
        yield f"its supervisor is from Holdfast {needs.holdfast}, and this is {here.holdfast}"
    if now.has and (lacking := sorted(set(needs.uses) - set(now.has))):
        yield f"this kernel lacks {_some(lacking)}, which its processes use"
    if was.vdso is not None and now.vdso is not None:
        stray = was.vdso.stray(now.vdso)
        if stray:
            yield f"its programs call {_some(stray)} in their kernel's vDSO, which this kernel does not have"


def _notes(needs: Needs, here: Here) -> Iterator[str]:
    was, now = needs.machine, here.machine
    if was.kernel and now.kernel and was.kernel != now.kernel:
        yield f"kernel {now.kernel} here, {was.kernel} there"
    if was.criu and now.criu and was.criu != now.criu:
        yield f"CRIU {now.criu} here, {was.criu} there"
    if was.cgroup and now.cgroup and was.cgroup != now.cgroup:
        yield f"control groups are of version {now.cgroup} here, {was.cgroup} there"
    if was.cpu and now.cpu and was.processor != now.processor and was.processor:
        yield f"processor {now.processor or 'unknown'} here, {was.processor} there"
    if was.vdso is not None and now.vdso is not None and was.vdso != now.vdso:
        yield "the vDSO differs here: clock_getres(2) returns nothing to programs that continue"
    if not was.cpu:
        yield "the features of its processor are not recorded; only kind and versions are compared"


def _some(names: list[str], most: int = 6) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
