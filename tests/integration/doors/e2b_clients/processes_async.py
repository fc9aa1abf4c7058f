"""E2B's asynchronous client handles processes: commands, their input and ends, and terminals."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpcore
from e2b import (
    AsyncSandbox,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    TimeoutException,
)
from e2b.sandbox.commands.command_handle import PtySize

LATE = (TimeoutException, httpcore.ReadTimeout)  # the latter before 2.63, if the client's clock is first
checks = 0


def check(found: object, why: object) -> None:
    global checks
    assert found, why
    checks += 1


async def refused(call: Awaitable[object], *kinds: type[Exception], why: str = "") -> Any:
    """The call raises one of these, with these words."""
    global checks
    try:
        found = await call
    except kinds as error:
        caught = error
    else:
        raise AssertionError(f"not refused: {found!r}")
    assert why in str(caught), caught
    checks += 1
    return caught


async def until(work: Callable[[], object], seconds: float = 60) -> None:
    """It becomes true."""
    end = time.monotonic() + seconds
    while not work():
        assert time.monotonic() < end, "never came true"
        await asyncio.sleep(0.02)


async def in_the_foreground(box: Any) -> None:
    run = box.commands.run
    done = await run("echo out; echo err >&2")
    check((done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0), done)
    check(not done.error, done.error)
    seen: list[str] = []
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)

    await run("printf 'a\nb\n'; echo c >&2", on_stdout=seen.append, on_stderr=hear)
    check(("".join(seen), "".join(heard)) == ("a\nb\n", "c\n"), (seen, heard))
    failed = await refused(run("echo some; echo why >&2; exit 3"), CommandExitException)
    check((failed.exit_code, failed.stdout, failed.stderr) == (3, "some\n", "why\n"), failed)
    check((await run("echo $A $OF_BOX; pwd", envs={"A": "1"}, cwd="/tmp")).stdout == "1 box\n/tmp\n", "envs")
    check((await run("id -un", user="root")).stdout == "root\n", "user root")
    bytes_ = (await run(r"printf 'a\377\000\302'")).stdout
    check(bytes_ == "a\ufffd\0\ufffd", repr(bytes_))
    big = (await run("yes 0123456789abcde | head -c 5000000")).stdout
    check(big == ("0123456789abcde\n" * 320_000)[:5_000_000], "5 MB exact")
    outputs = await asyncio.gather(*(run(f"sleep 0.2; echo {n}") for n in range(10)))
    check([each.stdout for each in outputs] == [f"{n}\n" for n in range(10)], "ten at once")
    await refused(run("true", cwd="/no/such"), InvalidArgumentException, why="no such directory")
    await refused(run("sleep 1000", timeout=1), *LATE)
    ended = await run("while pgrep -fx 'sleep 1000' > /dev/null; do sleep 0.1; done; echo gone")
    check(ended.stdout == "gone\n", "what is late is killed")


async def in_the_background(box: Any) -> None:
    commands = box.commands
    handle = await commands.run("echo begun; sleep 1000", background=True)
    await until(lambda: handle.stdout == "begun\n")
    check(handle.exit_code is None, "it runs")
    check(handle.pid in [each.pid for each in await commands.list()], "it is listed")
    check(await handle.kill(), "it is there to be killed")
    killed = await refused(handle.wait(), CommandExitException)
    check((killed.exit_code, killed.error) == (-1, "signal: killed"), killed)
    check(not await commands.kill(handle.pid), "it is there no more")

    handle = await commands.run("for n in 1 2 3; do echo $n; sleep 0.2; done", background=True)
    await handle.disconnect()
    seen: list[str] = []
    other = await commands.connect(handle.pid, on_stdout=seen.append)
    check((await other.wait()).stdout == "".join(seen) == "1\n2\n3\n", seen)
    check((await (await commands.connect(handle.pid)).wait()).stdout == "1\n2\n3\n", "also after its end")
    await refused(commands.connect(999_999), NotFoundException)


async def input_(box: Any) -> None:
    commands = box.commands
    handle = await commands.run("wc -l", background=True, stdin=True)
    # Pieces that are sent at once arrive in any order, each as a whole.
    await asyncio.gather(*(commands.send_stdin(handle.pid, f"{n}\n" * 1000) for n in range(20)))
    if hasattr(commands, "close_stdin"):  # not in 2.25
        await commands.close_stdin(handle.pid)
        check((await handle.wait()).stdout == "20000\n", "input, and its end")
    else:
        await handle.kill()
    handle = await commands.run("read line; echo got $line", background=True, stdin=True)
    await commands.send_stdin(handle.pid, "wörds\n")
    check((await handle.wait()).stdout == "got wörds\n", "input")
    await refused(commands.send_stdin(handle.pid, "x"), NotFoundException)
    if hasattr(commands, "stream_input"):  # not before 2.63
        handle = await commands.run("sha256sum", background=True, stdin=True)
        parts = [b"part %d\n" % n * 1000 for n in range(100)]
        stream = commands.stream_input(handle.pid)
        for part in parts:
            await stream.send(part)
            await asyncio.sleep(0.005)
        await stream.close()
        await commands.close_stdin(handle.pid)
        digest = hashlib.sha256(b"".join(parts)).hexdigest()
        check((await handle.wait()).stdout.split()[0] == digest, "a stream")


async def terminals(box: Any) -> None:
    pty = box.pty
    shown = bytearray()
    handle = await pty.create(PtySize(rows=30, cols=90), on_data=shown.extend, envs={"WORD": "kept"})
    await pty.send_stdin(handle.pid, b"stty size; echo $WORD-$TERM-$((40 + 2))\n")
    await until(lambda: b"30 90\r\n" in shown)
    await until(lambda: b"kept-xterm-256color-42\r\n" in shown)
    check(True, "its size and variables")
    await pty.resize(handle.pid, PtySize(rows=50, cols=132))
    await pty.send_stdin(handle.pid, b"stty size\n")
    await until(lambda: b"50 132\r\n" in shown)
    await handle.disconnect()
    again = bytearray()
    handle = await pty.connect(handle.pid, on_data=again.extend)
    await until(lambda: again.startswith(shown))
    check(True, "who connects sees it from its beginning")
    await pty.send_stdin(handle.pid, b"exit 4\n")
    check((await refused(handle.wait(), CommandExitException)).exit_code == 4, "its exit code")
    handle = await pty.create(PtySize(rows=24, cols=80), on_data=shown.extend)
    check(await pty.kill(handle.pid), "it is there to be killed")
    check((await refused(handle.wait(), CommandExitException)).error == "signal: killed", "its end")
    check(not await pty.kill(handle.pid), "it is there no more")


async def main() -> None:
    box = await AsyncSandbox.create(timeout=600, envs={"OF_BOX": "box"})
    try:
        await in_the_foreground(box)
        await in_the_background(box)
        await input_(box)
        await terminals(box)
    finally:
        await box.kill()
    print(f"ok: {checks}")


asyncio.run(main())
