"""Nodes that Docker Swarm starts, upgrades and drains by the shipped stack file: three machines, with the
oldest and the newest engine there is.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.machines import debian
from tests.machines.nodes import TERMS, TOKEN
from tests.machines.postgres import Postgres
from tests.machines.registry import Registry
from tests.machines.swarm import Swarm, SwarmNode

from holdfast.engine.engine import Engine
from holdfast.errors import HoldfastError
from holdfast.images import build
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.cluster.cluster_store import ClusterStore

pytestmark = [pytest.mark.timeout(1800), pytest.mark.thorough]

PATIENCE = 600.0
ENGINES = {"oldest": None, "newest": "sid"}


class Cluster:
    """A swarm whose nodes are a cluster: with a database, a registry, and the images of this machine."""

    def __init__(self, stack: ExitStack, system: Path | None) -> None:
        folder = Path(tempfile.mkdtemp(prefix="s-", dir="/tmp"))  # a socket's path must be short
        folder.chmod(0o711)
        stack.callback(folder.rmdir)
        engine = Engine.connect()
        stack.callback(engine.close)
        images = [build.ensure(engine.images, kind) for kind in (*build.ALWAYS, "controller")]
        self.image = images[-1]
        self.postgres = stack.enter_context(Postgres(listen=["127.0.0.1"]))
        content = stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-registry-", dir="/var/tmp"))
        self.registry = stack.enter_context(Registry(Path(content)))
        self.store = ClusterStore(self.postgres.dsn)
        stack.callback(self.store.close)
        self.store.init(TERMS)
        self.swarm = stack.enter_context(Swarm(folder, images, engine, 3, system))
        for node in self.swarm.nodes:
            node.reach(self.postgres.port)
            node.reach(self.registry.port)
        self.doors = {node.name: node.door() for node in self.swarm.nodes}
        self.swarm.secret("holdfast_cluster", self.postgres.dsn_at("127.0.0.1"))
        self.swarm.secret("holdfast_token", TOKEN)

    def deploy(self, image: str) -> None:
        """Deploy the shipped file with an image."""
        self.swarm.deploy(
            {
                "HOLDFAST_IMAGE": image,
                "HOLDFAST_REGISTRY": f"{self.registry.address}/sessions",
                "HOLDFAST_HOME": self.swarm.homes,
                "HOLDFAST_DURABLE": "8s",
                "HOLDFAST_OPTIONS": "--plain-http",
            }
        )

    def until(self, what: Callable[[], object], said: str) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + PATIENCE
        while not _holds(what):
            assert time.monotonic() < deadline, f"not in {PATIENCE} s: {said}\n{self.swarm.said()}"
            time.sleep(0.5)

    def states(self) -> dict[str, str]:
        """Return the states of the nodes."""
        return {node.id: node.state for node in self.store.nodes()}

    def node_of(self, name: str) -> SwarmNode:
        """Return the machine that has a session."""
        found = self.store.session(name).node
        return next(node for node in self.swarm.nodes if node.name == found)

    def color(self, name: str) -> str:
        """Return a shell variable of a session."""
        with RemoteHoldfast(self.doors[self.node_of(name).name], token=TOKEN) as hf:
            return hf.session(name).exec("echo $COLOR", timeout=60).text


def _holds(what: Callable[[], object]) -> bool:
    try:
        return bool(what())
    except (HoldfastError, OSError, StopIteration, AssertionError):  # on its way
        return False


@pytest.fixture(params=ENGINES, scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The shipped file, deployed."""
    suite = ENGINES[str(request.param)]
    system = debian.engine_root(debian.default_cache(), suite) if suite else None
    with ExitStack() as stack:
        made = Cluster(stack, system)
        made.deploy(made.image)
        yield made


def test_one_command_brings_up_a_node_on_each_machine(cluster: Cluster) -> None:
    """Each in the cluster under the name of its machine, with its keeper beside it; a session runs on one."""
    cluster.until(lambda: cluster.states() == dict.fromkeys(cluster.doors, "ready"), "three nodes")
    for node in cluster.swarm.nodes:
        names = node.docker("ps", "--format", "{{.Names}}").split()
        assert {"holdfast-node", "holdfast-keeper"} <= set(names)
    with RemoteHoldfast(cluster.doors["rack2"], token=TOKEN) as hf:
        hf.new("work").exec("COLOR=green", timeout=60)
    cluster.until(lambda: cluster.store.session("work").copy, "a copy")


def test_a_task_that_crashes_leaves_its_node_at_work(cluster: Cluster) -> None:
    """The next one finds the same containers."""
    node = cluster.node_of("work")
    before = node.docker("inspect", "--format", "{{.Id}}", "holdfast-node")
    task = node.docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=holdfast_node")
    node.docker("kill", task)
    cluster.until(
        lambda: (
            node.docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=holdfast_node")
            not in ("", task)
        ),
        "another task",
    )
    assert node.docker("inspect", "--format", "{{.Id}}", "holdfast-node") == before
    assert cluster.color("work") == "green\n"


def test_a_machine_that_swarm_drains_hands_its_sessions_over(cluster: Cluster) -> None:
    """It gets sessions again when it is active."""
    node, manager = cluster.node_of("work"), cluster.swarm.nodes[0]
    before = cluster.store.session("work")
    manager.docker("node", "update", "--availability", "drain", node.name)
    cluster.until(lambda: cluster.node_of("work") is not node, "the session elsewhere")
    cluster.until(lambda: cluster.color("work") == "green\n", "the session at work")
    assert cluster.store.session("work").epoch == before.epoch + 1
    assert "recovered" not in [each.kind for each in cluster.store.events(before.id)]
    cluster.until(lambda: "holdfast-node" not in node.docker("ps", "--format", "{{.Names}}"), "the end")
    manager.docker("node", "update", "--availability", "active", node.name)
    cluster.until(lambda: cluster.states().get(node.name) == "ready", "the node again")


def test_another_version_replaces_the_nodes_one_by_one(cluster: Cluster) -> None:
    """Each hands its sessions over first; nothing is lost."""
    before = cluster.store.session("work")
    following = f"{cluster.image.partition(':')[0]}:next"
    for node in cluster.swarm.nodes:
        node.docker("tag", cluster.image, following)
    cluster.deploy(following)

    def replaced() -> bool:
        images = [
            node.docker("inspect", "--format", "{{.Config.Image}} {{.State.Running}}", "holdfast-node")
            for node in cluster.swarm.nodes
        ]
        return images == [f"{following} true"] * 3

    cluster.until(replaced, "three nodes of the next version")
    cluster.until(lambda: set(cluster.states().values()) == {"ready"}, "all of them ready")
    cluster.until(lambda: cluster.color("work") == "green\n", "the session")
    assert "recovered" not in [each.kind for each in cluster.store.events(before.id)]
