"""What a call of the server is: work with a session that waits, and may report events on its way.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.event_format import Event

Emit = Callable[[Event, int], None]
"""Passes on an event, and the bytes it counts for; waits while the reader is slow."""
ServedCall = Callable[[Session, Patience, Emit | None], dict[str, Any]]
"""Does the work in a thread, and returns the fields of its result.

With `Emit` it reports what is shown as it comes, and leaves that out of the result.
"""
OVERHEAD = 200
"""Bytes that an event takes beside what it carries."""
