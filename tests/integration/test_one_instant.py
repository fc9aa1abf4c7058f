"""Files, tmpfs and memory of a snapshot are of one instant, whatever is being written and however."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import CaptureFailed
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot

pytestmark = pytest.mark.thorough


def _taken(session: Session) -> Snapshot:
    """Take a snapshot; once more, as its error advises, if the disk let it begin too late."""
    for _ in range(2):
        try:
            return session.snapshot()
        except CaptureFailed as error:
            if "did not begin in time" not in str(error):
                raise
    return session.snapshot()


def test_nothing_is_torn_under_every_kind_of_write(hf: Holdfast, witnesses: Any) -> None:
    """Counters, mapped files, a database, checksummed blocks and a changing tree agree in each copy with
    their programs' memory, and continue to; the same holds for copies of copies, whose files are in images.
    """
    session = hf.new("torn")
    witnesses.start(hf, session)
    copy = _taken(session).restore("copy")
    assert witnesses.wrong(session) == {}
    session.remove()  # they all write as fast as they can
    assert witnesses.wrong(copy) == {}
    again = _taken(copy).restore("again")
    copy.remove()
    assert witnesses.wrong(again, 3) == {}
