"""Hooks the user wants run when the session resumes after a capture, or starts as a copy.

Programs in two folders, run as the session's user, and programs that listen (`holdfast_session.py`). Each is
notified once. Everything has a time limit: a program that hangs is killed, one that is silent is abandoned.
Owns nothing of the session; the results are in the journal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.base.value_classes import asdict, dataclass
from holdfast.runtime.guest.captures.listeners import Listeners
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.identity.hook_process import HookProcess
from holdfast.runtime.guest.identity.identity import Identity
from holdfast.runtime.guest.identity.identity_files import Awakening
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.layout import HOME_HOOKS, Layout

EACH = 5.0
"""Seconds a program may take."""
ALL = 15.0
MOST = 32
"""Limit of programs per folder; the rest are not run."""

logger = logging.getLogger(__name__)


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
    """Return what hooks are given, by the names of `holdfast_session.Event`. Pure."""
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
