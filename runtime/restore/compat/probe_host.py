"""A probe of this machine, from the reports of the checkpointer and the engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.base.version import VERSION
from holdfast.errors import EngineUnavailable, HoldfastError
from holdfast.runtime.capture import capture_record
from holdfast.snapshots import service
from holdfast.snapshots.fitness import Here
from holdfast.snapshots.link import CheckpointerFailed

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


def look(context: Context, *, live: bool) -> Here:
    """Return what this machine offers; with `live` also what a restore of processes depends on.

    The latter starts the checkpointer.

    Raises:
        EngineUnavailable: no engine answers.
    """
    engine = context.engine
    here = Here(
        machine=capture_record.machine_features({}),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        engine=engine.title,
        platform=engine.platform,
        holdfast=VERSION,
    )
    if not live:
        return here
    try:
        with service.ask(engine, context.home, context.progress, "hello", container=None) as link:
            said = link.until("done")
    except EngineUnavailable:
        raise
    except (HoldfastError, CheckpointerFailed) as error:
        return here.model_copy(update={"no_live": f"processes cannot be restored here ({error})"})
    about = {**(said.get("about") or {}), "arch": said["machine"], "kernel": said["kernel"]}
    return here.model_copy(
        update={"machine": capture_record.machine_features({**about, "criu": said["criu"]})}
    )
