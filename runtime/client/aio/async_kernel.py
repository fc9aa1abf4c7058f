"""The kernels of a session over a URL."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.api.session_kernels import SessionKernel, SessionKernels
from holdfast.runtime.client.aio.async_handle import AsyncSessionPart, requesting
from holdfast.runtime.client.bound_methods import Route, all_of, asking, nothing
from holdfast.runtime.client.channel_calls import CellCall
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
from holdfast.runtime.guest_rpc.results import CellResult

OF_KERNEL = "kernels/{kernel}"


class AsyncKernel(AsyncSessionPart):
    """Runs cells in the kernels of one session, as `SessionKernel` does."""

    async def _followed(self, call: str, told: dict[str, Any]) -> CellResult:
        kernel = told.get("kernel", defaults.MAIN)
        try:
            return await self._transport.result(CellCall.of(self._session, call, told))
        except EOFError:
            await self.interrupt(kernel)
            raise InvalidArgument(
                "cannot answer the cell: there are no more lines of input", hint="it was interrupted"
            ) from None

    async def _answered(self, call: str, told: dict[str, Any]) -> CellResult:
        waiting: CellResult = told.pop("waiting")
        return await self._followed(call, {"cell_id": waiting.cell_id, "seq": waiting.seq, **told})

    cell = asking(SessionKernel.cell, _followed)
    join = asking(SessionKernel.join, _followed, "join_cell")
    answer = asking(SessionKernel.answer, _answered, "answer_cell")
    interrupt = requesting(
        SessionKernel.interrupt, Route("POST", "kernels/{kernel}/interrupt", in_query=True), nothing
    )
    restart = requesting(
        SessionKernel.restart, Route("POST", "kernels/{kernel}/restart", in_query=True), nothing
    )


class AsyncKernels(AsyncSessionPart):
    """The kernels of one session, as `SessionKernels` are."""

    list = requesting(SessionKernels.list, Route("GET", "kernels"), all_of(KernelInfo.of))
    specs = requesting(SessionKernels.specs, Route("GET", "kernel-specs"), all_of(KernelSpecInfo.of))
    open = requesting(SessionKernels.open, Route("POST", "kernels"), KernelInfo.of)
    close = requesting(SessionKernels.close, Route("DELETE", "kernels/{name}"), nothing)
