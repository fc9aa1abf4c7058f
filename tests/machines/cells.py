"""The cells of the matrix: an engine, its image store, a user, and the expected results.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.machines.engine_kinds import (
    CONTAINERD,
    DOCKER,
    FUSE_OVERLAYFS,
    PODMAN,
    PODMAN_ROOTLESS,
    ROOTLESS,
    SUBORDINATE,
)
from tests.machines.scenario import VERBS, Step

ROOT, GROUP = "root", "group"
"""Users: root, and an ordinary one in the group of the engine's socket."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """An engine: the suite of Debian it is from, its store as in `daemon.Daemon`, its kind and options.

    Its data are on a disk of their own if a file system is named, of `loop_disk`.
    """

    suite: str
    store: str = "overlay2"
    kind: str = DOCKER
    remapped: bool = False
    disk: str = ""

    @property
    def name(self) -> str:
        """A short name."""
        parts = [self.suite, self.store if self.kind == DOCKER else self.kind]
        parts += [self.disk] if self.disk not in ("", self.store) else []
        return "-".join([*parts, *(["remapped"] if self.remapped else [])])

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the daemon."""
        return (f"--userns-remap={SUBORDINATE}",) if self.remapped else ()

    @property
    def fit(self) -> bool:
        """Whether sessions can run on it."""
        return self.kind == DOCKER and not self.remapped

    @property
    def slow(self) -> bool:
        """Whether its layers cannot be read, so that it has to commit files while a session is frozen."""
        return self.store not in ("overlay2", CONTAINERD)

    @property
    def keeps_deleted(self) -> bool:
        """Whether deleted files that are open can be captured. `doctor` tries it, and the session that is
        rewound has one.
        """
        return self.store != FUSE_OVERLAYFS


@dataclass(frozen=True, slots=True)
class Cell:
    """One engine and one user of it."""

    engine: EngineSpec
    user: str = ROOT

    @property
    def name(self) -> str:
        """The name by which pytest selects it."""
        return f"{self.engine.name}-{self.user}"

    @property
    def other(self) -> EngineSpec:
        """The engine of a different version with a different store that continues an export from here."""
        return OLDER if self.engine == NEWEST else NEWEST

    def wrong(
        self, steps: Sequence[Step], without: Sequence[str] = (), refused: Sequence[str] = ()
    ) -> list[str]:
        """Return the deviations of this cell; some steps were left out, or must be refused."""
        expected = dict.fromkeys(VERBS, "ok") | dict.fromkeys(without, "not run")
        beyond = () if self.engine.keeps_deleted else ("doctor", "rewind")
        expected |= dict.fromkeys((*refused, *beyond), "refused")
        if not self.engine.fit:
            expected = dict.fromkeys(VERBS, "not run") | {"doctor": "refused", "new": "refused", "rm": "ok"}
        found = {step.verb: step for step in steps}
        wrong = [
            f"{verb}: {found[verb]}" for verb, result in expected.items() if found[verb].result != result
        ]
        slow = [verb for verb in ("doctor", "snapshot") if "commit" in found[verb].note]
        verbs = [verb for verb in ("doctor", "snapshot") if self.engine.slow and expected[verb] == "ok"]
        if self.engine.fit and slow != verbs:
            wrong.append(f"a slow freeze is reported by {slow or 'no step'}")
        return wrong


NEWEST = EngineSpec("sid", CONTAINERD)
"""The newest engine that Debian has, with the store that new engines of Docker's own packages have."""
OLDER = EngineSpec("trixie")
CELLS = (
    *(
        Cell(engine, user)
        for engine in (
            EngineSpec("bookworm"),
            OLDER,
            EngineSpec("trixie", CONTAINERD),
            EngineSpec("sid"),
            NEWEST,
        )
        for user in (ROOT, GROUP)
    ),
    Cell(EngineSpec("bookworm", "vfs")),
    Cell(EngineSpec("trixie", "btrfs", disk="btrfs")),
    Cell(EngineSpec("trixie", FUSE_OVERLAYFS)),
    Cell(EngineSpec("trixie", disk="xfs")),
    Cell(EngineSpec("trixie", remapped=True)),
    *(Cell(EngineSpec("trixie", kind=kind)) for kind in (ROOTLESS, PODMAN, PODMAN_ROOTLESS)),
)
VIRTUAL = ("bookworm", "trixie", "sid")
"""Suites whose own kernels have rows: virtual machines with cgroup v2, systemd and AppArmor."""
