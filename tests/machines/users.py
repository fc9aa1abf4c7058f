"""Users of a second machine: root, and an ordinary one in the group of the engine's socket.

Each has a separate home and the real command line: root uses this environment, the other user the installed
package. Knows no scenario.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.machines import wheel
from tests.machines.installed import USER, Place
from tests.machines.second import Machine

from holdfast.base.home import Home

PATIENCE = 400.0
"""Seconds for one command; with vfs the engine copies a gigabyte for each container and image."""


class MachineUser:
    """Root on a machine."""

    def __init__(self, machine: Machine) -> None:
        """Make a folder with a home, which is removed at the end with all that the engine holds of it."""
        self.folder = Path(tempfile.mkdtemp(dir=machine.daemon.homes))
        self.machine = machine
        self.home = Home(self.folder / "home")
        self.environment = machine.environment | {"HOLDFAST_HOME": str(self.home.root)}
        self._mounts = self._mounted()

    def cli(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command `holdfast` there, with these arguments."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    def command(self, *arguments: str) -> list[str]:
        """Return the command of `cli`."""
        return self.machine.command(*self.machine.holdfast_command, *arguments)

    def fetch(self, file: Path) -> Path:
        """Return the path of a file, which is the same everywhere."""
        return file

    def left(self) -> list[str]:
        """Return containers, images and mounts of the home, except for the checkpointer, which ends
        unasked."""
        engine, digest = self.machine.engine, self.home.digest
        labels = engine.containers(holdfast_home=digest)
        found = [
            f"container {key} ({of.get('holdfast.role')})"
            for key, of in labels.items()
            if of.get("holdfast.role") != "checkpointer"
        ]
        found += [f"image {one.id}" for one in engine.images.listed(holdfast_home=digest)]
        names = {str(one["Name"]) for one in engine.client.api.networks()}
        found += [f"network {name}" for name in sorted(names - {"bridge", "host", "none", "holdfast"})]
        return found + [f"mount {point}" for point in sorted(self._mounted() - self._mounts)]

    def _mounted(self) -> set[str]:
        """Return mounts of the home, here and where the engine runs."""
        tables = (Path("/proc/self/mounts"), Path(f"/proc/{self.machine.daemon.pid}/mounts"))
        points = {line.split()[1] for table in tables for line in table.read_text().splitlines()}
        return {point for point in points if point.startswith(str(self.folder))}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        engine, digest = self.machine.engine, self.home.digest
        for container in engine.containers(holdfast_home=digest):
            engine.kill_remove(container)
        for image in engine.images.listed(holdfast_home=digest):
            engine.images.remove(image.id)
        for point in sorted(self._mounted(), reverse=True):
            subprocess.run(self.machine.command("umount", "--lazy", point), check=False)
        shutil.rmtree(self.folder)


class GroupUser(MachineUser):
    """An ordinary user, whose only rights are the socket's group."""

    def __init__(self, machine: Machine, place: Place, programs: Path) -> None:
        """`programs` are the commands of an environment in `place`, whose user it is."""
        super().__init__(machine)
        os.chown(self.folder, USER, USER)
        self._place, self._programs = place, programs
        self.environment = place.environment | {
            key: self.environment[key] for key in ("DOCKER_HOST", "HOLDFAST_HOME")
        }

    def command(self, *arguments: str) -> list[str]:
        socket = self.machine.daemon.socket
        return self.machine.command(
            *self._place.command(self._programs, "holdfast", *arguments, socket=socket)
        )


def of(name: str, machine: Machine, place: Place) -> MachineUser:
    """Return a user of a machine: root, or an ordinary one, for whom the package is installed in `place`."""
    if name == "root":
        return MachineUser(machine)
    return GroupUser(machine, place, place.programs or _installed(place))


def _installed(place: Place) -> Path:
    """Install this package, built as others would, and return its programs."""
    source = place.folder / "source"
    wheel.copy_source(source)
    return place.install(wheel.build(source, place.folder / "built"), "installed")
