"""A kernel's process, from its start to its end, without a supervisor around it."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from holdfast.kernels.guest.process import KernelProcess
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.jobs.reaper import Reaper


def test_the_remains_of_an_ended_kernel_do_not_affect_the_next(tmp_path: Path) -> None:
    """An old kernel's objects go whenever the collector runs: perhaps while the next kernel starts there."""

    async def main() -> None:
        reaper, loop = Reaper(), asyncio.get_running_loop()
        reaper.install(loop)
        old = KernelProcess("python3", tmp_path / "run", UserAccount.of(None), tmp_path, reaper, {})
        await old.start(lambda _channel, _message: None)
        old.kill()
        await old.ended.wait()
        await old.close()
        of_the_next = tmp_path / "run" / "connection.json"
        of_the_next.write_text("{}")
        del old
        gc.collect()
        assert of_the_next.exists()

    with asyncio.Runner() as runner:
        runner.run(main())
