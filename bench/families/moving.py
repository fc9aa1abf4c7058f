"""The pause of a session that moves to another home on this engine, compared with suspending and resuming it.

No network is between them: what is measured is the cost of sending, checking and starting.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.plan import Plan, heap_name
from bench.rounds import timed
from bench.row import Row
from bench.stats import Series, Target
from bench.world import World
from holdfast import Holdfast, Session
from holdfast.base.home import Home
from holdfast.base.ssh_command import SSH
from holdfast.snapshots import service
from holdfast.snapshots.bundle.keys import Keys

FAMILY = "move"
_PAUSE = Target(2.0, "ratio", "sending and checking what did not change may cost as much again")


def rows(world: World, plan: Plan) -> Iterator[Row]:
    """Measure heaps of random bytes that do not change."""
    for heap in plan.stored:
        group, ours, both = heap_name(heap), [], []
        with _another_home(world) as there:
            for turn in range(plan.storage):
                world.tell(f"{group}: {turn + 1} of {plan.storage}")
                session = world.session("moving")
                session.cell(f"import os; heap = bytearray(os.urandom({heap}))", timeout=300)
                both.append(timed(lambda here=session: _suspend_and_resume(here)))  # type: ignore[misc]
                ours.append(session.move("there", remote_command=f"{sys.executable} -m holdfast").paused)
                _clear(there)
        world.forget()
        yield Row(
            FAMILY,
            "pause",
            Series("Holdfast", "s", tuple(ours)),
            group,
            baseline=Series("suspend and resume", "s", tuple(both)),
            target=_PAUSE,
        )


def _suspend_and_resume(session: Session) -> None:
    session.suspend()
    session.resume()
    session.exec("true")


@contextmanager
def _another_home(world: World) -> Iterator[Home]:
    """Yield a home on the same disk, which `ssh` leads to."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=world.home.parent))
    home = Home(folder / "home").create()
    Keys(home).trust(Keys(world.holdfast.home).sending()[0].public)
    script = folder / "ssh"
    script.write_text(f'shift\nexport HOLDFAST_HOME={shlex.quote(str(home.root))}\nexec sh -c "$*"\n')
    before = os.environ.get(SSH)
    os.environ[SSH] = f"sh {shlex.quote(str(script))}"
    try:
        yield home
    finally:
        del os.environ[SSH]
        if before is not None:
            os.environ[SSH] = before
        _clear(home)
        shutil.rmtree(folder, ignore_errors=True)


def _clear(home: Home) -> None:
    with Holdfast(home) as holdfast:
        for session in holdfast.sessions():
            session.remove()
        for snapshot in reversed(holdfast.snapshots()):
            snapshot.remove()
        service.stop(holdfast.engine, home)
