"""Engines that are one Docker Swarm: machines with networks of their own, joined by a bridge in another one.

The stack file that docs/recipes ships is deployed on them as it is; what differs is in its variables. Does
not know what a node does.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.machines.relay import Relay
from tests.machines.second import Machine
from tests.machines.unpacked import REPOSITORY

from holdfast.engine.engine import Engine

SHIPPED = REPOSITORY / "docs/recipes/holdfast-stack.yml"
PORT = 8420
_ENGINE = "/run/docker.sock"
"""Where the shipped file has the engine's socket."""


class Bridge:
    """A network namespace with a bridge, which machines are joined to as 10.77.0.1, .2, …"""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._in(self._process.pid, "ip", "link", "add", "hub", "type", "bridge")
        self._in(self._process.pid, "ip", "link", "set", "hub", "up")

    def join(self, pid: int, number: int) -> str:
        """Join the network of a process; return its address."""
        hub, address, name = self._process.pid, f"10.77.0.{number}", f"to{number}"
        self._in(hub, *f"ip link add {name} type veth peer name hub netns {pid}".split())
        self._in(hub, "ip", "link", "set", name, "master", "hub", "up")
        self._in(pid, "ip", "addr", "add", f"{address}/24", "dev", "hub")
        self._in(pid, "ip", "link", "set", "hub", "up")
        return address

    def close(self) -> None:
        """End it, and with it all links."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @staticmethod
    def _in(pid: int, *command: str) -> None:
        done = subprocess.run(
            ["nsenter", f"--target={pid}", "--net", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)


class SwarmNode:
    """One machine of the swarm."""

    def __init__(self, name: str, machine: Machine, address: str) -> None:
        self.name, self.machine, self.address = name, machine, address
        self._doors: list[Relay] = []

    def reach(self, port: int) -> None:
        """Let the machine reach a port of 127.0.0.1 here, under its own number."""
        self._doors.append(Relay(port, port=port, network_of=self.machine.daemon.pid))

    def door(self) -> str:
        """Return a URL here that leads to the server of the node."""
        self._doors.append(Relay(PORT, into=self.machine.daemon.pid, host=self.address))
        return f"http://{self._doors[-1].address}"

    def docker(self, *words: str, **environment: str) -> str:
        """Return what the command `docker` prints there, which must succeed."""
        done = subprocess.run(
            ["docker", "--host", self.machine.host, *words],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def end(self) -> None:
        """End everything on it."""
        for each in self._doors:
            each.close()
        for container in self.machine.engine.containers():
            self.machine.engine.kill_remove(container)
        self.machine.engine.close()
        self.machine.daemon.end()


class Swarm:
    """Machines of a swarm; the first one manages it."""

    def __init__(
        self, folder: Path, images: Iterable[str], of: Engine, count: int, system: Path | None
    ) -> None:
        self.folder = folder
        self.nodes: list[SwarmNode] = []
        self._stack = ExitStack()
        with ExitStack() as making:
            bridge = Bridge()
            making.callback(bridge.close)
            for number in range(1, count + 1):
                name = f"rack{number}"
                (folder / name).mkdir()
                machine = Machine(
                    folder / name,
                    list(images),
                    of=of,
                    system=system,
                    options=["--host", f"unix://{_ENGINE}"],
                    name=name,
                )
                node = SwarmNode(name, machine, bridge.join(machine.daemon.pid, number))
                making.callback(node.end)
                self.nodes.append(node)
            first, *others = self.nodes
            first.docker("swarm", "init", "--advertise-addr", first.address)
            token = first.docker("swarm", "join-token", "--quiet", "worker")
            for node in others:
                words = ("--token", token, "--advertise-addr", node.address, f"{first.address}:2377")
                node.docker("swarm", "join", *words)
            self._stack = making.pop_all()

    @property
    def homes(self) -> str:
        """The home of each node, as a variable of the stack file."""
        return str(self.folder / "{{.Node.Hostname}}" / "homes/home")

    def secret(self, name: str, value: str) -> None:
        """Make a secret of the swarm."""
        done = subprocess.run(
            ["docker", "--host", self.nodes[0].machine.host, "secret", "create", name, "-"],
            input=value,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def deploy(self, variables: Mapping[str, str]) -> None:
        """Deploy the shipped file with these variables."""
        words = ("--resolve-image", "never", "--compose-file", str(SHIPPED), "holdfast")
        self.nodes[0].docker("stack", "deploy", *words, **variables)

    def said(self) -> str:
        """Return what the tasks and the nodes' containers say, for a test that fails."""
        manager = self.nodes[0]
        told = [manager.docker("stack", "ps", "--no-trunc", "holdfast")]
        for node in self.nodes:
            told.append(
                f"--- {node.name}: {node.docker('ps', '--all', '--format', '{{.Names}} {{.Status}}')}"
            )
            for container in node.docker("ps", "--all", "--quiet", "--filter", "name=holdfast").split():
                done = subprocess.run(
                    ["docker", "--host", node.machine.host, "logs", "--tail", "12", container],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                told.append(done.stdout + done.stderr)
        return "\n".join(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
