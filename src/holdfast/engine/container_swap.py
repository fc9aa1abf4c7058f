"""What the engine is asked for so that one container can take another's place: stand still, be called so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.engine import engine_faults
from holdfast.errors import EngineError

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

PAUSE_SECONDS = 30
AGAIN_SECONDS = 0.1


def rename(engine: Engine, container_id: str, name: str) -> None:
    """Give a container another name."""
    with engine_faults.translated("rename container"):
        engine.client.api.rename(container_id, name)


def pause(engine: Engine, container_id: str) -> None:
    """Stop the processes of a container until `unpause`; one that is paused already stays so.

    A process that waits for memory which a restore still loads cannot be stopped before it has it; then the
    engine gives up at once, and is asked again.
    """
    deadline = time.monotonic() + PAUSE_SECONDS
    while True:
        try:
            with engine_faults.translated("pause container"):
                engine.client.api.pause(container_id)
        except EngineError as error:
            if "already paused" in str(error):
                return
            if "unable to freeze" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_SECONDS)
        else:
            return
