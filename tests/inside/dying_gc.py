"""Collects garbage, and is killed after the n-th request to engine, store or disk."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

from holdfast.engine.engine import Engine
from holdfast.engine.engine_images import EngineImages
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.store.operations import Operations
from holdfast.runtime.store.store import Store

left = int(sys.argv[1])


def _counted(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        global left
        found = real(*args, **named)
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return call


if __name__ == "__main__":
    places: tuple[tuple[Any, str], ...] = (
        (Engine, "kill_remove"),
        *((EngineImages, name) for name in ("remove", "having")),
        *((Store, name) for name in ("forget_snapshot", "snapshots", "sessions")),
        (Operations, "open"),
        *((shutil, name) for name in ("rmtree",)),
        *((os, name) for name in ("unlink", "rmdir")),
    )
    for owner, name in places:
        setattr(owner, name, _counted(getattr(owner, name)))
    Holdfast().keeping.collect_garbage()
