"""The operation that gives the session a user account of a name."""

from __future__ import annotations

from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.layout import WORKSPACE
from holdfast.runtime.guest.wire.call import MAX_USER, ClientCall, Operations
from holdfast.runtime.guest.wire.connection import RequestRefused


async def make(_: Guest, call: ClientCall) -> None:
    """Make an account unless there is one of that name, give it the workspace, and send where its home is."""
    name = call.optional("name", MAX_USER) or ""
    from holdfast.runtime.guest.identity import made_account
    from holdfast.runtime.guest.identity.made_account import give_workspace  # few sessions need them

    try:
        found = made_account.make(name)
    except made_account.CannotMake as error:
        raise RequestRefused("invalid", f"cannot make the account {name!r}: {error}") from None
    give_workspace(WORKSPACE, found)  # agents work there by its name
    home = found.home if found.home.startswith("/") else "/"
    await call.finish("account", home=home.encode("utf-8", "replace").decode())


OPERATIONS: Operations = {"account_make": make}
