"""One program run as a hook: its process, the end of its output, its time limit."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.runtime.guest.identity.account import OOM_SCORE, UserAccount, working_directory
from holdfast.runtime.guest.jobs.reaper import Reaper

KEPT_OUTPUT = 2000
READ_SIZE = 64 << 10


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
        """Wait for the end, and force it when the time is up. Return what went wrong, or an empty string."""
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
