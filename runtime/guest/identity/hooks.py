"""Hooks the user wants run when the session resumes after a capture, or starts as a copy.

Programs in two folders, run as the session's user, and programs that listen (`holdfast_session.py`), each by
its FIFO in a folder: it gets a line, and answers by another FIFO when its callbacks are done. Each is
notified once. Input is checked and bounded. Everything has a time limit: a program that hangs is killed, one
that is silent is abandoned. Owns nothing of the session; the results are in the journal.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import asdict, dataclass
from holdfast.runtime.guest.identity.account import OOM_SCORE, UserAccount, working_directory
from holdfast.runtime.guest.identity.identity import Awakening, Identity
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.layout import HOME_HOOKS, IdentityPaths, Layout

EACH = 5.0
"""The longest time of a program, in seconds."""
ALL = 15.0
MOST = 32
"""Limit of programs per folder; the rest are not run."""

logger = logging.getLogger(__name__)
KEPT_OUTPUT = 2000
READ_SIZE = 64 << 10
MOST_LISTENERS = 256
ANSWER_READ_SIZE = 64 << 10
LONGEST_HEARD = 4096
"""Bytes of an answer, which are written atomically (PIPE_BUF, pipe(7))."""


@dataclass(frozen=True, slots=True)
class HookRun:
    """The result of one hook. `trouble` is empty if it succeeded; `output` is the end of its output."""

    hook: str
    event: str
    seconds: float = 0.0
    trouble: str = ""
    exit_code: int | None = None
    output: str = ""


class Hooks:
    """All hooks of the session, and the results of their last run."""

    def __init__(
        self, layout: Layout, account: UserAccount, reaper: Reaper, append: Callable[..., object]
    ) -> None:
        self._layout = layout
        self._account = account
        self._reaper = reaper
        self._append = append
        self._listeners = Listeners(layout.identity)
        self._running: asyncio.Task[None] | None = None
        self.outcomes: list[HookRun] = []

    def begin(self, awakening: Awakening, identity: Identity) -> None:
        """Run all hooks in the background."""
        self.outcomes = []
        self._running = asyncio.get_running_loop().create_task(self._run(awakening, identity))

    async def tell(self, awakening: Awakening, identity: Identity) -> None:
        """Notify programs that listen, such as the kernel, and wait for them; run no hooks."""
        await self._listeners.notify(facts_of(awakening, identity), EACH)

    async def settled(self) -> list[HookRun]:
        """Wait until all hooks are over, at most ALL seconds, and return their results."""
        if self._running:
            await asyncio.shield(self._running)
        return self.outcomes

    async def _run(self, awakening: Awakening, identity: Identity) -> None:
        facts = facts_of(awakening, identity)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listening(awakening.event, facts))
                group.create_task(self._programs(awakening.event, facts))
        except Exception:
            logger.exception("hooks failed")

    async def _listening(self, event: str, facts: Mapping[str, Any]) -> None:
        for heard in await self._listeners.notify(facts, EACH):
            if heard.called or heard.wrong:
                self._over(HookRun(heard.program, event, heard.seconds, heard.wrong))

    async def _programs(self, event: str, facts: Mapping[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + ALL
        for path in self._found():
            left = min(EACH, end - loop.time())
            if left <= 0:
                self._over(HookRun(str(path), event, trouble=f"not run: earlier hooks took {ALL:.0f} s"))
                continue
            began = loop.time()
            try:
                process = HookProcess(path, environment(os.environ, facts), self._account, self._reaper)
            except OSError as error:
                self._over(HookRun(str(path), event, trouble=f"cannot run: {error.strerror or error}"))
                continue
            trouble = await process.ended(left)
            seconds = loop.time() - began
            self._over(HookRun(str(path), event, seconds, trouble, process.exit_code, process.output()))

    def _found(self) -> list[Path]:
        folders = (self._layout.hooks, Path(self._account.environment(os.environ)["HOME"]) / HOME_HOOKS)
        return [path for folder in folders for path in _programs_in(folder)]

    def _over(self, outcome: HookRun) -> None:
        self.outcomes.append(outcome)
        values = {key: value for key, value in asdict(outcome).items() if value not in ("", None)}
        kind = "hook_failed" if outcome.trouble else "hook"
        self._append(kind, actor="system", **{**values, "seconds": round(outcome.seconds, 3)})


def facts_of(awakening: Awakening, identity: Identity) -> dict[str, Any]:
    """Return a hook's facts, by the names of `holdfast_session.Event`. Pure."""
    before = awakening.before
    return {
        "kind": awakening.event,
        "snapshot": awakening.snapshot,
        "session": identity.session,
        "name": identity.name,
        "generation": identity.generation,
        "old_session": before.session,
        "old_name": before.name,
        "old_generation": before.generation,
    }


def environment(base: Mapping[str, str], facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a hook that is given these facts. Pure."""
    values = {f"HOLDFAST_{key.upper()}": str(value) for key, value in facts.items() if key != "kind"}
    return {**base, **values, "HOLDFAST_EVENT": str(facts["kind"])}


def _programs_in(folder: Path) -> list[Path]:
    """Return the executables in the order of their names, without hidden files and editors' backups."""
    found: list[Path] = []
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or path.name.endswith("~") or len(found) == MOST:
                continue
            with suppress(OSError):
                status = path.stat()
                if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111:
                    found.append(path)
    return found


def words(outcomes: list[HookRun]) -> bytes:
    """Return outcomes for the wire. Pure."""
    return json.dumps({"outcomes": [asdict(one) for one in outcomes[:1000]]}).encode()


class HookProcess:
    """Starts the program in its own process group, reads its output as it comes and keeps the end of it."""

    def __init__(
        self, path: Path, environment: Mapping[str, str], account: UserAccount, reaper: Reaper
    ) -> None:
        """Start the program.

        Raises:
            OSError: it could not be started.
        """
        self.exit_code: int | None = None
        self._tail = b""
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()

        def in_child() -> None:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            with suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
            account.become()

        env = account.environment(environment)
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(write, True)
        try:
            with reaper.held():
                self._process = subprocess.Popen(
                    [path],
                    stdin=subprocess.DEVNULL,
                    stdout=write,
                    stderr=write,
                    env=env,
                    cwd=working_directory(Path(env["HOME"]), account),
                    start_new_session=True,
                    preexec_fn=in_child,
                )
                reaper.watch(self._process.pid, self._ended)
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self._read)
            if isinstance(error, OSError):
                raise
            raise OSError(0, str(error)) from error
        finally:
            os.close(write)
        self._loop.add_reader(self._read, self._take)

    async def ended(self, seconds: float) -> str:
        """Wait for the end, and force it when the time is up. Return the failure, or an empty string."""
        trouble = ""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            trouble = f"killed after {seconds:.0f} s"
            self._kill()
            await self._over.wait()
        self._take()
        self._loop.remove_reader(self._read)
        os.close(self._read)
        if not trouble and self.exit_code:
            trouble = f"exit code {self.exit_code}"
        return trouble

    def output(self) -> str:
        """Return the end of its output."""
        return self._tail[-KEPT_OUTPUT:].decode("utf-8", "replace")

    def _take(self) -> None:
        for _ in range(16):
            try:
                data = os.read(self._read, READ_SIZE)
            except BlockingIOError:
                return
            if not data:
                self._loop.remove_reader(self._read)
                return
            self._tail = (self._tail + data)[-KEPT_OUTPUT:]

    def _ended(self) -> None:
        code = self._process.poll()
        # By the convention of shells: 128 plus the number of the signal that ended it.
        self.exit_code = None if code is None else code if code >= 0 else 128 - code
        self._over.set()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer of one program: the number of functions it called, and the failure, `wrong`."""

    program: str
    called: int = 0
    wrong: str = ""
    seconds: float = 0.0


class Listeners:
    """The folder of FIFOs. None is open between two notifications."""

    def __init__(self, paths: IdentityPaths) -> None:
        self._paths = paths
        self._number = 0

    async def notify(self, facts: Mapping[str, Any], patience: float) -> list[Heard]:
        """Notify all programs, and return their answers after at most `patience` seconds."""
        if not self._names():
            return []
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._number += 1
        try:
            answers = self._open_answers()
        except OSError:
            return []
        waiting: dict[str, str] = {}
        heard: list[Heard] = []
        over = loop.create_future()
        rest = b""

        def take() -> None:
            nonlocal rest
            with suppress(BlockingIOError):
                *lines, rest = (rest + os.read(answers, ANSWER_READ_SIZE)).split(b"\n")
                rest = rest[-LONGEST_HEARD:]
                for line in lines:
                    if (one := heard_answer(line, waiting)) is not None:
                        number, called, wrong = one
                        heard.append(Heard(waiting.pop(number), called, wrong, loop.time() - began))
            if not waiting and not over.done():
                over.set_result(None)

        try:
            loop.add_reader(answers, take)
            for at, name in enumerate(self._names()):
                number = f"{self._number}.{at}"
                if self._write(name, {**facts, "number": number}):
                    waiting[number] = f"pid {name.partition('-')[0][:20]}"
            if waiting:
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience):
                        await over
        finally:
            loop.remove_reader(answers)
            os.close(answers)
        silent = f"did not answer in {patience:.0f} s"
        return heard + [Heard(program, 0, silent, patience) for program in waiting.values()]

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._paths.listeners) as found:
                return sorted(one.name for one, _ in zip(found, range(MOST_LISTENERS), strict=False))
        except OSError:
            return []

    def _write(self, name: str, message: Mapping[str, Any]) -> bool:
        """Write a line to a program's FIFO; one without a reader is left over from an ended program."""
        path = self._paths.listeners / name
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ELOOP):
                _remove(path)
            return False
        try:
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):
                _remove(path)
                return False
            os.write(fd, json.dumps(message).encode() + b"\n")
        except OSError:  # it is full: it has not been read for long
            return True
        finally:
            os.close(fd)
        return True

    def _open_answers(self) -> int:
        path = self._paths.answers
        _remove(path)
        os.mkfifo(path, 0o600)
        path.chmod(0o622)  # programs of every user may write to it
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def heard_answer(line: bytes, expected: Iterable[str]) -> tuple[str, int, str] | None:
    """Return number, calls and trouble of an answer, or None if no question is open for it. Pure."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    number, called, wrong = fields.get("number"), fields.get("called"), fields.get("wrong")
    if not isinstance(number, str) or number not in expected:
        return None
    count = called if isinstance(called, int) and 0 <= called < 10_000 else 0
    return number, count, wrong[:500] if isinstance(wrong, str) else ""


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
