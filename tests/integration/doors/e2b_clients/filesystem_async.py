"""E2B's asynchronous client handles files: read, write, list, move, and watch as a stream."""

import asyncio
import io
import random
from collections.abc import AsyncIterator, Awaitable
from importlib.metadata import version
from typing import Any

from e2b import AsyncSandbox, InvalidArgumentException, NotFoundException
from e2b.sandbox.filesystem.filesystem import FileType
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType

try:
    from e2b import FileNotFoundException
except ImportError:  # 2.25 has one exception for all that is not found
    FileNotFoundException = NotFoundException
VERSION = tuple(map(int, version("e2b").split(".")[:2]))
BIG = random.Random(21).randbytes(20 << 20)
checks = 0


def check(found: object, why: str) -> None:
    global checks
    assert found, why
    checks += 1


async def refused(call: Awaitable[object], *kinds: type[BaseException]) -> None:
    """The call raises one of these."""
    global checks
    try:
        found = await call
    except kinds:
        checks += 1
    else:
        raise AssertionError(f"not refused: {found!r}")


async def written_and_read(files: Any) -> None:
    made = await files.write("/tmp/new/a b ü 文.txt", "héllo\n")
    check(made.path == "/tmp/new/a b ü 文.txt", "what was written")
    check(await files.read("/tmp/new/a b ü 文.txt") == "héllo\n", "text")
    content = bytes(range(256)) * 100
    await files.write("/tmp/bytes", content, gzip=True)
    check(await files.read("/tmp/bytes", "bytes", gzip=True) == content, "packed both ways")
    stream = await files.read("/tmp/bytes", "stream")
    check(b"".join([piece async for piece in stream]) == content, "a stream")
    await files.write("/tmp/io", io.BytesIO(content))
    check(await files.read("/tmp/io", "bytes") == content, "from a file")
    if VERSION >= (2, 63):  # before, iterables were no data

        async def parts() -> AsyncIterator[bytes]:
            for each in range(256):
                yield bytes([each]) * 1000

        await files.write("/tmp/parts", parts())
        check(len(await files.read("/tmp/parts", "bytes")) == 256_000, "from parts")
    made = await files.write_files([{"path": f"/tmp/many/{each}", "data": str(each)} for each in range(20)])
    check([each.path for each in made] == [f"/tmp/many/{each}" for each in range(20)], "many at once")
    await asyncio.gather(*(files.write(f"/tmp/many/{each}", f"again {each}") for each in range(20)))
    found = await asyncio.gather(*(files.read(f"/tmp/many/{each}") for each in range(20)))
    check(found == [f"again {each}" for each in range(20)], "many at the same time")
    await files.write("/tmp/big", BIG)
    check(await files.read("/tmp/big", "bytes") == BIG, "20 MB")
    await files.remove("/tmp/big")
    await refused(files.read("/tmp/no"), FileNotFoundException)
    await refused(files.read("/tmp"), InvalidArgumentException)
    await refused(files.write("/tmp", "x"), InvalidArgumentException)


async def looked_at_and_changed(files: Any) -> None:
    await files.write("/tmp/list/b/c", "1234")
    check(
        [each.path for each in await files.list("/tmp/list", depth=2)] == ["/tmp/list/b", "/tmp/list/b/c"],
        "deep",
    )
    info = await files.get_info("/tmp/list/b/c")
    check((info.name, info.type, info.size, info.mode) == ("c", FileType.FILE, 4, 0o644), "a file")
    check(await files.exists("/tmp/list"), "it exists")
    check(not await files.exists("/tmp/no"), "it does not")
    check(await files.make_dir("/tmp/list/d/e"), "made")
    check(not await files.make_dir("/tmp/list/d/e"), "made before")
    check((await files.rename("/tmp/list/b/c", "/tmp/list/f/g")).path == "/tmp/list/f/g", "moved")
    await refused(files.rename("/tmp/no", "/tmp/no2"), FileNotFoundException)
    await files.remove("/tmp/list")
    await files.remove("/tmp/list")
    check(not await files.exists("/tmp/list"), "removed")


async def watched(files: Any) -> None:
    await files.make_dir("/tmp/watched/sub")
    events, deep_events, ends = (asyncio.Queue[Any]() for _ in range(3))
    flat = await files.watch_dir("/tmp/watched", on_event=events.put_nowait, timeout=0)
    deep = await files.watch_dir(
        "/tmp/watched", on_event=deep_events.put_nowait, on_exit=ends.put_nowait, timeout=0, recursive=True
    )
    await files.write("/tmp/watched/sub/f", "x")
    await files.write("/tmp/watched/g", "y")
    made = [FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE]
    names = sorted([(await _next(deep_events)).name for _ in range(6)])
    check(names == ["g"] * 3 + ["sub/f"] * 3, "all levels")
    check([(await _next(events)).type for _ in range(3)] == made, "one level")
    # Not before: what is made and removed at once may not be seen.
    await files.remove("/tmp/watched/g")
    for each in (events, deep_events):
        check((await _next(each)).type == FilesystemEventType.REMOVE, "removed")
    await flat.stop()
    await files.write("/tmp/watched/h", "z")
    check([(await _next(deep_events)).name for _ in range(3)] == ["h"] * 3, "one stops, and not the other")
    check(events.empty(), "nothing after the end")
    check(ends.empty(), "it has not ended")
    await files.remove("/tmp/watched")
    check((await _next(deep_events)).type == FilesystemEventType.REMOVE, "what was removed is told of")
    if VERSION >= (2, 31):  # before, an end without an error was not told of
        check(await _next(ends) is None, "it ends with the folder, and without an error")
    await deep.stop()
    ends = asyncio.Queue[Any]()
    await files.watch_dir("/tmp", on_event=events.put_nowait, on_exit=ends.put_nowait, timeout=1)
    # Of the client or of the server, whichever finds it first: old clients have another exception for each.
    check(isinstance(await _next(ends), Exception), "the time is over")
    await refused(files.watch_dir("/tmp/no", on_event=events.put_nowait), FileNotFoundException)
    await refused(files.watch_dir("/tmp/io", on_event=events.put_nowait), InvalidArgumentException)


async def _next(queue: asyncio.Queue[Any]) -> Any:
    return await asyncio.wait_for(queue.get(), 60)


async def main() -> None:
    sandbox = await AsyncSandbox.create()
    try:
        check(await sandbox.is_running(), "it runs")
        await written_and_read(sandbox.files)
        await looked_at_and_changed(sandbox.files)
        await watched(sandbox.files)
    finally:
        await sandbox.kill()
    check(not await sandbox.is_running(), "it has ended")
    # Which exception says so differs between versions.
    await refused(sandbox.files.read("/tmp/io"), Exception)
    print(f"ok: {checks}")


if __name__ == "__main__":
    asyncio.run(main())
