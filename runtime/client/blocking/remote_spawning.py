"""pexpect over a URL. Written by hand: coroutines have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.base.delegation import late

if TYPE_CHECKING:
    from holdfast.runtime.api.spawn import SessionSpawning


def _spawning() -> type[SessionSpawning]:
    from holdfast.runtime.api.spawn import SessionSpawning  # pexpect is loaded when it is used

    return SessionSpawning


spawn = late(lambda session: _spawning()(session), lambda: _spawning().spawn)
