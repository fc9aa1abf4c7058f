"""The process that fills the pool of a home, one at a time, with the lowest priority.

    python -m holdfast.runtime.lifecycle.pool_filler HOME

    pool.json       how many are to wait (`pool_plan`)
    pool.todo       something has changed since it looked
    pool.lock       locked by the process that fills
    pool.trouble    why the last attempt failed

It can be killed at any moment, and ends when there is nothing left to do. While sessions are being made for
callers it waits.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from holdfast.base import locks, private_files
from holdfast.base.home import Home
from holdfast.errors import HoldfastError
from holdfast.runtime.lifecycle import chosen_image, pool_plan, waiting_session
from holdfast.runtime.lifecycle.chosen_image import ChosenImage
from holdfast.runtime.lifecycle.pool_plan import PoolSettings
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.operation import is_orphan
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.storage.background_packer import stand_back
from holdfast.runtime.store.rows import OperationKind
from holdfast.snapshots.chunks import pack_turn

STANDS_BACK = 20.0
"""Seconds for which it waits while others make sessions."""
_LOOK_SECONDS = 0.1
_MOST = 500
_WORKER = "holdfast.runtime.lifecycle.pool_filler"
_MAKERS = frozenset({OperationKind.NEW, OperationKind.RESTORE, OperationKind.RESUME, OperationKind.REWIND})


def start(home: Home) -> None:
    """Have a process fill the pool; it outlives its caller."""
    with suppress(OSError):
        _todo(home).touch(mode=private_files.MODE)
    if at_work(home):
        return
    import subprocess

    with suppress(OSError):  # the next caller tries again
        process = subprocess.Popen(
            [sys.executable, "-m", _WORKER, str(home.root.absolute())],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=process.wait, name="holdfast-pool", daemon=True).start()


def tend(context: Context) -> int:
    """Fill or empty the pool if it differs from its settings: for a watching process.

    Returns how many sessions wait in it.
    """
    settings = pool_plan.read(context.home)
    there = len(context.store.waiting.all())
    available, total = pool_plan.memory(_meminfo())
    lacks = there < settings.size and available >= pool_plan.ROOM
    if lacks or (there and (not settings.size or pool_plan.is_short(available, total))):
        start(context.home)
    return there


def at_work(home: Home) -> bool:
    """Check whether a process fills the pool."""
    return pack_turn.claimed(_lock(home))


def trouble(home: Home) -> str:
    """Return why the last attempt to fill the pool failed; empty if it did not."""
    with suppress(OSError):
        return _trouble(home).read_text("utf-8", "replace")[:_MOST]
    return ""


def run(context: Context) -> None:
    """Do the pending work, unless another process is doing it."""
    home = context.home
    while _todo(home).exists():
        try:
            with locks.whole_file(_lock(home), 0.0):
                _todo(home).unlink(missing_ok=True)
                _fill(context)
                _trouble(home).unlink(missing_ok=True)
        except BlockingIOError:
            return
        except HoldfastError as error:
            with suppress(OSError):  # the home may be gone
                private_files.replace(_trouble(home), str(error)[:_MOST], durable=False)
            return
        except OSError:
            return


def _fill(context: Context) -> None:
    """Give up useless sessions, and make the missing ones, one by one."""
    while True:
        settings = pool_plan.read(context.home)
        images = _in_use(context, settings)
        wanted = pool_plan.shares([digest for digest, _ in images], settings.size)
        rows = context.store.waiting.all()
        available, total = pool_plan.memory(_meminfo())
        running = context.engine.running(holdfast_home=context.home.digest)
        alive = [row for row in rows if row.container_id in running]
        if pool_plan.is_short(available, total):
            wanted = {}
        spare = pool_plan.spare(alive, wanted, kernel=settings.kernel, now=datetime.now(UTC))
        for row in [*(row for row in rows if row not in alive), *spare]:
            waiting_session.give_up(context, row)
        missing = pool_plan.missing([row for row in alive if row not in spare], wanted)
        if not missing or available < pool_plan.ROOM:
            return
        _stand_aside(context)
        image = next(image for digest, image in images if digest == missing[0])
        waiting_session.make(context, image, missing[0], kernel=settings.kernel)


def _in_use(context: Context, settings: PoolSettings) -> list[tuple[str, ChosenImage]]:
    """Return the digests and images of sessions that callers are likely to request, latest use first."""
    if not settings.size:
        return []
    lately = [dict(row.options) for row in context.store.fresh_sessions(pool_plan.RECENT)]
    asked = [each for each in lately if each.get("image") == settings.image]
    asked.append({"image": settings.image})
    found: list[tuple[str, ChosenImage]] = []
    known: dict[str, tuple[str, ChosenImage] | None] = {}
    for options in asked:
        key = repr(sorted(options.items()))
        if key not in known:
            known[key] = _prepared(context, options)
        if (one := known[key]) is not None:
            found.append(one)
    return found


def _prepared(context: Context, options: dict[str, object]) -> tuple[str, ChosenImage] | None:
    with suppress(HoldfastError):  # its image was removed, for example
        if options.get("secrets"):
            return None
        chosen = SessionOptions.parse(**options)
        if pool_plan.unsuited(chosen):
            return None
        image = chosen_image.choose(context, chosen)
        return waiting_session.digest_of(context, image), image
    return None


def _stand_aside(context: Context) -> None:
    """Wait a while as long as sessions are being made for callers."""
    until = time.monotonic() + STANDS_BACK
    while time.monotonic() < until and any(
        row.kind in _MAKERS and not is_orphan(row) for row in context.store.operations.open()
    ):
        time.sleep(_LOOK_SECONDS)


def _meminfo() -> str:
    try:
        return Path("/proc/meminfo").read_text()
    except OSError:
        return ""


def _todo(home: Home) -> Path:
    return home.root / "pool.todo"


def _lock(home: Home) -> Path:
    return home.root / "pool.lock"


def _trouble(home: Home) -> Path:
    return home.root / "pool.trouble"


def main() -> int:
    """Fill the pool of the home named on the command line."""
    stand_back()
    context = Context(Home(Path(sys.argv[1])))
    try:
        run(context)
    finally:
        context.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
