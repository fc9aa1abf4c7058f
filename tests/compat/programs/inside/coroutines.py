"""asyncio with everything it can have open: a server and its clients on loopback, timers, a child, an
executor.
"""

import asyncio
import os
import time
from pathlib import Path

rounds = faults = 0


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        await asyncio.sleep(0.001)
        writer.write(line[::-1].strip() + b"\n")
        await writer.drain()


async def echo(child: asyncio.subprocess.Process, text: bytes) -> bytes:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(text + b"\n")
    await child.stdin.drain()
    return (await child.stdout.readline()).strip()


async def main() -> None:
    global rounds, faults
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    streams = [await asyncio.open_connection(*address) for _ in range(4)]
    child = await asyncio.create_subprocess_exec(
        "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        for number, (_, writer) in enumerate(streams):
            writer.write(b"%d-%d\n" % (rounds, number))
        answers = [(await reader.readline()).strip() for reader, _ in streams]
        faults += answers != [(b"%d-%d" % (rounds, number))[::-1] for number in range(len(streams))]
        faults += await echo(child, b"round %d" % rounds) != b"round %d" % rounds
        short = await asyncio.create_subprocess_exec("true")
        faults += await short.wait() != 0
        faults += await loop.run_in_executor(None, lambda: sum(range(1000))) != 499500
        await asyncio.sleep(0.03)
        faults += loop.time() < before or time.monotonic() < before
        rounds += 1
        Path("new").write_text(f"{rounds} {faults} of server, clients, child and timer\n")
        os.replace("new", "state")  # noqa: PTH105


asyncio.run(main())
