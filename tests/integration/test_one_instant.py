"""Files, tmpfs and memory of a snapshot are of one instant, whatever is being written and however."""

from __future__ import annotations

from typing import Any

from holdfast.runtime.api.controller import Holdfast


def test_nothing_is_torn_under_every_kind_of_write(hf: Holdfast, witnesses: Any) -> None:
    """Counters, mapped files, a database, checksummed blocks and a changing tree agree in each copy with what
    their programs remember, and continue to; so they do in copies of copies, whose files are in images.
    """
    session = hf.new("torn")
    witnesses.start(hf, session)
    copy = session.snapshot().restore("copy")
    assert witnesses.wrong(session) == {}
    session.remove()  # they all write as fast as they can
    assert witnesses.wrong(copy) == {}
    again = copy.snapshot().restore("again")
    copy.remove()
    assert witnesses.wrong(again, 3) == {}
