"""The kernels of all sessions as a kernel gateway lists them: their ids, their specs, their models.

An id is a UUID made of the session and the kernel's name: it is the same after a restart of the kernel, of
the server, and after the session was suspended or taken back. A copy of the session has others.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import HoldfastError, KernelNotFound, SessionError
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo
from holdfast.runtime.lifetimes import waking
from holdfast.runtime.serve.call_threads import CallThreads
from holdfast.runtime.serve.callers import ApiCaller
from holdfast.runtime.store import lifetime
from holdfast.runtime.store.rows import SessionRow

NAMESPACE = uuid.UUID("6f1d3a52-6c1e-5b59-9d0c-7f2f6a7d1e44")
PREFIX = "holdfast-"
PYTHON = "python3"
"""The spec that most notebooks name; where one kernel can be meant, it is meant."""
FRESH_SECONDS = 2.0
"""How long a list of a session's kernels is taken to be current; front ends ask every few seconds."""
LOOK_SECONDS = 2.0
"""For a session to list its kernels; one that does not is listed as it was known before."""
MOST_LOOKS = 16
MOST_PLACES = 4096
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STATES = frozenset(("starting", "idle", "busy", "dead"))


@dataclass(frozen=True, slots=True)
class GatewayKernel:
    """One kernel of one session."""

    row: SessionRow
    info: KernelInfo

    @property
    def id(self) -> str:
        """Its id."""
        return kernel_id(self.row.id, self.info.name)

    @property
    def spec(self) -> str:
        """The name of the spec from which a front end gets it."""
        return spec_name(self.row, self.info.name)


class KernelTable:
    """One server's knowledge of kernels, and of front ends that can come back."""

    def __init__(self) -> None:
        self._threads = CallThreads(MOST_LOOKS)
        self._known: dict[str, tuple[float, tuple[KernelInfo, ...]]] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._places: OrderedDict[tuple[str, str], int] = OrderedDict()
        self.connections: dict[str, int] = {}
        """How many front ends each kernel has here, by its id."""
        self.activity: dict[str, float] = {}
        """When a front end was last sent something of a kernel, by its id, in seconds since 1970."""
        self.began = time.time()

    async def kernels(self, caller: ApiCaller, only: str | None = None) -> list[GatewayKernel]:
        """Return the kernels of the sessions that run, or of the `only` one; it wakes none.

        Those of a suspended session are among them while front ends wait for it here: what a list lacks, a
        Jupyter server takes to be gone for ever.
        """
        every = await self._rows(caller, only)
        rows = [row for row in every if row.state == "running"]
        held = [GatewayKernel(row, info) for row in every for info in self._awaited(row)]
        for gone in set(self._known) - {row.id for row in every} if only is None else ():
            del self._known[gone]
        found = await asyncio.gather(*(self._look(caller, row) for row in rows))
        return [
            GatewayKernel(row, info) for row, infos in zip(rows, found, strict=True) for info in infos
        ] + held

    def _awaited(self, row: SessionRow) -> list[KernelInfo]:
        """Return the kernels of a suspended session that front ends here wait for."""
        if row.state != "suspended":
            return []
        _, known = self._known.get(row.id, (0.0, (_unseen(),)))
        return [each for each in known if self.connections.get(kernel_id(row.id, each.name))]

    async def find(self, caller: ApiCaller, id_: str, only: str | None = None) -> GatewayKernel:
        """Return the kernel with an id.

        Raises:
            KernelNotFound: there is none.
            SessionError: its session does not run.
        """
        possible = _ID.fullmatch(id_) is not None  # sessions are not asked for anything else
        for row in await self._rows(caller, only):
            if kernel_id(row.id, defaults.MAIN) == id_:
                _, known = self._known.get(row.id, (0.0, ()))
                info = next((each for each in known if each.name == defaults.MAIN), _unseen())
                return GatewayKernel(row if self.connections.get(id_) else _running(row), info)
        for each in await self.kernels(caller, only) if possible else ():
            if each.id == id_:
                return each
        raise KernelNotFound(f"cannot find kernel {id_[:64]}: no session has such a kernel")

    async def named(self, caller: ApiCaller, spec: str | None, only: str | None = None) -> GatewayKernel:
        """Return the kernel that the spec of this name leads to; without a name, the only one.

        Raises:
            KernelNotFound: there is no such spec, or several kernels could be meant.
            SessionError: its session does not run.
        """
        kernels = await self.kernels(caller, only)
        for each in kernels:
            if each.spec == spec:
                return each
        for row in await self._rows(caller, only):
            if row.state != "running" and spec == spec_name(row, defaults.MAIN):
                _running(row)
        mains = [each for each in kernels if each.info.name == defaults.MAIN]
        if spec in (None, "", PYTHON) and len(mains) == 1:
            return mains[0]
        known = ", ".join(each.spec for each in kernels) or "no kernel: no session runs"
        raise KernelNotFound(f"cannot start kernel {str(spec or PYTHON)[:100]}: there is {known[:500]}")

    async def wake(
        self, caller: ApiCaller, meant: Callable[[SessionRow], bool], only: str | None = None
    ) -> None:
        """Wake the session in question, if it sleeps; front ends that merely reconnect wake none.

        Raises:
            HoldfastError: it could not be woken.
        """
        for row in await self._rows(caller, only):
            if lifetime.asleep(row) and meant(row):
                await caller.brief(lambda hf: waking.wake(hf.context, row.id))  # noqa: B023  (awaited here)

    def model(self, kernel: GatewayKernel) -> dict[str, Any]:
        """Return the description of a kernel for clients."""
        state = kernel.info.state
        return {
            "id": kernel.id,
            "name": kernel.spec,
            "last_activity": written_time(self.activity.get(kernel.id, self.began)),
            "execution_state": state if state in _STATES else "unknown",
            "connections": self.connections.get(kernel.id, 0),
        }

    def place(self, kernel: str, client: str) -> int | None:
        """Return the offset of the last message that a front end was sent; None if that is not known."""
        return self._places.get((kernel, client))

    def note_place(self, kernel: str, client: str, at: int) -> None:
        """Note that a front end was sent the message at this offset."""
        self.activity[kernel] = time.time()
        self._places.pop((kernel, client), None)
        self._places[(kernel, client)] = at
        while len(self._places) > MOST_PLACES:
            self._places.popitem(last=False)

    def forget_looks(self, session: str) -> None:
        """Make a session report its kernels again at the next listing."""
        self._known.pop(session, None)

    async def _rows(self, caller: ApiCaller, only: str | None) -> Sequence[SessionRow]:
        if only is not None:
            return [await caller.brief(lambda _: caller.session(only).row)]
        return await caller.brief(lambda holdfast: holdfast.store.sessions())

    async def _look(self, caller: ApiCaller, row: SessionRow) -> tuple[KernelInfo, ...]:
        """Return the kernels of a session, which is asked by one call at a time."""
        looked, known = self._known.get(row.id, (0.0, (_unseen(),)))
        if time.monotonic() - looked <= FRESH_SECONDS:
            return known
        look = self._looks.get(row.id)
        if look is None:
            look = self._looks[row.id] = asyncio.create_task(self._ask(caller, row.id))
        await asyncio.wait({look}, timeout=LOOK_SECONDS)
        return self._known.get(row.id, (0.0, known))[1]

    async def _ask(self, caller: ApiCaller, session: str) -> None:
        try:
            found = await self._threads.run(lambda: caller.session(session).kernels.list())
            self._known[session] = (time.monotonic(), found)
        except (HoldfastError, OSError):
            pass  # listed as it was known; a session that is being removed has no folder
        finally:
            del self._looks[session]


def kernel_id(session: str, kernel: str) -> str:
    """Return the id of a session's kernel."""
    return str(uuid.uuid5(NAMESPACE, f"{session}/{kernel}"))


def spec_name(row: SessionRow, kernel: str) -> str:
    """Return the name of the spec that leads to a session's kernel."""
    return f"{PREFIX}{row.name}" + ("" if kernel == defaults.MAIN else f".{kernel}")


def leads_to(row: SessionRow, spec: str | None) -> bool:
    """Check whether the spec of this name leads to a kernel of a session."""
    own = spec_name(row, defaults.MAIN)
    return spec is not None and (spec == own or spec.startswith(f"{own}."))


def spec_model(kernel: GatewayKernel) -> dict[str, Any]:
    """Return the spec that leads to a kernel, as clients take it."""
    other = "" if kernel.info.name == defaults.MAIN else f", kernel {kernel.info.name}"
    spec = {
        "argv": [],
        "display_name": f"{kernel.row.name}{other} (Holdfast)",
        "language": kernel.info.language or "python",
        "interrupt_mode": "message",
        "env": {},
        "metadata": {"holdfast": {"session": kernel.row.id, "kernel": kernel.info.name}},
    }
    return {"name": kernel.spec, "spec": spec, "resources": {}}


def written_time(seconds: float) -> str:
    """Return a time as Jupyter writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _running(row: SessionRow) -> SessionRow:
    if row.state == "suspended":
        raise SessionError(
            f"cannot use session {row.name}: it is suspended", hint=f"`holdfast resume {row.name}`"
        )
    return row


def _unseen() -> KernelInfo:
    return KernelInfo(name=defaults.MAIN, spec=PYTHON, state="unknown")
