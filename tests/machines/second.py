"""A second machine: Holdfast on an engine that shares nothing with this machine's but the kernel.

It shares neither the network (there is no way out of its namespace) nor the mounts, the data root, `/run`
where daemons find each other, the cgroups, or the home. It gets only the things that a test gives it: the
images of Holdfast, which is "installed there", a door to a registry (`relay.Relay`), files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import docker
from tests.machines.daemon import Daemon
from tests.machines.engine_kinds import DOCKER
from tests.machines.seed import seed, transfer

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.runtime.api.controller import Holdfast


class Machine:
    """The second machine while it runs. `home` is Holdfast's home there."""

    def __init__(
        self,
        root: Path,
        images: Iterable[str] = (),
        *,
        of: Engine,
        system: Path | None = None,
        kind: str = DOCKER,
        store: str = "overlay2",
        disk: Path | None = None,
        data: Path | None = None,
        options: Sequence[str] = (),
        name: str = "",
    ) -> None:
        """Start it, with these images of another engine: this machine's, or one as `Daemon` describes.
        `options` are more of the daemon's, `name` is the machine's.

        Its data and its home are on `disk`, if that is given, and stay there; or only its data in `data`.
        """
        data = disk / "data" if disk else data
        self.daemon = Daemon(root, system, kind=kind, store=store, data=data, options=options, name=name)
        self.home = Home((disk or self.daemon.homes) / "home").create()
        try:
            seeded = images and store == "overlay2" == of.info()["Driver"]
            if seeded:
                seed(self.daemon.data, images, of)
            self.daemon.start()
            if images and not seeded:
                transfer(images, of.socket, self.host)
            self.engine = Engine(docker.DockerClient(base_url=self.host, timeout=300))
        except BaseException:
            self.daemon.end()
            raise

    @property
    def host(self) -> str:
        """The value of DOCKER_HOST there."""
        return f"unix://{self.daemon.socket}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a user there."""
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("DOCKER_", "HOLDFAST_"))
        }
        return kept | {"DOCKER_HOST": self.host, "HOLDFAST_HOME": str(self.home.root)}

    def command(self, *command: str) -> list[str]:
        """Return a command of this machine as it is run there, in its network and mounts; `environment` goes
        with it.
        """
        entering = ["nsenter", f"--target={self.daemon.pid}", "--net", "--mount"]
        if self.daemon.system is not None:
            entering.append(f"--root=/proc/{self.daemon.pid}/root/run/host")
        return [*entering, "--", *(["env", "--chdir=/"] if self.daemon.system else []), *command]

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command there, and wait for its end."""
        return subprocess.run(
            self.command(*command),
            env=self.environment | environment,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=240,
            check=False,
        )

    @property
    def holdfast_command(self) -> list[str]:
        """The command `holdfast`."""
        return [sys.executable, "-m", "holdfast"]

    def cli(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command `holdfast` there, with these arguments."""
        return self.run(*self.holdfast_command, *arguments, **environment)

    @contextmanager
    def holdfast(self, home: Home | None = None, **options: Any) -> Iterator[Holdfast]:
        """Return a controller there: of the machine's home by default."""
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = self.host
        try:
            controller = Holdfast(home or self.home, **options)
            where = Path(controller.engine.info()["DockerRootDir"])
        finally:
            os.environ.pop("DOCKER_HOST")
            if before is not None:
                os.environ["DOCKER_HOST"] = before
        assert where.is_relative_to(self.daemon.data)
        with controller:
            yield controller

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for container in self.engine.containers():
                self.engine.kill_remove(container)
            self.engine.close()
        finally:
            self.daemon.end()
