"""Which options of a session go along when it moves, and which keep it here.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.sessions import option_table


def travelling(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a session keeps on another machine.

    Raises:
        InvalidArgument: it uses something that only this machine has.
    """
    mounts = options.get("mounts") or ()
    if mounts:
        named = ", ".join(plain(str(one.get("source")), 100) for one in mounts[:3])
        raise InvalidArgument(
            f"cannot move {name}: it uses folders of this machine ({named})",
            hint="they do not travel; a snapshot of it does, without them: `holdfast export`",
        )
    secrets = options.get("secrets") or ()
    if secrets:
        named = ", ".join(plain(str(one.get("name")), 60) for one in secrets[:5])
        raise InvalidArgument(
            f"cannot move {name}: it uses secrets that this machine keeps ({named})",
            hint="secrets do not travel",
        )
    return {
        key: options[key] for key in option_table.MOVING if options.get(key) not in (None, False, (), [], {})
    }
