"""The recorded actions that can be repeated elsewhere, and whether the repetition had the same result. Pure.

Actions that were marked to run once are skipped; an action that cannot be repeated faithfully is the end,
because all later ones would run in a different state. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from holdfast.runtime.task.stated_actions import StatedAction

SCRUBBED = "[scrubbed: "
"""The replacement of a secret in a journal that travelled with a bundle."""
Fate = Literal["repeat", "skip", "stop"]
MAIN = "main"
"""The only shell and kernel of a new session."""


@dataclass(frozen=True, slots=True)
class RedoOptions:
    """How actions are repeated.

    Attributes:
        skip: entries that are left out, such as `#12`.
        repeat: idempotency keys whose commands are repeated all the same.
        exit_codes: compare exit codes and statuses only, because outputs differ by nature.
        seconds: the time limit of each.
    """

    skip: Collection[str] = ()
    repeat: Collection[str] = ()
    exit_codes: bool = False
    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class RedoneAction:
    """An action and the fate of its repetition: `same`, `skipped`, `differs` or `stopped`, and why.

    `result` and `output_digest` belong to the repetition.
    """

    action: StatedAction
    fate: Literal["same", "skipped", "differs", "stopped"]
    why: str = ""
    result: int | str | None = None
    output_digest: str = ""


def fate(action: StatedAction, options: RedoOptions) -> tuple[Fate, str]:
    """Return whether an action is repeated, skipped, or the end; and why it is not repeated."""
    if action.entry in options.skip:
        return "skip", "left out on request"
    if action.kind == "files_out":
        return "skip", "it changed nothing in the session"
    if action.key is not None and action.key not in options.repeat:
        return "skip", f"it was sent with key {action.key}, to run once"
    if action.result is None and action.kind in ("command", "cell"):
        return "skip", "it had not ended"
    why = _obstacle(action)
    return ("stop", why) if why else ("repeat", "")


def difference(action: StatedAction, result: int | str | None, digest: str, options: RedoOptions) -> str:
    """Return how a repetition differs from the recorded action; empty if it does not."""
    if action.kind == "job":  # it continues beside the others
        return ""
    if result != action.result:
        return f"it ended with {_shown(result)}, and had ended with {_shown(action.result)}"
    if options.exit_codes or not action.output_digest or not digest:
        return ""
    return "its output differs" if digest != action.output_digest else ""


def _obstacle(action: StatedAction) -> str:
    if action.kind == "missing":
        return "entries of the journal are no longer kept here"
    if action.kind == "files_in":
        return "its files came from outside, and were not recorded"
    if SCRUBBED in action.text:
        return "a secret was removed from its text"
    if action.cut:
        return "its text was recorded only in part"
    if action.kind == "run":
        return "only a short text is recorded of a program run without a shell"
    if action.typed:
        return "it was given input, which is not repeated"
    if action.kind != "job" and action.place not in ("", MAIN):
        return f"there is no {'kernel' if action.kind == 'cell' else 'shell'} {action.place} in a new session"
    return ""


def _shown(result: int | str | None) -> str:
    return "no exit code" if result is None else str(result)
