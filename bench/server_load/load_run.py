"""One run: sessions and clients on one server, kills, a rest, and what was found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.server_load.load_clients import LoadClient, Turns, kinds
from bench.server_load.loaded_server import LoadedServer, Sample, health, probed
from bench.server_load.told_acts import Act, Compared, Outage, compare
from holdfast import AsyncHoldfast

SAMPLE_SECONDS = 5.0
REST_SECONDS = 240.0
"""In which acts under way must end: as long as a call is repeated, and more."""
SETTLE_SECONDS = 35.0
"""From the last act to the idle time: idle threads end after 30 s."""
AT_ONCE = 4
"""Sessions that are started at a time."""
CONNECTING = 16
"""Clients that connect at a time."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much, for how long: seconds. `idle` is the time in which no client acts; 0 leaves it out."""

    clients: int
    seconds: float
    kills: int = 0
    pace: float = 4.0
    idle: float = 0.0


@dataclass(slots=True)
class Found:
    """What a run found."""

    acts: list[Act] = field(default_factory=list)
    compared: Compared = field(default_factory=Compared)
    outages: list[Outage] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    idle_share: float | None = None
    """Processor time of the server in each second in which no client acted."""
    idle_threads: int = 0
    errors: list[str] = field(default_factory=list)
    """Lines of the server's log."""


async def sessions(server: LoadedServer, count: int, tell: Callable[[str], None]) -> list[str]:
    """Start sessions, few at a time, and return their names."""
    turn, made = asyncio.Semaphore(AT_ONCE), 0
    async with AsyncHoldfast(server.url, token=server.token) as controller:

        async def start(name: str) -> str:
            nonlocal made
            async with turn:
                await controller.new(name)
                made += 1
                if made % 10 == 0 or made == count:
                    tell(f"{made} of {count} sessions")
            return name

        return list(await asyncio.gather(*(start(f"load-{number}") for number in range(count))))


async def run(
    server: LoadedServer, names: Sequence[str], load: Load, folder: Path, tell: Callable[[str], None]
) -> Found:
    """Put load on a server. `folder` gets the figures of /health."""
    found = Found(outages=server.outages)
    turns = Turns(load.pace)
    clients = [
        kind(number, server.url, server.token, names[number % len(names)], turns, found.acts)
        for number, kind in enumerate(kinds(load.clients))
    ]
    with ExitStack() as stack:
        watching = asyncio.create_task(server.watch(SAMPLE_SECONDS))
        stack.callback(watching.cancel)
        living = await _connected(clients, stack)
        tell(f"{len(clients)} clients in {len(names)} sessions")
        answers = folder / "health"
        with probed(server, answers):
            turns.acting.set()
            await _killed(server, load, tell, living)
        found.health = health(answers, server.outages)
        found.samples = list(server.samples)  # those under load
        if not await turns.rest(REST_SECONDS):
            found.errors += [f"{name} does not end" for name in sorted(turns.busy)]
            tell(f"{', '.join(sorted(turns.busy))} do not end")
        if load.idle:
            tell("idle")
            await _idle(server, load, found)
        turns.end()
        ended, left = await asyncio.wait(living, timeout=REST_SECONDS)
        found.errors += [f"{len(left)} clients do not end"] if left else []
        # An error of one must not cost what all have found.
        found.errors += [f"a client ended in {error!r}" for each in ended if (error := each.exception())]
        found.compared = compare(found.acts, await _held(server, clients), server.outages)
    found.errors += server.errors()
    return found


async def _connected(clients: Sequence[LoadClient], stack: ExitStack) -> list[asyncio.Task[None]]:
    """Let clients connect, few at a time; return their lives."""
    turn = asyncio.Semaphore(CONNECTING)

    async def begin(client: LoadClient) -> asyncio.Task[None]:
        async with turn:
            ready = asyncio.Event()
            life = asyncio.create_task(client.live(ready.set))
            stack.callback(life.cancel)
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait({life, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                waiting.cancel()
                await life  # with the error that it ended in
            return life

    return list(await asyncio.gather(*(begin(each) for each in clients)))


async def _killed(
    server: LoadedServer, load: Load, tell: Callable[[str], None], living: Sequence[asyncio.Task[None]]
) -> None:
    """Let the load last for its time; kill the server in the first half, so that the last life is long."""
    began = time.monotonic()
    for moment in kill_moments(load.seconds, load.kills):
        await _until(began + moment, living)
        await server.kill()
        outage = server.outages[-1]
        tell(f"killed; another one answered after {outage.answered - outage.killed:.1f} s")
    await _until(began + load.seconds, living)


def kill_moments(seconds: float, kills: int) -> Iterator[float]:
    """Yield the seconds after which the server is killed: evenly in the first half."""
    return (seconds / 2 * number / (kills + 1) for number in range(1, kills + 1))


async def _until(moment: float, living: Sequence[asyncio.Task[None]]) -> None:
    """Wait until a moment; a client that fails before it ends the run."""
    while (left := moment - time.monotonic()) > 0:
        done, _ = await asyncio.wait(living, timeout=left, return_when=asyncio.FIRST_EXCEPTION)
        for each in done:
            each.result()


async def _idle(server: LoadedServer, load: Load, found: Found) -> None:
    await asyncio.sleep(SETTLE_SECONDS)
    before, began = server.spent(), time.monotonic()
    await asyncio.sleep(load.idle)
    found.idle_share = (server.spent() - before) / (time.monotonic() - began)
    found.idle_threads = server.samples[-1].threads


async def _held(server: LoadedServer, clients: Sequence[LoadClient]) -> dict[str, list[str]]:
    """Return the lines that the files of clients have."""
    held: dict[str, list[str]] = {}
    async with AsyncHoldfast(server.url, token=server.token) as controller:
        for client in clients:
            client.session = await controller.session(client.session.id)
            held[client.name] = await client.held()
    return held
