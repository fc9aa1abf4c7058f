"""`python -m bench`: measure, write the result and the plot, print a table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import curves, plot, row, show, warm
from bench.capturers.capturer import Capturer
from bench.families import (
    agent,
    artifacts,
    cell,
    cluster,
    create,
    doors,
    execute,
    heaps,
    instant,
    moving,
    packing,
    pulse,
    scale,
    sleeping,
    starting,
    steps,
    storage,
    stores,
    supervisor,
    teams,
    untouched,
)
from bench.plan import FULL, QUICK, Plan
from bench.row import Row
from bench.world import World, about, opened
from holdfast import HoldfastError
from holdfast.base.interrupts import held

RESULTS = Path(__file__).parent / "results"
FAMILIES = (
    "starting",
    "create",
    "execute",
    "cell",
    "doors",
    "teams",
    "supervisor",
    "pulse",
    "heaps",
    "instant",
    "storage",
    "packing",
    "artifacts",
    "forks",
    "agent",
    "move",
    "stores",
)
ALONE = ("scale", "steps", "cluster", "sleeping")
"""Each runs only if it is named, and has a result of its own."""

_errors = Console(stderr=True, highlight=False)


def main() -> int:
    chosen = _arguments()
    signal.signal(signal.SIGTERM, _interrupt)
    started = time.monotonic()
    rows: list[Row] = []
    tell = _Progress()
    try:
        with opened(tell) as world:
            facts = about(world, quick=chosen.quick)
            if not chosen.quick:
                warm.touch(tell)
            peers = _peers(world) if chosen.peers else []
            try:
                for name in (*FAMILIES, *ALONE):
                    if name not in (chosen.only or FAMILIES):
                        continue
                    tell.family = name
                    rows += _guarded(name, world, QUICK if chosen.quick else FULL, peers)
            finally:
                with held():
                    for peer in peers:
                        peer.remove()
            tell.family = ""
    except KeyboardInterrupt:
        _errors.print("stopped; nothing of it remains")
        return 130
    except HoldfastError as error:
        _errors.print(f"{error}{f' ({error.hint})' if error.hint else ''}")
        return 1
    facts["seconds"] = round(time.monotonic() - started)
    Console(width=None if sys.stdout.isatty() else 160).print(show.table(rows))
    latest = next((f"latest-{name}" for name in ALONE if chosen.only == [name]), "latest")
    for path in _write(rows, facts, latest):
        print(os.path.relpath(path))
    return 1 if any(each.skipped and each.subject.who == "Holdfast" for each in rows) else 0


def _guarded(name: str, world: World, plan: Plan, peers: list[Capturer]) -> Iterator[Row]:
    """Yield the rows of a family. If it fails, a row says why, and the run continues."""
    try:
        yield from _family(name, world, plan, peers)
    except (HoldfastError, RuntimeError, OSError, subprocess.SubprocessError) as error:
        lines = str(error).splitlines()
        yield row.skipped(name, name, "Holdfast", lines[0] if lines else type(error).__name__)
        world.forget()


def _family(name: str, world: World, plan: Plan, peers: list[Capturer]) -> Iterator[Row]:
    alone: dict[str, Callable[[World, Plan], Iterator[Row]]] = {
        "create": create.rows,
        "execute": execute.rows,
        "cell": cell.rows,
        "doors": doors.rows,
        "teams": teams.rows,
        "supervisor": supervisor.rows,
        "pulse": pulse.rows,
        "starting": starting.rows,
        "scale": scale.rows,
        "storage": storage.rows,
        "packing": packing.rows,
        "artifacts": artifacts.rows,
        "forks": untouched.rows,
        "agent": agent.rows,
        "move": moving.rows,
        "stores": stores.rows,
        "steps": steps.rows,
        "cluster": cluster.rows,
        "sleeping": sleeping.rows,
    }
    if name in alone:
        return alone[name](world, plan)
    if name == "heaps":
        return heaps.rows(world, plan, peers)
    return instant.rows(world, plan, peers)


def _peers(world: World) -> list[Capturer]:
    from bench.capturers import gvisor, podman

    return [podman.Podman(world), gvisor.GVisor(world)]


def _write(rows: list[Row], facts: dict[str, object], latest: str) -> list[Path]:
    RESULTS.mkdir(exist_ok=True)
    result = row.dump(rows, facts)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    text = json.dumps(result, indent=1) + "\n"
    written = [
        RESULTS / f"{stamp}.json",
        RESULTS / f"{latest}.json",
        RESULTS / f"{stamp}.svg",
        RESULTS / f"{latest}.svg",
    ]
    for path in written:
        path.write_text(text if path.suffix == ".json" else _picture(rows, facts))
    return written


def _picture(rows: list[Row], facts: dict[str, object]) -> str:
    sizes, seconds = cluster.curves(rows)
    if seconds:
        facts_of = f"{cluster.ON_A_NODE} sessions on a node; a tenth of the nodes is lost at one moment"
        return curves.svg("Seconds of a cluster, by the number of its sessions", facts_of, sizes, seconds)
    if not (found := scale.curves(rows)):
        return plot.svg(rows, facts)
    title = "Seconds of a command, by the number of sessions"
    each = f"each with {scale.SNAPSHOTS} snapshots and {scale.COMMANDS} commands in its journal"
    return curves.svg(title, f"medians of {scale.ROUNDS}; {each}", scale.STEPS, found)


class _Progress:
    """Lines on standard error: the current step for a person, nothing for a pipe."""

    family = ""

    def __call__(self, line: str) -> None:
        _errors.print(
            f"[dim]bench {self.family}:[/dim] {line}" if self.family else f"[dim]bench:[/dim] {line}"
        )


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few rounds: shows that it works, not how fast it is"
    )
    parser.add_argument("--peers", action="store_true", help="Podman and gVisor on the same heaps, too")
    parser.add_argument(
        "--only", action="append", choices=(*FAMILIES, *ALONE), help="only this family (may be repeated)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
