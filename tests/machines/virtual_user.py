"""Root on a virtual machine, as a user of the scenario."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.machines.virtual import VirtualMachine

HOUR = 3600.0
"""Seconds for one command: the processor is emulated."""
_LEFT = """
docker ps --all --filter label=holdfast.role=session --format 'container {{.Names}}'
docker images --all --filter label=holdfast.home --format 'image {{.ID}}'
docker network ls --format 'network {{.Name}}' | grep -vxE 'network (bridge|host|none|holdfast)'
grep -o '/var/lib/holdfast/run/[^ ]*' /proc/mounts
true
"""


class VirtualUser:
    """Root there, with the home of the machine. `kept` is a folder here, for files that are fetched."""

    def __init__(self, machine: VirtualMachine, kept: Path) -> None:
        self.folder = Path("/var/tmp")
        self._machine, self._kept = machine, kept

    def cli(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command `holdfast` there, with these arguments."""
        said = f"printf %s {shlex.quote(stdin)} | " if stdin else ""
        return self._machine.run(said + shlex.join(["holdfast", *arguments]), seconds=HOUR)

    def fetch(self, file: Path) -> Path:
        """Copy a file to this machine, and return its path here."""
        self._machine.fetch(file, self._kept / file.name)
        return self._kept / file.name

    def left(self) -> list[str]:
        """Return containers of sessions, images of the home, networks and mounts that are left."""
        return self._machine.run(_LEFT).stdout.splitlines()

    def described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the engine's report about itself and its versions."""
        info = json.loads(self._machine.run("docker info --format '{{json .}}'").stdout)
        version = json.loads(self._machine.run("docker version --format '{{json .Server}}'").stdout)
        return info, version
