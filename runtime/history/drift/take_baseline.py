"""Takes the baseline of a snapshot, before the capture: what the session holds, and how its files differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.runtime.history.drift import observe_session, packages
from holdfast.runtime.history.drift.baseline import Baseline
from holdfast.runtime.history.drift.changed_paths import PathEntry
from holdfast.runtime.history.drift.packages import Package

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.runtime.guest_rpc.guest_client import GuestClient
    from holdfast.runtime.history.drift.holdings import Holdings


def baseline(
    engine: Engine, client: GuestClient, container: str, layers: Sequence[Path], base: str | None
) -> Baseline:
    """Return the baseline. Files come first: a change in between is reported twice rather than never.

    `layers` are the container's, as `engine.files.layers` returns them.

    Raises:
        GuestError, EngineError: the session or the engine does not answer.
    """
    table, found, versions = files(engine, client, container, 0.0, layers)
    keys = tuple(one.key for one in found)
    settled = packages.settle(found, versions, {})
    by_key = {one.key: one.new or "" for one in settled}
    held: Holdings = observe_session.held(client)
    return Baseline(base, held, table, keys, tuple(by_key.get(key, "") for key in keys))


def files(
    engine: Engine,
    client: GuestClient,
    container: str,
    since: float,
    layers: Sequence[Path] | None = None,
) -> tuple[dict[str, PathEntry], list[Package], dict[tuple[str, str, str], dict[str, str]]]:
    """Return how the files differ from the image, the packages among them, and the guest's facts on these."""
    differing = observe_session.differing(engine, container, layers)
    found = observe_session.candidates(differing)
    table, versions = observe_session.table(client, differing, found, since)
    return table, found, {found[number].key: one for number, one in versions.items() if number < len(found)}
