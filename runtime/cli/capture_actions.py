"""What snapshot does, given its parameters. Loads no Typer.

The parameters are described where they are defined, in `snapshot_verbs`. Returns the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.caller import controller, wants_json


def snapshot(
    session: str,
    *,
    label: str | None = None,
    kind: str = "live",
    reason: str | None = None,
    check: bool = False,
    all_: bool = False,
    force_drop: Sequence[str] | None = None,
    json: bool = False,
) -> int:
    """Take a snapshot, or show what one would keep; `all_`: including the supervisor's own resources."""
    if check:
        from holdfast.runtime.cli import check_verbs

        found = controller().session(session)
        return check_verbs.check(found, everything=all_, as_json=wants_json(json))
    if kind not in ("live", "filesystem"):
        from holdfast.base.text import plain

        raise InvalidArgument(
            f"cannot take a snapshot of kind '{plain(kind, 40)}'", hint="live or filesystem"
        )
    dropped = force_drop or []
    for name in dropped:
        if name.startswith("pid:"):
            printing.note(f"{name} and its descendants are ended in the session if they block")
    taken = (
        controller()
        .session(session)
        .snapshot(label, "live" if kind == "live" else "filesystem", reason=reason, force_drop=dropped)
    )
    if wants_json(json):
        printing.emit(taken.as_dict())
    else:
        printing.say(taken.name)
    return 0
