"""The operations on the session as a whole: its identity, hooks, journal and accounts, and serving captures.

A client that serves captures gets the requests of programs, and reports the outcomes.
"""

from __future__ import annotations

import asyncio
import json

from holdfast.runtime.guest.captures.captures import Answer, failed
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.identity.hooks import words
from holdfast.runtime.guest.layout import WORKSPACE
from holdfast.runtime.guest.records.journal import PAGE
from holdfast.runtime.guest.wire.call import MAX_USER, ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused

MAX_LIMIT = 1_000_000
MAX_TEXT = 4000


async def hello(guest: Guest, call: ClientCall) -> None:
    """Send the session's identity, and its supervisor's abilities."""
    await call.finish("hello", **guest.hello())


async def begin(guest: Guest, call: ClientCall) -> None:
    """Begin a session that waits in a pool, under the name from the host; only once."""
    if not guest.unbegun:
        raise RequestRefused("invalid", "cannot begin the session: it has begun")
    await guest.begin({"name": call.text("name"), "generation": call.integer("generation", low=0)})
    await call.finish("begun", session=guest.identity.session)


async def hooks(guest: Guest, call: ClientCall) -> None:
    """Send the results of the hooks, once all have ended."""
    await call.finish("hooks", words(await guest.hooks.settled()))


async def journal(guest: Guest, call: ClientCall) -> None:
    """Send the entries after one, of some kinds or all; with `follow`, new ones as well."""
    after = call.integer("after_seq", 0, low=0)
    left = call.integer("limit", MAX_LIMIT, low=0, high=MAX_LIMIT)
    follow = call.frame.head.get("follow") is True
    kinds = _kinds(call)
    while left > 0:
        last = guest.journal.last
        page = guest.journal.entries(after, min(left, PAGE), kinds)
        for entry in page:
            after = entry["seq"]
            data = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
            await call.send("entry", data, seq=after, kind=entry["kind"])
        left -= len(page)
        if page or left <= 0:
            continue
        after = max(after, last)
        if not follow:
            break
        if guest.journal.last <= after:  # below it, for a reader that begins beyond the end
            await guest.journal.more()
    await call.finish("end_of_journal", last_seq=guest.journal.last, first_seq=guest.journal.first)


async def moment(guest: Guest, call: ClientCall) -> None:
    """Send the present ends of the session's records."""
    await call.finish("moment", **guest.moment())


def _kinds(call: ClientCall) -> frozenset[str] | None:
    kinds = call.frame.head.get("kinds")
    if kinds is None:
        return None
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise RequestRefused("invalid", f"cannot do {call.frame.op}: kinds must be a list of texts")
    return frozenset(kinds)


async def make_account(_: Guest, call: ClientCall) -> None:
    """Make an account unless there is one of that name, give it the workspace, and send its home's path."""
    name = call.optional("name", MAX_USER) or ""
    from holdfast.runtime.guest.identity import made_account  # few sessions need it

    try:
        found = made_account.make(name)
    except made_account.CannotMakeAccount as error:
        raise RequestRefused("invalid", f"cannot make the account {name!r}: {error}") from None
    made_account.give_workspace(WORKSPACE, found)  # agents work there by its name
    home = found.home if found.home.startswith("/") else "/"
    await call.finish("account", home=home.encode("utf-8", "replace").decode())


async def serve_captures(guest: Guest, call: ClientCall) -> None:
    """Serve until the client ends the session of serving, or hangs up."""
    shell_access = guest.captures
    shell_access.serve(call, call.integer("holding", 0, low=0))
    sending = asyncio.create_task(_send_requests(guest, call))
    try:
        while await _take_outcome(guest, call):
            pass
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        shell_access.left(call)
    await call.finish("closed")


async def _send_requests(guest: Guest, call: ClientCall) -> None:
    await call.send("serving")
    while True:
        number, request = await guest.captures.next()
        data = json.dumps(dict(request.program), separators=(",", ":")).encode()
        await call.send("request", data, number=number)


async def _take_outcome(guest: Guest, call: ClientCall) -> bool:
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


OPERATIONS: Operations = {
    "hello": hello,
    "begin": begin,
    "hooks": hooks,
    "journal": journal,
    "moment": moment,
    "account_make": make_account,
    "captures": serve_captures,
}
