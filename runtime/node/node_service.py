"""A node of a cluster as a task of Docker Swarm: it starts the node's containers, and drains it on its end.

    python -m holdfast.runtime.node.node_service [OPTION OF node...]

A service's container cannot have the machine's processes and control groups, which a node needs: there are no
such fields. So the task has little more than the engine's socket, and starts two containers beside itself, as
commands on an engine elsewhere do (`remote.elsewhere`): the node, and its keeper, which outlives it. A task
that crashed finds both as they are, and sessions notice nothing. One that is asked to end, for another
version or because its machine is drained, hands the sessions over first.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.base import polling
from holdfast.base.text import plain
from holdfast.engine.container_state import ContainerState
from holdfast.engine.engine import Engine
from holdfast.engine.engine_place import SOCKET
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.cluster.cluster_store import ClusterStore
from holdfast.runtime.remote import elsewhere

NODE, KEEPER = "holdfast-node", "holdfast-keeper"
"""The names of the two containers."""
PORT = 8420
DRAIN_SECONDS = 300.0
"""For how long a task that is to end waits for its sessions to leave; `stop_grace_period` must be longer."""
STOP_SECONDS = 25.0
SECRETS = Path("/run/secrets")
_LOOK_SECONDS = 1.0
_LABEL, _MADE_FROM = "holdfast.node", "holdfast.made-from"
_TOLD = 2000
logger = logging.getLogger("holdfast.node")


@dataclass(frozen=True, slots=True)
class NodeService:
    """What the task was given: an image, a home, the name and address of its node, and its secrets."""

    image: str
    home: str
    name: str
    address: str
    cluster: str
    token: str
    words: tuple[str, ...]
    drain_seconds: float = DRAIN_SECONDS

    @classmethod
    def of(
        cls, words: Sequence[str], environment: Mapping[str, str], info: Mapping[str, Any], secrets: Path
    ) -> NodeService:
        """Return the service of a task, by its variables, its secrets, and what the engine says of itself.

        Raises:
            InvalidArgument: something is missing.
        """
        given = {
            "HOLDFAST_IMAGE": environment.get("HOLDFAST_IMAGE", ""),
            "HOLDFAST_CLUSTER": _secret("HOLDFAST_CLUSTER", environment, secrets),
            "HOLDFAST_TOKEN": _secret("HOLDFAST_TOKEN", environment, secrets),
        }
        for key, value in given.items():
            if not value:
                raise InvalidArgument(
                    f"cannot start the node: {key} is missing",
                    hint="docs/recipes/holdfast-stack.yml names the variables and secrets",
                )
        address = environment.get("HOLDFAST_ADDRESS") or info.get("Swarm", {}).get("NodeAddr") or "127.0.0.1"
        return cls(
            image=given["HOLDFAST_IMAGE"],
            home=elsewhere.home_of({elsewhere.HOME: environment.get("HOLDFAST_HOME", "")}),
            name=environment.get("HOLDFAST_NODE") or str(info.get("Name") or "node"),
            address=f"{address}:{environment.get('HOLDFAST_PORT') or PORT}",
            cluster=given["HOLDFAST_CLUSTER"],
            token=given["HOLDFAST_TOKEN"],
            words=(*words, *shlex.split(environment.get("HOLDFAST_OPTIONS", ""))),
            drain_seconds=float(environment.get("HOLDFAST_DRAIN_SECONDS") or DRAIN_SECONDS),
        )

    def command(self) -> list[str]:
        """Return the command of the node's container."""
        reached = ["--listen", self.address, "--anywhere", "--serve-address", f"http://{self.address}"]
        return ["holdfast", "node", "--name", self.name, *reached, *self.words]

    def options(self, info: Mapping[str, Any], *, keeper: bool) -> dict[str, Any]:
        """Return how one of the two containers is made, as options of the SDK."""
        made = elsewhere.options(self.home, SOCKET, info)
        command = ["holdfast", "node", "--keeper"] if keeper else self.command()
        secret = {} if keeper else {"HOLDFAST_CLUSTER": self.cluster, "HOLDFAST_TOKEN": self.token}
        made["environment"] = {**made["environment"], **secret}
        text = json.dumps([self.image, command, made["environment"]])
        return {
            **made,
            "auto_remove": False,
            "name": KEEPER if keeper else NODE,
            "command": command,
            "labels": {_LABEL: self.home, _MADE_FROM: hashlib.sha256(text.encode()).hexdigest()},
            # The task looks after the node. The keeper has to outlast the task.
            "restart_policy": {"Name": "unless-stopped"} if keeper else {"Name": "no"},
        }


def _secret(name: str, environment: Mapping[str, str], secrets: Path) -> str:
    """Return a value from a secret of the service, whose name is the variable's in small letters."""
    with suppress(OSError):
        return (secrets / name.lower()).read_text().strip()
    return environment.get(name, "")


class ServiceTask:
    """One task: brings its node up, watches it, and takes it down."""

    def __init__(self, engine: Engine, service: NodeService, store: ClusterStore) -> None:
        self._engine, self._service, self._store = engine, service, store
        self.ends = threading.Event()

    def run(self) -> int:
        """Look after the node until it ends or the task is asked to end; return the task's exit code.

        Raises:
            HoldfastError: it cannot be started.
        """
        self._up(KEEPER)
        drained = self._up(NODE)
        if drained:
            self._store.undrain(self._service.name)
        logger.info("node %s at %s", self._service.name, self._service.address)
        while not self.ends.wait(_LOOK_SECONDS):
            state = self._engine.inspect(NODE)
            if state is None or not state.running:
                said = self._engine.logs(state.id)[-_TOLD:] if state is not None else b"its container is gone"
                logger.error("the node has ended: %s", plain(said.decode(errors="replace"), _TOLD))
                return 1
        self.down()
        return 0

    def _up(self, name: str) -> bool:
        """Have a container run as it should be; return whether the one before was stopped by `down`."""
        options = self._service.options(self._engine.info(), keeper=name == KEEPER)
        state = self._engine.inspect(name)
        same = state is not None and state.labels.get(_MADE_FROM) == options["labels"][_MADE_FROM]
        if state is not None and same and state.running:
            return False
        stopped = state is not None and not state.running and state.exit_code == 0
        if state is not None:
            self._stop(state)
            self._engine.kill_remove(state.id)
        elsewhere.start(self._engine, self._service.image, name, options)
        return stopped

    def down(self) -> None:
        """Have the sessions leave, and end the node. Its keeper stays while a session does."""
        name = self._service.name
        by_hand = any(node.id == name and node.state == "draining" for node in self._store.nodes())
        self._store.drain(name)
        left = not polling.until(self._has_left, self._service.drain_seconds, _LOOK_SECONDS)
        state = self._engine.inspect(NODE)
        if state is not None:
            self._stop(state)
            if by_hand:  # the person who drained it takes that back, not the next task
                self._engine.kill_remove(state.id)
        if not left and (keeper := self._engine.inspect(KEEPER)) is not None:
            self._engine.kill_remove(keeper.id)
        logger.info("%s %s", name, "still has sessions" if left else "has handed over its sessions")

    def _has_left(self) -> bool:
        """Return whether nothing of the node is left to hand over: sessions that are bound to it stay."""
        return not [each for each in self._store.sessions(node=self._service.name) if not each.reason]

    def _stop(self, state: ContainerState) -> None:
        if not state.running:
            return
        with suppress(HoldfastError):
            self._engine.signal(state.id, signal.SIGTERM)
            polling.until(lambda: not self._runs(state.id), STOP_SECONDS, 0.1)

    def _runs(self, container: str) -> bool:
        state = self._engine.inspect(container)
        return state is not None and state.running


def main(words: Sequence[str]) -> int:
    """Be the task until it is asked to end; return its exit code."""
    try:
        engine = Engine.connect()
        service = NodeService.of(words, os.environ, engine.info(), SECRETS)
        store = ClusterStore(service.cluster)
        task = ServiceTask(engine, service, store)
        signal.signal(signal.SIGTERM, lambda *_: task.ends.set())
        return task.run()
    except HoldfastError as error:
        logger.error("%s", f"{error}" + (f"; {error.hint}" if error.hint else ""))
        return 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    sys.exit(main(sys.argv[1:]))
