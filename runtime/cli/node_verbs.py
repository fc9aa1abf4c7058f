"""The verb of a machine that is a node of a cluster: node."""

from __future__ import annotations

import logging
import os
import socket

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing, server_verbs
from holdfast.runtime.cli.arguments import SERVING
from holdfast.runtime.cli.cluster_verbs import CLUSTER, DSN
from holdfast.runtime.cli.grammar import examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.serve.api_server import Beside
    from holdfast.runtime.serve.callers import Callers


@examples(
    "node --cluster postgresql://holdfast@db/holdfast --registry registry.example.org/sessions "
    "--listen 10.0.0.5:8420 --anywhere"
)
def node(
    cluster: str | None = CLUSTER,
    registry: str | None = option(
        "--registry", metavar="HOST/NAME", help="Where durable copies of sessions go."
    ),
    name: str | None = option("--name", help="The name of this node; by default the machine's."),
    serve_address: str | None = option(
        "--serve-address", metavar="URL", help="Where the other nodes and the proxy reach it."
    ),
    durable: str = option(
        "--durable",
        metavar="TIME|off",
        default="60s",
        help="Most work that the loss of this machine costs a session whose policy does not say.",
    ),
    plain_http: bool = option("--plain-http", help="Reach the registry without TLS."),
    keeper: bool = option("--keeper", help="Only freeze sessions whose lease is over: for a separate unit."),
    serving: dict[str, Any] = SERVING,
) -> None:
    """Serve sessions as a node of a cluster: they continue elsewhere when this machine is lost."""
    from holdfast.runtime.node import lease_keeper

    if keeper:
        lease_keeper.keep(Home.default().create())
        return
    dsn = cluster or os.environ.get(DSN, "")
    if not dsn:
        raise InvalidArgument(
            "cannot join a cluster: its database is not named", hint=f"give --cluster, or set {DSN}"
        )
    if not registry:
        raise InvalidArgument(
            "cannot join a cluster: a registry for durable copies is not named",
            hint="give --registry HOST/NAME; `docker run -d -p 5000:5000 registry:2` starts one",
        )
    if "@" in registry or ":" in registry.rpartition("/")[2]:
        raise InvalidArgument(
            f"cannot use registry {registry}: copies have tags of their own", hint="name it without a tag"
        )
    from holdfast.runtime.store import policy

    loss = 0.0 if durable in ("off", "none", "0") else policy.parse({"durable": durable}).durable or 0.0
    called = name or socket.gethostname()

    def joining(callers: Callers, url: str) -> Beside:
        from holdfast.runtime.cluster.cluster_store import ClusterStore
        from holdfast.runtime.node.durable_copies import Registry
        from holdfast.runtime.node.node_agent import ACTOR, NodeAgent, NodeSettings
        from holdfast.runtime.node.node_tasks import NodeTasks
        from holdfast.runtime.serve.session_places import SessionPlaces

        logging.getLogger("httpx").setLevel(logging.WARNING)  # it would name each part of each copy
        store = ClusterStore(dsn)
        address = (serve_address or url).rstrip("/")
        settings = NodeSettings(called, address, Registry(registry, plain_http), loss)
        callers.places = SessionPlaces(store, address)
        agent = NodeAgent(callers.controller(ACTOR).context, store, settings)
        printing.note(f"node {called} of the cluster; others reach it at {address}")
        return [NodeTasks(agent).running]

    with lease_keeper.only_agent(Home.default().create()):
        server_verbs.serve_home(joining=joining, **serving)
