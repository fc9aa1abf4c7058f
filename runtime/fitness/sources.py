"""Finds what somebody means by a snapshot, a file or a reference, and asks for its ladder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.fitness import judging

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.snapshots.fitness import Ladder


def ladder(controller: Holdfast, source: str) -> Ladder:
    """The ladder of what `source` names.

    Raises:
        SnapshotNotFound: it names nothing.
    """
    return judging.ladder(controller, controller.store.snapshot(source))
