"""Changes what a session may reach while it runs: at once, and for what is made of it later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.runtime.egress import session_policy

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast


def domains(
    controller: Holdfast, ref: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> tuple[str, ...]:
    """Allow a session other domains, or fewer; return all it has then.

    New connections go by it. Snapshots have what the session had when it was captured.

    Raises:
        SessionNotFound, InvalidArgument: there is no such session, it has no domains, or these are none.
        SessionBusy, StoreError: it cannot be changed now.
    """
    row = controller.session_row(ref)
    with controller.lock(row.id, f"change what session {row.name} reaches"):
        row = controller.session_row(row.id)
        now = session_policy.change(controller.home, row.id, add=add, remove=remove)
        controller.store.update_session(row.id, options={**row.options, "domains": list(now)})
    return now
