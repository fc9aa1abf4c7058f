"""The verb of the pool, and its display in other verbs."""

from __future__ import annotations

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.session_pool import SessionPool, WaitingSession


@examples("pool", "pool set 3", "pool set 2 --image python:3.12 --kernel", "pool set 0")
def pool(
    action: str | None = argument("set", default=None, help="To change it.", names=lambda _typed: ["set"]),
    size: int | None = argument("N", default=None, help="Number of waiting sessions; 0 removes them."),
    image: str | None = option(help="Image of the sessions; by default Holdfast's own."),
    kernel: bool = option("--kernel", help="Also have their kernel ready."),
    json: bool = JSON,
) -> None:
    """Show the sessions that wait to be handed over by `new`, or set their number."""
    if action not in (None, "set"):
        raise InvalidArgument(f"cannot {action} the pool: it can only be set", hint="`holdfast pool set 3`")
    if action is None and (image is not None or kernel):
        raise InvalidArgument("cannot set the pool: its size is missing", hint="`holdfast pool set 3`")
    if action is not None and size is None:
        raise InvalidArgument("cannot set the pool: its size is missing", hint="`holdfast pool set 3`")
    with controller() as holdfast:
        if size is not None:
            holdfast.pool.set(size, image, kernel=kernel)
        found = holdfast.pool
        waiting = found.waiting()
        if wants_json(json):
            printing.emit(_as_dict(found, waiting))
            return
        settings, trouble = found.settings, found.trouble
    if not settings.size and not waiting:
        printing.say("no pool; `holdfast pool set 3` has three sessions wait")
        return
    of = "" if settings.image is None else f" with image {settings.image}"
    ready = ", their kernels ready" if settings.kernel else ""
    printing.say(f"{len(waiting)} of {settings.size} sessions wait{of}{ready}")
    for one in waiting:
        printing.say(f"  {one.id}  {'kernel' if one.kernel else 'shell'}  {printing.image(one.image)}")
    if trouble:
        printing.note(f"the last attempt to fill it failed: {trouble}")


def _as_dict(found: SessionPool, waiting: list[WaitingSession]) -> dict[str, Any]:
    settings = found.settings
    return {
        "size": settings.size,
        "image": settings.image,
        "kernel": settings.kernel,
        "waiting": [one.as_dict() for one in waiting],
        "filling": found.at_work,
        "trouble": found.trouble or None,
    }
