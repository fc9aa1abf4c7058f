"""Gives a session a user account.  What comes back is checked: the session is hostile."""

from __future__ import annotations

from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient

LONGEST = 4096


def make_account(client: GuestClient, name: str) -> str:
    """Make an account of the session unless there is one of that name; return its home, an absolute path.

    Raises:
        GuestError: the session cannot make it, or is of an older version.
        ProtocolError: it answers something else.
    """
    home = wire_fields.text(client.request("account_make", name=name), "home")
    if not home.startswith("/") or len(home) > LONGEST or not home.isprintable():
        raise ProtocolError("cannot understand the session: it names no home of the account")
    return home
