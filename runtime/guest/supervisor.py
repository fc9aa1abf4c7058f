"""The guest's main program: one process that owns the session's shell and kernel and serves its socket.

It is the root of the captured process tree, so it adopts every orphan of the session, does not have a
terminal and keeps no connection it could not afford to lose.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.base.value_classes import replace
from holdfast.runtime.guest import adoption, own_process
from holdfast.runtime.guest.captures.pause import Pause
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.identity.identity import Awakening, Identity, read_object
from holdfast.runtime.guest.jobs.keeper import Keeper
from holdfast.runtime.guest.jobs.reaper import Reaper, become_subreaper
from holdfast.runtime.guest.layout import (
    MARKS_LIBRARY,
    RUN_DIR,
    STATE_DIR,
    SYSTEM_HOOKS,
    WORKSPACE,
    Layout,
    paused_name,
)
from holdfast.runtime.guest.own_process import SteadyLoop, log_to
from holdfast.runtime.guest.shells import shell_program
from holdfast.runtime.guest.wire import (
    drift_operations,
    file_operations,
    job_operations,
    kernel_operations,
    people_operations,
    port_operations,
    program_operations,
    pulse_operations,
    session_operations,
    shell_operations,
    watch_operations,
)
from holdfast.runtime.guest.wire.call import ClientCall
from holdfast.runtime.guest.wire.supervisor_server import Server

_TEMPORARY = Path("/tmp")  # noqa: S108 - of the session
_M_ARENA_MAX = -8

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Run until the session is to end."""
    given = sys.argv[1:] if argv is None else argv
    layout = _layout(given)
    if not given:  # in a container
        own_process.take_name()
        own_process.heed_only_the_first_process()
    # One malloc arena: zmq's threads would get others, and hold megabytes.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    _detach()
    own_process.heed_signals()
    own_process.close_to_tracers()
    with suppress(OSError):  # an image may have none, or a broken link
        _TEMPORARY.mkdir(mode=0o1777)
        _TEMPORARY.chmod(0o1777)
    for folder in (layout.state, layout.state / "shells", layout.state / "kernels"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
    log_to(layout.log)
    keeper = Keeper.of_environment()
    if not keeper.pid:
        become_subreaper()
    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        try:
            runner.run(_supervise(layout, keeper))
        except Exception:
            logger.exception("the supervisor failed")
            raise


async def _supervise(layout: Layout, keeper: Keeper) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteadyLoop)
    over = asyncio.Event()
    own_process.outlive_signals(loop, over)
    before = own_process.predecessor()
    if before is not None:  # it may have ended in a pause, which a capture must not take for this one's
        for path in layout.run.glob(paused_name("*")):
            path.unlink(missing_ok=True)
    inheritance = adoption.receive(keeper) if before is not None else None
    reaper = Reaper(keeper)
    reaper.install(loop)
    fields = read_object(layout.session) or {}
    identity = Identity().updated(fields)
    if identity.workdir is not None:
        layout = replace(layout, workspace=Path(identity.workdir))
    account = UserAccount.of(identity.user)
    program = shell_program.choose(identity.shell, account, layout.marks)
    account = replace(account, shell=program.path)
    awakening = Awakening.of(fields, again=before is not None)
    if account.foreign and awakening.event == "started" and identity.workdir is None:
        from holdfast.runtime.guest.identity.made_account import give_workspace  # most sessions are root's

        give_workspace(layout.workspace, account)
    guest = Guest(layout, identity, account, reaper, program, inheritance)
    guest.start(awakening, before)

    async def prepare(_: Guest, call: ClientCall) -> None:
        await pause.prepare(call)

    operations = {
        "prepare": prepare,
        **session_operations.OPERATIONS,
        **shell_operations.OPERATIONS,
        **job_operations.OPERATIONS,
        **program_operations.OPERATIONS,
        **port_operations.OPERATIONS,
        **people_operations.OPERATIONS,
        **kernel_operations.OPERATIONS,
        **pulse_operations.operations(guest),
        **drift_operations.OPERATIONS,
        **file_operations.OPERATIONS,
        **watch_operations.OPERATIONS,
    }
    server = Server(layout.socket, guest, operations)
    pause = Pause(loop, guest, server)
    await server.listen()
    logger.info("listening as %s, pid %d", identity, os.getpid())
    await over.wait()
    logger.info("ending")
    await server.close()
    loop.remove_signal_handler(signal.SIGCHLD)
    guest.stop()


def _layout(given: Sequence[str]) -> Layout:
    if not given:  # in a container
        return Layout(RUN_DIR, STATE_DIR, MARKS_LIBRARY, WORKSPACE, SYSTEM_HOOKS)
    import argparse

    parser = argparse.ArgumentParser(description="Supervises a session. The defaults are for its container.")
    parser.add_argument("--run", type=Path, default=RUN_DIR)
    parser.add_argument("--state", type=Path, default=STATE_DIR)
    parser.add_argument("--marks", type=Path, default=MARKS_LIBRARY)
    parser.add_argument("--workspace", type=Path, default=WORKSPACE)
    parser.add_argument("--hooks", type=Path, default=SYSTEM_HOOKS)
    return Layout(**vars(parser.parse_args(given)))


def _detach() -> None:
    """Become a session leader without a terminal, and leave the initial folder."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.chdir("/")
    os.umask(0o022)
