"""The kernels of a session over a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session_kernels import PYTHON
from holdfast.runtime.client import client_values
from holdfast.runtime.client.aio.async_connection import OnInput
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.channel_calls import CellCall
from holdfast.runtime.client.http_call import HttpCall, given, place
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc import call_arguments
from holdfast.runtime.guest_rpc.kernel_calls import OnEvent
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.guest_rpc.results import CellResult

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.shell_calls import OnStart


class AsyncKernel:
    """Runs cells in the kernels of one session, as `SessionKernel` does."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport, self._session = transport, session

    async def cell(
        self,
        code: str,
        *,
        timeout: float | None = None,
        busy_wait: float | None = None,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        key: str | None = None,
        reason: str | None = None,
        patience: float | Patience | None = None,
        on_start: OnStart | None = None,
        kernel: str = defaults.MAIN,
        before: str | None = None,
    ) -> CellResult:
        """Run a cell, until it ends, or asks for a line without `on_input`. As `SessionKernel.cell`."""
        args = {
            "code": call_arguments.text(code, "code"),
            "timeout": call_arguments.seconds(timeout, "timeout"),
            "busy_wait": call_arguments.patience(busy_wait, "busy_wait"),
            "reason": reason,
            "kernel": kernel,
            "before": before,
        }
        call = CellCall(self._session, "cell", args, key=key, patience=patience)
        call.on_start = on_start
        return await self._made(call, kernel, on_event, on_input)

    async def join(
        self,
        cell_id: str,
        *,
        after: int = 0,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        patience: float | Patience | None = None,
        kernel: str = defaults.MAIN,
    ) -> CellResult:
        """Follow a cell that was started elsewhere, or before a restore."""
        args = {"cell_id": cell_id, "after": after, "kernel": kernel}
        return await self._made(
            CellCall(self._session, "join_cell", args, patience=patience), kernel, on_event, on_input
        )

    async def answer(
        self,
        waiting: CellResult,
        text: str,
        *,
        on_event: OnEvent | None = None,
        on_input: OnInput | None = None,
        kernel: str = defaults.MAIN,
        patience: float | Patience | None = None,
    ) -> CellResult:
        """Give a line to the cell that asks for one, and follow it from there."""
        args = {"cell_id": waiting.cell_id, "text": text, "seq": waiting.seq, "kernel": kernel}
        return await self._made(
            CellCall(self._session, "answer_cell", args, patience=patience), kernel, on_event, on_input
        )

    async def interrupt(self, kernel: str = defaults.MAIN, *, cell_id: str | None = None) -> None:
        """Interrupt what the kernel runs; with `cell_id` only that cell, if it still runs."""
        await self._ask(kernel, "interrupt", cell_id=cell_id)

    async def restart(self, kernel: str = defaults.MAIN) -> None:
        """Replace the kernel's process by a new one; its variables are lost."""
        await self._ask(kernel, "restart")

    async def _made(
        self, call: CellCall, kernel: str, on_event: OnEvent | None, on_input: OnInput | None
    ) -> CellResult:
        call.on_event, call.on_input = on_event, on_input
        try:
            return await self._transport.result(call)
        except EOFError:
            await self.interrupt(kernel)
            raise InvalidArgument(
                "cannot answer the cell: there are no more lines of input", hint="it was interrupted"
            ) from None

    async def _ask(self, kernel: str, what: str, **params: Any) -> None:
        path = place("sessions", self._session, "kernels", kernel, what)
        await self._transport.ask(HttpCall("POST", path, params))


class AsyncKernels:
    """The kernels of one session, as `SessionKernels` are."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport, self._session = transport, session

    async def list(self) -> tuple[KernelInfo, ...]:
        """Return all kernels, the main one first."""
        told = await self._transport.ask(HttpCall("GET", place("sessions", self._session, "kernels")))
        return tuple(KernelInfo.of(each) for each in client_values.tables(told))

    async def specs(self) -> tuple[KernelSpecInfo, ...]:
        """Return the specs of Jupyter that are found in the session, by their names."""
        told = await self._transport.ask(HttpCall("GET", place("sessions", self._session, "kernel-specs")))
        return tuple(KernelSpecInfo.of(each) for each in client_values.tables(told))

    async def open(self, name: str, *, spec: str = PYTHON, cwd: str | None = None) -> KernelInfo:
        """Open a kernel, or return the open kernel with that name."""
        body = given(name=name, spec=spec, cwd=cwd)
        call = HttpCall("POST", place("sessions", self._session, "kernels"), body=body)
        return KernelInfo.of(client_values.table(await self._transport.ask(call)))

    async def close(self, name: str, *, force: bool = False) -> None:
        """End a kernel, and forget its variables and cells."""
        path = place("sessions", self._session, "kernels", name)
        await self._transport.ask(HttpCall("DELETE", path, {"force": force}))
