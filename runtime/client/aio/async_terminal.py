"""Shells of a session and their terminals over a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.client_errors import missing
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.results import Screen
from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo

if TYPE_CHECKING:
    from holdfast.runtime.client.aio.async_recording import AsyncRecording


def shell_told(told: Any) -> ShellInfo:
    """Return a shell as a server tells it."""
    return ShellInfo.model_validate(client_values.table(told), by_name=True)


class AsyncTerminal:
    """The terminal of a shell, as `SessionTerminal` is."""

    def __init__(self, transport: AsyncTransport, session: str, shell: str = defaults.MAIN) -> None:
        self._transport, self._session, self.shell = transport, session, shell

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> None:
            raise missing(name) if not name.startswith("_") else AttributeError(name)

    async def info(self) -> ShellInfo:
        """Return what the supervisor reports of the shell."""
        return shell_told(await self._ask("GET"))

    async def screen(self) -> Screen:
        """Return what the terminal shows now."""
        return client_values.screen(await self._ask("GET", "screen"))

    async def send(self, text: str | bytes) -> None:
        """Type text into the terminal, as it is."""
        await self._ask("POST", "input", text=call_arguments.typed(text, "text").decode())

    async def send_keys(self, *names: str) -> None:
        """Press keys, such as `C-c`, `Enter`, `Up`."""
        await self._ask("POST", "input", keys=list(names))

    async def lease(self) -> Lease:
        """Return who may type into the shell, and who is attached."""
        return Lease.model_validate(await self._ask("GET", "lease"))

    async def take(self, seconds: float | None = None, *, force: bool = False) -> Lease:
        """Hold the shell for a time; others cannot type meanwhile."""
        return await self._lease(action="take", seconds=seconds, force=force)

    async def give_back(self) -> Lease:
        """Let anyone type again."""
        return await self._lease(action="return")

    async def give(self, to: str, seconds: float | None = None) -> Lease:
        """Hand the shell over to another actor."""
        return await self._lease(action="give", to=to, seconds=seconds)

    async def recording(self, start: str | None = None, end: str | None = None) -> AsyncRecording:
        """Return what it showed, to be played or written as a cast. As `SessionTerminal.recording`."""
        from holdfast.runtime.client.aio.async_recording import AsyncRecording

        path = place("sessions", self._session, "shells", self.shell, "recording")
        told = await self._transport.ask(HttpCall("GET", path, {"start": start, "end": end}))
        return AsyncRecording(self._transport, path, client_values.table(told))

    async def attach(
        self,
        *,
        detach_key: str = "C-]",
        read_only: bool = False,
        take: bool = False,
        unfiltered: bool = False,
    ) -> str:
        """Connect this process's terminal to it until the detach key is pressed. As `SessionTerminal.attach`.

        What is typed while the connection to the server is lost may be lost.
        """
        from holdfast.runtime.client.aio import async_attaching

        how = {"detach_key": detach_key, "read_only": read_only, "take": take, "unfiltered": unfiltered}
        return await async_attaching.attached(self._transport, self._session, {"shell": self.shell, **how})

    async def _lease(self, **fields: Any) -> Lease:
        return Lease.model_validate(await self._ask("POST", "lease", **fields))

    async def _ask(self, method: str, *what: str, **fields: Any) -> Any:
        path = place("sessions", self._session, "shells", self.shell, *what)
        body = None if method == "GET" else given(**fields)
        return await self._transport.ask(HttpCall(method, path, body=body))


class AsyncShells:
    """The shells of one session, as `SessionShells` are."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport, self._session = transport, session

    async def list(self) -> tuple[ShellInfo, ...]:
        """Return the shells, the main one first."""
        told = await self._transport.ask(HttpCall("GET", place("sessions", self._session, "shells")))
        return tuple(shell_told(each) for each in client_values.tables(told))

    async def open(self, name: str, *, rows: int | None = None, cols: int | None = None) -> ShellInfo:
        """Open a shell, or return the one of that name that is open already."""
        body = given(name=name, rows=rows, cols=cols)
        call = HttpCall("POST", place("sessions", self._session, "shells"), body=body)
        return shell_told(await self._transport.ask(call))

    async def close(self, name: str, *, force: bool = False) -> None:
        """End a shell and what has its terminal; with `force` also if a command runs in it."""
        path = place("sessions", self._session, "shells", name)
        await self._transport.ask(HttpCall("DELETE", path, {"force": force}))
