"""Command lines for an engine on another machine: they run there, whatever their verb."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from holdfast.engine import engine_place
from holdfast.errors import HoldfastError
from holdfast.runtime.cli import plain_forms, printing

_HERE = ("--help", "-h", "--version", "--install-completion", "--show-completion")


def matched(given: Sequence[str]) -> Callable[[], int] | None:
    """Return what runs a command line there, and returns the exit code; None if it is to run here."""
    if not given or given[0] in _HERE or plain_forms.COMPLETION in os.environ:
        return None
    try:
        place = engine_place.find()
    except HoldfastError:  # whatever needs the engine reports it
        return None
    if not place.elsewhere:
        return None
    from holdfast.runtime.remote import elsewhere

    return lambda: elsewhere.run(given, place, printing.note)
