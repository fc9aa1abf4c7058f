"""Machines of the matrix, by the engine they have: started when first used."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.machines import debian
from tests.machines.cells import EngineSpec
from tests.machines.engine_kinds import DOCKER, PODMAN, PODMAN_ROOTLESS, WITHOUT_ROOT
from tests.machines.second import Machine

from holdfast.engine.engine import Engine
from holdfast.images import build


class Engines:
    """Engines of other versions than this machine's, with its images. Ended together."""

    def __init__(self, cache: Path) -> None:
        """`cache` keeps the systems that they are from."""
        self._cache = cache
        self._engine = Engine.connect()
        self._images = [build.ensure(self._engine.images, kind) for kind in build.ALWAYS]
        self._started: dict[EngineSpec, Machine] = {}

    def get(self, spec: EngineSpec) -> Machine:
        """Return the machine with this engine. One that is unfit for sessions has no images."""
        if spec not in self._started:
            # No deep folder: the path of a Unix socket has 108 bytes at most. Ordinary users reach it.
            root = Path(tempfile.mkdtemp(prefix="m-", dir="/tmp"))
            root.chmod(0o711)
            self._started[spec] = Machine(
                root,
                self._images if spec.fit else (),
                of=self._engine,
                system=debian.engine_root(
                    self._cache, spec.suite, debian.ENGINE if spec.kind == DOCKER else debian.OTHERS
                ),
                kind=spec.kind,
                store=spec.store,
                options=spec.options,
            )
        return self._started[spec]

    def only(self, *kept: EngineSpec) -> None:
        """End the machines that are not among these: each holds the images once more."""
        for spec in [spec for spec in self._started if spec not in kept]:
            self._started.pop(spec).__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.only()
        self._engine.close()


def versions(info: Mapping[str, Any], version: Mapping[str, Any]) -> dict[str, str]:
    """Return what the table says of an engine, by its own report: its version, and those of its parts."""
    parts = {str(part["Name"]).lower(): str(part["Version"]) for part in version.get("Components") or []}
    return {
        "engine": _short(str(info["ServerVersion"])),
        "containerd": _short(parts.get("containerd", "")),
        "runc": _short(parts.get("runc", "")),
        "kernel": _short(str(info["KernelVersion"])),
        "cgroup": str(info.get("CgroupVersion") or "1"),
    }


def shown(spec: EngineSpec, version: str) -> str:
    """Return an engine and its store in words, such as `Docker 28.5.2, containerd`."""
    name = "Podman" if spec.kind in (PODMAN, PODMAN_ROOTLESS) else "Docker"
    more = "without root" if spec.kind in WITHOUT_ROOT else "userns-remap" if spec.remapped else ""
    parts = [f"{name} {version}", *([spec.store] if spec.kind == DOCKER else []), more]
    return ", ".join(part for part in parts if part)


def _short(version: str) -> str:
    """Return a version without what a distribution appends to it."""
    for mark in ("+", "~", "-"):
        version = version.partition(mark)[0]
    return version
