"""Nodes of a cluster: machines with engines and networks of their own, with a PostgreSQL and a registry.

Each can be cut off from either, can lose its agent or its keeper, and can be lost as a whole, as by a cut of
its power. A door stands in front of them, as a reverse proxy does, and leads to the node that it is given.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from tests.machines.caddy import Caddy
from tests.machines.daemon import CGROUPS
from tests.machines.nginx import Nginx
from tests.machines.postgres import Postgres
from tests.machines.registry import Registry
from tests.machines.relay import Relay
from tests.machines.second import Machine

from holdfast.engine.engine import Engine
from holdfast.errors import SessionNotFound
from holdfast.images import build
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.cluster.cluster_rows import LeaseTerms
from holdfast.runtime.cluster.cluster_store import ClusterStore

TERMS = LeaseTerms(ttl_s=6.0, beat_s=1.0, margin_s=3.0)
PATIENCE = 300.0
TOKEN = "token-of-all-nodes-of-this-cluster-" + "0" * 16
LOSS = "8s"


class Node:
    """One machine of a cluster, with its agent while that runs."""

    def __init__(self, name: str, root: Path, images: Iterable[str], of: Engine, lab: Lab) -> None:
        root.mkdir()
        self.name, self._lab = name, lab
        self.machine = Machine(root, images, of=of)
        self.log = lab.folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._listening: dict[int, Relay] = {}
        self.reach(lab.postgres.port)
        self.reach(lab.registry.port)
        self.port = _free_port()
        self._entry = Relay(self.port, into=self.machine.daemon.pid)

    @property
    def address(self) -> str:
        """Where the other machines reach it."""
        return f"http://{self._entry.address}"

    def reach(self, port: int) -> None:
        """Let the machine reach a port of 127.0.0.1 here, under its own number."""
        if port not in self._listening:
            self._listening[port] = Relay(port, port=port, network_of=self.machine.daemon.pid)

    def cut(self, port: int) -> None:
        """Cut the machine off from a port."""
        self._listening.pop(port).close()

    def leave_clients(self) -> None:
        """Let nothing reach its doors any more, until `let_clients_in`."""
        self._entry.close()

    def let_clients_in(self) -> None:
        """Let its doors be reached from outside again, at the same address."""
        self._entry = Relay(self.port, port=self._entry.port, into=self.machine.daemon.pid)

    def crash_engine(self) -> None:
        """Kill its engine alone, which is then started again."""
        self.leave_clients()
        self.machine.daemon.crash()
        self.let_clients_in()

    def silence(self, port: int) -> Relay:
        """Let a port be reached, and nothing of what it answers come back: the connection works one way."""
        self.cut(port)
        held = Relay(port, port=port, network_of=self.machine.daemon.pid)
        held.hold_after(down=0)
        self._listening[port] = held
        return held

    def pause(self) -> None:
        """Stop everything on it at one moment, as a hypervisor does."""
        for pid in self._all():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let everything continue that `pause` stopped."""
        for pid in self._all():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _all(self) -> set[int]:
        return {*self.machine.daemon.processes(), *self._in_groups()}

    def addresses(self, session: str) -> tuple[str, list[str]]:
        """Return the address of a session's container in the machine's network, and those of its bridge."""
        found = self.machine.engine.containers(holdfast_role="session")
        for container, labels in found.items():
            state = self.machine.engine.inspect(container)
            if state is not None and labels.get("holdfast.session") == session and state.addresses:
                return state.addresses[0], [each.partition("/")[0] for each in state.gateways]
        raise AssertionError(f"{session} has no container on {self.name}")

    def reaches(self, address: str, port: int) -> bool:
        """Return whether a connection from the machine itself to an address in its network is taken."""
        asked = f"import socket; socket.create_connection(({address!r}, {port}), 1)"
        return self.machine.run(sys.executable, "-c", asked).returncode == 0

    def start(self, **environment: str) -> None:
        """Start its agent, with more variables of its environment, and wait until it serves."""
        words = [
            *("node", "--name", self.name, "--registry", f"{self._lab.registry.address}/sessions"),
            *("--plain-http", "--durable", self._lab.loss, "--rate", "0"),
            *("--listen", f"127.0.0.1:{self.port}", "--serve-address", self.address),
            *("--preview-url", f"http://previews.localhost:{self._lab.proxy_port}"),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.machine.command(*self.machine.holdfast_command, *words),
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        told = self._process.stdout.readline().decode()
        assert re.match(r"serving http://", told), (told, self.said())

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its programs."""
        return {
            **self.machine.environment,
            "HOLDFAST_CLUSTER": self._lab.postgres.dsn_at("127.0.0.1"),
            "HOLDFAST_TOKEN": TOKEN,
        }

    def kill_agent(self) -> None:
        """Kill its agent, and nothing else."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    @property
    def pid(self) -> int:
        """The process of its agent, which runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def serves(self) -> bool:
        """Whether its agent was started and not killed."""
        return self._process is not None

    def keeper(self) -> int | None:
        """Return the process of its keeper; None if there is none."""
        wanted = f"lease_keeper\0{self.machine.home.root}\0".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if wanted in (folder / "cmdline").read_bytes():
                    return int(folder.name)
        return None

    def lose(self) -> None:
        """Lose the machine, as by a cut of its power: nothing of it runs any more."""
        for port in list(self._listening):
            self.cut(port)
        for _ in range(3):
            for pid in self._all():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._thaw_groups()
            time.sleep(0.05)
        if self._process is not None:
            self.kill_agent()

    def frozen(self) -> list[str]:
        """Return the sessions that its command line lists as frozen."""
        done = self.machine.cli("ls", "--json")
        assert done.returncode == 0, done.stderr
        return [each["name"] for each in json.loads(done.stdout) if each["state"] in ("frozen", "paused")]

    def said(self) -> str:
        """Return its agent's log."""
        return self.log.read_text(errors="replace")[-6000:]

    def end(self) -> None:
        """End everything on it and remove it."""
        for relay in (self._entry, *self._listening.values()):
            relay.close()
        self._listening.clear()
        if self._process is not None:
            self.kill_agent()
        if (keeper := self.keeper()) is not None:
            os.kill(keeper, signal.SIGKILL)
        self._thaw_groups()
        self._kill_groups()
        self.machine.daemon.end()

    def _groups(self) -> list[Path]:
        found = [parent / self.machine.daemon.cgroup for parent in (CGROUPS, *CGROUPS.glob("*/"))]
        return [each for group in found if group.is_dir() for each in (group, *group.glob("**/"))]

    def _in_groups(self) -> set[int]:
        pids = set[int]()
        for group in self._groups():
            with suppress(OSError):
                pids.update(map(int, (group / "cgroup.procs").read_text().split()))
        return pids

    def _thaw_groups(self) -> None:
        for group in self._groups():
            for name, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                with suppress(OSError):
                    if (group / name).exists():
                        (group / name).write_text(word)

    def _kill_groups(self) -> None:
        for pid in self._in_groups():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def cluster(folder: Path) -> Iterator[Lab]:
    """Yield a cluster without nodes yet, whose machines get this machine's images."""
    engine = Engine.connect()
    try:
        images = [build.ensure(engine.images, kind) for kind in build.ALWAYS]
        with Lab(folder, images, engine) as made:
            yield made
    finally:
        engine.close()


class Lab:
    """A cluster with a door in front of its nodes."""

    def __init__(
        self,
        folder: Path,
        images: Iterable[str],
        of: Engine,
        *,
        terms: LeaseTerms = TERMS,
        loss: str = LOSS,
    ) -> None:
        """Make one. `loss` is the policy of its nodes: how much work the loss of one can cost."""
        self.folder, self.terms, self.loss = folder, terms, loss
        self._images, self._of = list(images), of
        self._stack = ExitStack()
        self.postgres = self._stack.enter_context(Postgres(listen=["127.0.0.1"]))
        self.registry = self._stack.enter_context(Registry(folder / "registry"))
        self.store = ClusterStore(self.postgres.dsn)
        self._stack.callback(self.store.close)
        self.store.init(terms)
        self.nodes: dict[str, Node] = {}
        self._door: Relay | None = None
        self._door_port = _free_port()
        self.proxy_port = _free_port()

    def node(self, name: str) -> Node:
        """Add a machine, and start its agent."""
        made = Node(name, self.folder / name, self._images, self._of, self)
        self.nodes[name] = made
        self._stack.callback(made.end)
        made.start()
        return made

    def fail_over_to(self, standby: Postgres) -> None:
        """Use another database from now on; the nodes find it at the same address."""
        self._stack.callback(standby.__exit__, None, None, None)
        self.store.close()
        self.postgres, self.store = standby, ClusterStore(standby.dsn)
        self._stack.callback(self.store.close)

    def empty_registry(self) -> None:
        """Replace the registry's content by nothing."""
        self.registry.stop()
        shutil.rmtree(self.registry.folder / "blobs")
        self.registry.start()

    def proxy(self) -> Nginx:
        """Start nginx in front of all nodes."""
        return self._stack.enter_context(
            Nginx(self.folder / "nginx", self.proxy_port, self._entries(), TOKEN)
        )

    def caddy(self) -> Caddy:
        """Start Caddy in front of all nodes."""
        return Caddy(self.folder / "caddy", _free_port(), self._entries(), TOKEN)

    def _entries(self) -> list[str]:
        return [node.address.removeprefix("http://") for node in self.nodes.values() if node.serves]

    def lead_to(self, node: Node) -> None:
        """Have the door lead to a node."""
        if self._door is not None:
            self._door.close()
        self._door = Relay(node.port, port=self._door_port, into=node.machine.daemon.pid)

    @property
    def url(self) -> str:
        """The address of the door."""
        return f"http://127.0.0.1:{self._door_port}"

    def client(self, url: str = "") -> RemoteHoldfast:
        """Return the library over a URL, by default the door's."""
        return RemoteHoldfast(url or self.url, token=TOKEN)

    def http(self, url: str = "") -> httpx.Client:
        """Return a plain client of a URL, by default the door's."""
        return httpx.Client(
            base_url=url or self.url,
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=60,
            trust_env=False,
        )

    def until(self, what: Callable[[], object], said: str, patience: float = PATIENCE) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + patience
        while not _holds(what):
            logs = "\n".join(f"--- {name}\n{node.said()}" for name, node in self.nodes.items())
            assert time.monotonic() < deadline, f"not in {patience} s: {said}\n{logs}"
            time.sleep(0.1)

    def copied(self, name: str, after: int = 0) -> int:
        """Wait until a session has a copy with a higher number than this, and return its number."""

        def number() -> int:
            copy = self.store.session(name).copy
            return 0 if copy is None else copy.number

        self.until(lambda: number() > after, f"a copy of {name} after {after}")
        return number()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._door is not None:
            self._door.close()
        self._stack.close()


def _holds(what: Callable[[], object]) -> bool:
    with suppress(SessionNotFound):
        return bool(what())
    return False


def _free_port() -> int:
    with Relay(1) as probe:
        return probe.port
