"""`python -m bench.server_load`: many clients on one server, which is killed again and again.

Prints a table and writes the result. Sessions run on the engine of this machine, in a home of their own;
everything is removed at the end. It fails if a figure misses its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import row, show
from bench.server_load import load_rows, load_run
from bench.server_load.load_run import Found, Load
from bench.server_load.loaded_server import served
from bench.world import World, about, opened
from holdfast import HoldfastError

RESULTS = Path(__file__).parents[1] / "results"
SESSION_BYTES, REST_BYTES = 150 << 20, 2 << 30
"""Memory of a session with its kernel and four shells, and of all else, clients and server among it."""
DESCRIPTORS = 16_384

_errors = Console(stderr=True, highlight=False)


def main() -> int:
    chosen = _arguments()
    signal.signal(signal.SIGTERM, _interrupt)
    needed, free = chosen.sessions * SESSION_BYTES + REST_BYTES, _available()
    if needed > free:
        _errors.print(
            f"cannot start {chosen.sessions} sessions: they may need {show.figure(needed, 'bytes')}, "
            f"and {show.figure(free, 'bytes')} are free; start fewer with --sessions"
        )
        return 1
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    idle = 60.0 if chosen.minutes >= 10 else 20.0
    load = Load(chosen.clients, chosen.minutes * 60, chosen.kills, chosen.pace, idle)
    try:
        with opened(lambda line: _errors.print(line, markup=False)) as world:
            facts = about(world, quick=chosen.minutes < 10)
            facts |= {"sessions": chosen.sessions, "clients": load.clients, "seconds": load.seconds}
            found = _run(world, chosen.sessions, load)
    except KeyboardInterrupt:
        _errors.print("stopped; nothing of it remains")
        return 130
    except HoldfastError as error:
        _errors.print(f"{error}{f' ({error.hint})' if error.hint else ''}", markup=False)
        return 1
    rows = list(load_rows.rows(found))
    Console(width=None if sys.stdout.isatty() else 160).print(show.table(rows))
    for line in [*found.compared.faults, *found.errors][:40]:
        print(line)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(row.dump(rows, facts), indent=1) + "\n"
    for path in (RESULTS / f"server-load-{stamp}.json", RESULTS / "latest-server-load.json"):
        path.write_text(text)
        print(os.path.relpath(path))
    return int(any(each.verdict == "miss" for each in rows))


def _run(world: World, sessions: int, load: Load) -> Found:
    with served(world.home) as server:

        async def work() -> Found:
            names = await load_run.sessions(server, sessions, world.tell)
            return await load_run.run(server, names, load, world.home, world.tell)

        return asyncio.run(work())


def _available() -> int:
    """Return the bytes of memory that programs can have (proc(5), MemAvailable)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.server_load", description=__doc__)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--pace", type=float, default=4.0, help="seconds between two acts of a client")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
