"""Has the engine start a program of the session as the first of its container, and not ours.

No session and no image can bring that about, since the path of the first program cannot be known.
Everything after that is tested with it: such a program runs before the rules, and leaves its mark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.base import polling
from holdfast.engine.engine import Engine
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.guest import layout
from holdfast.runtime.sessions import session_options

OURS = "$(awk '$4 ~ \"/init/\" {print $5; exit}' /proc/self/mountinfo)"
"""Shell: where the engine mounted our program."""


def begin(patch: pytest.MonkeyPatch, program: str) -> None:
    """Have containers that are made from now on start this program."""
    create = Engine.create_session_container

    def other(engine: Engine, **options: Any) -> str:
        if str((options.get("entrypoint") or [""])[0]).startswith(layout.FIRST_PROCESS):
            options["entrypoint"] = [program]
        return create(engine, **options)

    patch.setattr(Engine, "create_session_container", other)


def overlook(patch: pytest.MonkeyPatch, hf: Holdfast) -> None:
    """Look at a first process only when it has become ours, and not where that was mounted."""
    start = Engine.start

    def until_ours(engine: Engine, container_id: str) -> None:
        start(engine, container_id)
        assert polling.until(lambda: _is_ours(hf, container_id), 60)

    patch.setattr(Engine, "start", until_ours)
    patch.setattr(session_options, "places", lambda *_: {"own": [], "given": []})


def _is_ours(hf: Holdfast, container_id: str) -> bool:
    state = hf.engine.inspect(container_id)
    assert state is not None
    running = Path(f"/proc/{state.pid}/exe").stat()
    return any(running.st_ino == path.stat().st_ino for path in hf.home.init.glob("*/*"))
