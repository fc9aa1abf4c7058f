"""Files, tmpfs and memory of a snapshot are of one instant, whatever is written then, in whatever way."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.controller import Holdfast

pytestmark = pytest.mark.engine


def test_nothing_is_torn_under_every_kind_of_write(hf: Holdfast, witnesses: Any) -> None:
    """Counters, mapped files, a database, checksummed blocks and a changing tree agree in each copy with what
    their programs remember, and go on to."""
    session = hf.new("torn")
    witnesses.start(hf, session)
    for number in range(4):
        snapshot = session.snapshot()
        copy = snapshot.restore(f"copy-{number}")
        assert witnesses.wrong(copy) == {}
        copy.remove()
        snapshot.remove()
    assert witnesses.wrong(session) == {}


def test_copies_of_copies_are_not_torn_either(hf: Holdfast, witnesses: Any) -> None:
    """What was written before is in the image then, and overlayfs changes it in another way."""
    session = hf.new("torn")
    witnesses.start(hf, session)
    for number in range(2):
        session = session.snapshot().restore(f"copy-{number}")
        assert witnesses.wrong(session, 3) == {}
