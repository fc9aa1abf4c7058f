"""Many machines: placements, losses and the way to a session, in clusters of up to ten thousand sessions.

Nodes are simulated, the database and the proxy are real (`cluster_simulation`, `cluster_routing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.cluster_routing import measured
from bench.cluster_simulation import Figures, simulate
from bench.plan import Plan
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast.runtime.cluster.cluster_rows import LeaseTerms

FAMILY = "cluster"
SESSIONS = (500, 2_500, 10_000)
FEW = (200, 600)
"""The numbers of sessions of a quick run."""
ON_A_NODE = 50
TERMS = LeaseTerms(ttl_s=6.0, beat_s=2.0, margin_s=2.0)
REQUESTS = 20_000
_AT = "over the numbers of sessions"


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure clusters of each size, then the proxy."""
    from tests.machines.postgres import Postgres

    quick = plan.create <= 3
    sizes = FEW if quick else SESSIONS
    found: list[Figures] = []
    for sessions in sizes:
        world.tell(f"{sessions} sessions on {sessions // ON_A_NODE} nodes")
        with Postgres(durable=True) as server:
            found.append(simulate(server.dsn, sessions, sessions // ON_A_NODE, TERMS))
    waits = TERMS.ttl_s + TERMS.margin_s
    ways: dict[str, list[float]] = {
        "one placement, of many at the same time": [1 / each.placements_per_s for each in found],
        "one placement, for its caller": [each.place_p50_ms / 1000 for each in found],
        "a lost node's sessions placed again, after lease and margin": [
            max(0.001, each.again_p50_s - waits) for each in found
        ],
    }
    limits = {"one placement, of many at the same time": Target(1 / 200, "value", "200 placements a second")}
    for name, seconds in ways.items():
        yield Row(
            FAMILY,
            name,
            Series("Holdfast", "s", (seconds[-1],)),
            group=f"{sizes[-1]} sessions",
            target=limits.get(name),
            note=f"{_AT} {sizes}: {', '.join(f'{one:.4f}' for one in seconds)}",
        )
    wrong = sum(each.twice + each.nowhere for each in found)
    if wrong:
        raise RuntimeError(f"{wrong} sessions ran twice or nowhere")
    world.tell("requests through nginx")
    cost = measured(REQUESTS // 10 if quick else REQUESTS)
    yield Row(
        FAMILY,
        "a request through the proxy",
        Series("Holdfast", "s", (cost.routed_p50_ms / 1000,)),
        baseline=Series("nginx with one node", "s", (cost.fixed_p50_ms / 1000,)),
        note=f"adds {cost.added_p50_ms} ms; nginx's processor {cost.routed_processor_us} µs, "
        f"with one node {cost.fixed_processor_us} µs",
    )
    yield Row(
        FAMILY,
        "added by routing",
        Series("Holdfast", "s", (max(1e-6, cost.added_p50_ms / 1000),)),
        target=Target(0.0005, "value", "nobody notices"),
    )


def curves(found: Sequence[Row]) -> tuple[tuple[int, ...], dict[str, list[float]]]:
    """Return the sizes and the seconds of each row at each of them; nothing without rows of this family."""
    sizes: tuple[int, ...] = ()
    values: dict[str, list[float]] = {}
    for row in found:
        if row.family == FAMILY and row.note.startswith(_AT):
            given, _, seconds = row.note.removeprefix(_AT).partition(": ")
            sizes = tuple(int(one) for one in given.strip(" ()").split(", "))
            values[row.name] = [float(one) for one in seconds.split(", ")]
    return sizes, values
