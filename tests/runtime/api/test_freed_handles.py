"""A handle is freed when no one refers to it: a server makes one for each request, with all that it read."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any, cast

import pytest

from holdfast.runtime.api.session import Session


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Leave what is in cycles of references where it is, as for minutes in a server with much to hold."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


PARTS = (
    "kernel",
    "kernels",
    "files",
    "git",
    "shells",
    "programs",
    "_shell",
    "_insight",
    "_ports",
    "_sharing",
)


@pytest.mark.parametrize("part", PARTS)
def test_a_handle_is_freed_with_its_parts(part: str) -> None:
    """Neither waits for the collector."""
    nowhere: Any = object()  # nothing is asked of either
    session = Session(nowhere, nowhere)
    found = weakref.ref(session), weakref.ref(getattr(session, part)), weakref.ref(session._line)
    del session
    assert [each() for each in found] == [None, None, None]


def test_a_handle_and_its_channel_have_the_same_row() -> None:
    """A row that one of them learns of is known to the other."""
    context, old, new = (cast("Any", object()) for _ in range(3))
    session = Session(context, old)
    assert session._line.known is session.row is old
    session._became(new)
    assert session._line.known is session.row is new
    session._line._became(old)
    assert session._line.known is session.row is old
