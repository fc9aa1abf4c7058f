"""Registration of new sessions under free names: the requested one, or a generated one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.errors import SessionExists

if TYPE_CHECKING:
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store

_TRIES = 8


def add(
    store: Store, name: str | None, image: str, options: dict[str, Any], *, session_id: str, **columns: Any
) -> SessionRow:
    """Reserve a name and record a session that is about to be made; `columns` as for `Store.add_session`.

    Raises:
        SessionExists: the name is taken.
    """
    made_up = [*(ids.new_name() for _ in range(_TRIES)), f"s-{session_id[:6]}"]
    for chosen in [name] if name else made_up:
        try:
            return store.add_session(chosen, image, options, session_id=session_id, **columns)
        except SessionExists as error:
            taken = error
    raise taken
