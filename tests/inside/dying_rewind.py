"""Rewinds session `work` to snapshot `first`, and is killed after the named step."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from holdfast.engine.engine import Engine
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.restore import rewind
from holdfast.runtime.restore.restore_session import Restoring
from holdfast.runtime.store.lives import Lives

STEPS: dict[str, tuple[Any, str]] = {
    "restored": (Restoring, "containers"),
    "proven": (rewind, "_may_finish"),
    "switched": (Lives, "begin"),
    "killed": (Engine, "kill_remove"),
}


def _dying(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        real(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return call


if __name__ == "__main__":
    owner, name = STEPS[sys.argv[1]]
    setattr(owner, name, _dying(getattr(owner, name)))
    Holdfast().session("work").rewind("first", discard=True)
