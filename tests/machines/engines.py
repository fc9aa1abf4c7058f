"""Machines of the matrix, by the engine they have: started when first used."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.machines import debian, loop_disk
from tests.machines.cells import EngineSpec
from tests.machines.engine_kinds import DOCKER, FUSE_OVERLAYFS, PODMAN, PODMAN_ROOTLESS, WITHOUT_ROOT
from tests.machines.second import Machine

from holdfast.engine.engine import Engine
from holdfast.images import build

DISK_BYTES = 12 << 30
"""Size of the disk of an engine that has one of its own; it takes what is written to it."""


class Engines:
    """Engines of different versions than this machine's, with its images. Ended together."""

    def __init__(self, cache: Path) -> None:
        """`cache` keeps the systems that they are from."""
        self._cache = cache
        self._engine = Engine.connect()
        self._images = [build.ensure(self._engine.images, kind) for kind in build.ALWAYS]
        self._started: dict[EngineSpec, tuple[Machine, ExitStack]] = {}

    def get(self, spec: EngineSpec) -> Machine:
        """Return the machine with this engine. A machine that is unfit for sessions has no images."""
        if spec not in self._started:
            with ExitStack() as making:
                machine = making.enter_context(self._made(spec))
                self._started[spec] = machine, making.pop_all()
        return self._started[spec][0]

    @contextmanager
    def _made(self, spec: EngineSpec) -> Iterator[Machine]:
        # No deep folder: the path of a Unix socket has 108 bytes at most. Ordinary users reach it.
        root = Path(tempfile.mkdtemp(prefix="m-", dir="/tmp"))
        root.chmod(0o711)
        packages = debian.FUSE if spec.store == FUSE_OVERLAYFS else debian.ENGINE
        system = debian.engine_root(
            self._cache, spec.suite, packages if spec.kind == DOCKER else debian.OTHERS
        )
        with (
            _data(spec.disk) as data,
            Machine(
                root,
                self._images if spec.fit else (),
                of=self._engine,
                system=system,
                kind=spec.kind,
                store=spec.store,
                data=data,
                options=spec.options,
            ) as machine,
        ):
            yield machine

    def only(self, *kept: EngineSpec) -> None:
        """End the machines that are not among these: each holds the images once more."""
        for spec in [spec for spec in self._started if spec not in kept]:
            self._started.pop(spec)[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.only()
        self._engine.close()


@contextmanager
def _data(file_system: str) -> Iterator[Path | None]:
    """Yield a data root on a disk with this file system; None if there is no such disk."""
    if not file_system:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as folder:
        image, point = Path(folder, "disk.img"), Path(folder, "data")
        loop_disk.make(image, file_system, DISK_BYTES)
        point.mkdir()
        loop_disk.mount(image, point, file_system)
        try:
            yield point
        finally:
            loop_disk.run("umount", str(point))


def versions(info: Mapping[str, Any], version: Mapping[str, Any]) -> dict[str, str]:
    """Return the table's text for an engine, by its own report: its version, and its parts' versions."""
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
    store = f"{spec.store} on {spec.disk}" if spec.disk not in ("", spec.store) else spec.store
    parts = [f"{name} {version}", *([store] if spec.kind == DOCKER else []), more]
    return ", ".join(part for part in parts if part)


def _short(version: str) -> str:
    """Return a version without what a distribution appends to it."""
    for mark in ("+", "~", "-"):
        version = version.partition(mark)[0]
    return version
