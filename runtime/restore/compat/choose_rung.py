"""The rung of a ladder that is taken, and the refusal of what is not on it. Pure.

`restore`, `thaw` and `fits` mean the same by what they are asked for: `as_` is exactly this rung, `require`
at least this one, and neither of them all that was captured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.base.suggestion import command
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, LiveUnsupported

if TYPE_CHECKING:
    from holdfast.snapshots.fitness import Ladder, Name

RUNGS: tuple[Name, ...] = ("live", "commands", "files")
"""The best first."""
_NOTHING = "nothing of it can be had on this machine"


def choose_rung(ladder: Ladder, as_: Name | None, require: Name | None, *, verb: str, source: str) -> Name:
    """Return the rung to take: the one asked for, else the best that is possible and enough.

    Args:
        ladder: what is possible.
        as_: exactly this rung.
        require: at least this rung; without it and `as_`, `live` of what was captured live.
        verb: the command that would take a rung, for messages: `restore` or `thaw`.
        source: what it is taken of, in the words of the command.

    Raises:
        InvalidArgument: `as_` is less than `require`.
        LiveUnsupported: it is not possible; `findings` are the reasons.
    """
    check(as_, require, verb)
    least = require or ("live" if ladder.live else "files")
    found = best(ladder, least) if as_ is None else (as_ if ladder.rung(as_).possible else None)
    if found is not None:
        return found
    missing = as_ or least
    reasons = ladder.rung(missing).reasons or [_NOTHING]
    raise LiveUnsupported(
        f"cannot {verb} {plain(source, 200)} as {missing}: {'; '.join(reasons)}",
        hint=instead(ladder, None, verb, source) or _NOTHING,
        findings=tuple({"rung": missing, "reason": reason} for reason in reasons),
    )


def check(as_: Name | None, require: Name | None, verb: str) -> None:
    """Raise InvalidArgument if `as_` is less than `require`: nothing could satisfy both."""
    if as_ and require and RUNGS.index(as_) > RUNGS.index(require):
        raise InvalidArgument(f"cannot require {require} and {verb} as {as_}", hint="leave one out")


def best(ladder: Ladder, least: Name) -> Name | None:
    """Return the best rung that is possible, None if it is lower than `least`."""
    enough = RUNGS[: RUNGS.index(least) + 1]
    return next((name for name in enough if ladder.rung(name).possible), None)


def instead(ladder: Ladder, tried: Name | None, verb: str, source: str) -> str:
    """Return a hint at the best rung that is possible, below the one that was tried if one was."""
    for name in RUNGS if tried is None else RUNGS[RUNGS.index(tried) + 1 :]:
        rung = ladder.rung(name)
        if rung.possible:
            return f"`{take(verb, source, name)}` is possible; without {', '.join(rung.lost)}"
    return ""


def take(verb: str, source: str, rung: Name) -> str:
    """Return the command that takes a rung; only its option, if the source cannot be part of a command."""
    return command(verb, source, "--as", rung) or f"--as {rung}"
