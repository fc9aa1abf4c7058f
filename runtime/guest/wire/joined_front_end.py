"""The operation that joins a front end of Jupyter to a kernel: messages both ways until the client leaves.

The first event, `joined`, says in which state the kernel is. Each message of the client has a growing number
within its `link`; it is confirmed by `taken`, so that a client whose connection was lost sends it once more
without having it done twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.kernels.guest.kernel import RunningKernel
from holdfast.kernels.guest.process import KernelFailure
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import MAX_ID, ClientCall
from holdfast.runtime.guest.wire.connection import RequestRefused

if TYPE_CHECKING:
    from holdfast.kernels.guest.front_ends import FrontEnds

MAX_FRONT_ENDS = 32


async def join(guest: Guest, call: ClientCall) -> None:
    """Pass messages on between a front end and a kernel."""
    kernel, client, link = guest.kernel(call.target("kernel")), call.text("client"), call.text("link")
    after = call.integer("after", low=0) if call.frame.head.get("after") is not None else None
    if max(len(client), len(link)) > MAX_ID:
        raise RequestRefused("invalid", f"cannot join kernel {kernel.name}: an id is longer than {MAX_ID}")
    await _ensure(kernel)
    fronts = kernel.front_ends()
    if fronts.connected >= MAX_FRONT_ENDS:
        raise RequestRefused(
            "busy", f"cannot join kernel {kernel.name}: it has {MAX_FRONT_ENDS} front ends already"
        )
    fronts.connected += 1
    position, lost = fronts.place(client, after, running=kernel.taken)
    await call.send("joined", state=kernel.state, epoch=kernel.epoch, lost=lost)
    sending = asyncio.create_task(_send(call, fronts, client, position))
    try:
        while not kernel.closed:
            await _take(kernel, call, client, link)
    finally:
        fronts.connected -= 1
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(call: ClientCall, fronts: FrontEnds, client: str, position: int) -> None:
    async for data in fronts.messages(client, position):
        await call.connection.send_encoded(data)


async def _take(kernel: RunningKernel, call: ClientCall, client: str, link: str) -> None:
    """Take the client's next message."""
    from holdfast.kernels.guest.front_ends import FrontEndRefused, FrontMessage  # few sessions have any
    from holdfast.runtime.guest.wire.kernel_messages import MessageMalformed

    frame = await call.connection.receive()
    number = ClientCall(call.connection, frame).integer("number", low=1)
    if kernel.front_ends().take(link, number):
        try:
            await kernel.take(FrontMessage.of(client, call.who(), frame.payload))
        except MessageMalformed as error:
            raise RequestRefused("bad_request", f"cannot take the message: {error}") from None
        except FrontEndRefused as error:
            raise RequestRefused("busy", str(error)) from None
        except KernelFailure as failure:
            raise RequestRefused("kernel_failed", str(failure)) from None
    await call.send("taken", number=number)


async def _ensure(kernel: RunningKernel) -> None:
    try:
        await kernel.ensure()
    except KernelFailure as failure:
        raise RequestRefused("kernel_failed", str(failure)) from None
