"""The watcher of the steps of one call, where several calls share a controller.

It belongs to the context of the thread or task (`contextvars`); threads that an operation starts for parts of
itself get it with `copied`. Knows no operation and no door.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    from holdfast.runtime.operations.step import Step

    Given = ParamSpec("Given")
    Result = TypeVar("Result")

_watcher: contextvars.ContextVar[Callable[[Step | None], None] | None] = contextvars.ContextVar(
    "holdfast_step_watcher", default=None
)


def current() -> Callable[[Step | None], None] | None:
    """Return the watcher of the call that this code is part of, if it has one."""
    return _watcher.get()


@contextmanager
def watched(watcher: Callable[[Step | None], None]) -> Iterator[None]:
    """Have a watcher called with the steps of what the block does, from any thread."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def copied(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that does the work with the watcher of this call, for a thread of its own."""
    context = contextvars.copy_context()
    return lambda *args, **kwargs: context.run(work, *args, **kwargs)
