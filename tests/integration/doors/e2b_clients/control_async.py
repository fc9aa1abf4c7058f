"""E2B's asynchronous client handles whole sandboxes: their lives, snapshots and forks."""

import asyncio
import time
from collections.abc import Awaitable
from importlib.metadata import version
from typing import Any

from e2b import AsyncSandbox, NotFoundException, SandboxException
from e2b.sandbox.sandbox_api import SandboxQuery, SandboxState

VERSION = tuple(map(int, version("e2b").split(".")[:2]))
checks = 0


def check(found: object, why: str) -> None:
    global checks
    assert found, why
    checks += 1


async def refused(call: Awaitable[object], why: str, kind: type[Exception] = SandboxException) -> None:
    """The call raises, with a sentence of the server."""
    try:
        await call
    except kind as error:
        said = str(error)
    else:
        said = "nothing"
    check(why in said, f"not refused: {why}, but {said}")


async def every(paginator: Any) -> list[Any]:
    found: list[Any] = []
    while paginator.has_next:
        found += await paginator.next_items()
    return found


async def main(made: list[AsyncSandbox]) -> None:
    mine = f"control async {VERSION} {time.time()}"
    # Several at once.
    several = [AsyncSandbox.create(timeout=600, metadata={"of": mine, "number": str(n)}) for n in range(3)]
    made += await asyncio.gather(*several)
    one, two, three = made
    check(len({each.sandbox_id for each in made}) == 3, "three sandboxes")
    check(all(await asyncio.gather(*(each.is_running() for each in made))), "they run")
    info = await one.get_info()
    check(info.metadata == {"of": mine, "number": "0"} and info.state == SandboxState.RUNNING, "its info")
    listed = await every(AsyncSandbox.list(query=SandboxQuery(metadata={"of": mine}), limit=2))
    check(sorted(each.metadata["number"] for each in listed) == ["0", "1", "2"], "the list, in pages")
    await one.set_timeout(1200)
    check((await one.get_info()).end_at > info.end_at, "a later end")
    figures = await one.get_metrics()
    check(len(figures) > 0 and figures[-1].mem_total >= figures[-1].mem_used > 0, "its figures")

    # Paused and resumed, all at once.
    await asyncio.gather(*(each.pause() for each in made))
    states = [(await each.get_info()).state for each in made]
    check(states == [SandboxState.PAUSED] * 3, "paused")
    paused = await every(
        AsyncSandbox.list(query=SandboxQuery(metadata={"of": mine}, state=[SandboxState.PAUSED]))
    )
    check(len(paused) == 3, "the list of paused ones")
    check(not await two.is_running(), "paused, it does not answer")
    again = await asyncio.gather(*(AsyncSandbox.connect(each.sandbox_id, timeout=600) for each in made))
    check([each.sandbox_id for each in again] == [each.sandbox_id for each in made], "resumed")
    check(all(await asyncio.gather(*(each.is_running() for each in made))), "they run again")
    await one.connect(timeout=600)
    check(await one.is_running(), "connected to what runs")

    # A snapshot while a command runs, and a sandbox from it.
    await one.files.write("/tmp/fact", "captured")
    command = await one.commands.run("sleep 1000", background=True)
    taken = await one.create_snapshot()
    copy = await AsyncSandbox.create(taken.snapshot_id, timeout=600)
    made.append(copy)
    check(await copy.files.read("/tmp/fact") == "captured", "its files")
    check(command.pid in [each.pid for each in await copy.commands.list()], "its processes")
    snapshots = await every(AsyncSandbox.list_snapshots(sandbox_id=one.sandbox_id))
    check([each.snapshot_id for each in snapshots] == [taken.snapshot_id], "the list of snapshots")
    check(await AsyncSandbox.delete_snapshot(taken.snapshot_id), "deleted")
    if VERSION >= (2, 50):  # earlier clients cannot fork
        forks = await one.fork(count=2, timeout=600)
        made += [each for each in forks if isinstance(each, AsyncSandbox)]
        texts = [await each.files.read("/tmp/fact") for each in forks]
        check(texts == ["captured"] * 2, "forks")

    # What is refused, and what is gone.
    await refused(AsyncSandbox.create("no-such-template"), "cannot find the template")
    if VERSION >= (2, 50):  # earlier clients cannot leave out the memory
        await three.files.write("/tmp/kept", "x")
        check(await three.pause(mode="filesystem"), "paused without its memory")
        await three.connect(timeout=300)
        check(await three.files.read("/tmp/kept") == "x", "its files are there")
    check(await three.kill(), "killed")
    check(not await three.kill(), "killed twice")
    await refused(three.get_info(), "not found", NotFoundException)
    await refused(AsyncSandbox.connect(three.sandbox_id), "not found", NotFoundException)


async def run() -> None:
    made: list[AsyncSandbox] = []
    try:
        await main(made)
    finally:
        await asyncio.gather(*(each.kill() for each in made))


asyncio.run(run())
print(f"ok: {checks}")
