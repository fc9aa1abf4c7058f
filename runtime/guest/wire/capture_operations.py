"""The operation that serves captures: the client gets the requests of programs, and reports the outcomes."""

from __future__ import annotations

import asyncio
import json

from holdfast.runtime.guest.captures.captures import Answer, failed
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire.call import ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

MAX_TEXT = 4000


async def captures(guest: Guest, call: ClientCall) -> None:
    """Serve until the client ends the session of serving, or hangs up."""
    desk = guest.captures
    desk.serve(call, call.integer("holding", 0, low=0))
    sending = asyncio.create_task(_send(guest, call))
    try:
        while await _process(guest, call):
            pass
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        desk.left(call)
    await call.finish("closed")


async def _send(guest: Guest, call: ClientCall) -> None:
    await call.send("serving")
    while True:
        number, request = await guest.captures.next()
        data = json.dumps(dict(request.program), separators=(",", ":")).encode()
        await call.send("request", data, number=number)


async def _process(guest: Guest, call: ClientCall) -> bool:
    """Process one frame of the client; return False if it is the last."""
    given = ClientCall(call.connection, await call.connection.receive())
    match given.frame.op:
        case "end":
            return False
        case "captured":
            answer: Answer = {
                "kind": "resumed",
                "snapshot": given.text("snapshot"),
                "reference": given.optional("reference", MAX_TEXT) or "",
            }
        case "failed":
            hint = given.optional("hint", MAX_TEXT) or ""
            answer = failed(given.text("code"), given.text("message"), hint)
        case other:
            raise RequestRefused("invalid", f"cannot do {other or 'nothing'} while captures are served")
    number = given.integer("number", low=1)
    guest.captures.answered(number, answer)
    guest.requests += 1  # the program that asked continues
    await call.send("answered", number=number)
    return True


OPERATIONS: Operations = {"captures": captures}
