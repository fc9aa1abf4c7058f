"""A step of a long operation, and the watcher of the steps of one call where calls share a controller.

The watcher belongs to the context of the thread or task (`contextvars`); threads that an operation starts for
parts of itself get it by `with_watcher`. Knows no operation, no door and no terminal.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.base.value_classes import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    Given = ParamSpec("Given")
    Result = TypeVar("Result")


_watcher: contextvars.ContextVar[Callable[[Step | None], None] | None] = contextvars.ContextVar(
    "holdfast_step_watcher", default=None
)


@dataclass(frozen=True, slots=True)
class Step:
    """The present activity of an operation.

    Attributes:
        text: the step in a few words, such as `freezing work`.
        done: how much of it is done; None where that is not counted.
        total: how much there is to do; None where that is not known.
    """

    text: str
    done: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        """Return the step in a form for people."""
        if self.done is None:
            return self.text
        return f"{self.text} ({self.done} of {self.total})" if self.total else f"{self.text} ({self.done})"


def watcher_of_call() -> Callable[[Step | None], None] | None:
    """Return the watcher of the call that this code is part of, if it has one."""
    return _watcher.get()


@contextmanager
def watched(watcher: Callable[[Step | None], None]) -> Iterator[None]:
    """Call a watcher with the steps of the block, from any thread."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def with_watcher(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that does the work with the watcher of this call, for a thread of its own."""
    context = contextvars.copy_context()
    return lambda *args, **kwargs: context.run(work, *args, **kwargs)
