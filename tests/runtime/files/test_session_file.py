"""A session's statements about the attributes of a file, which can be anything."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.files.session_file import SessionFile

FACTS: dict[str, Any] = {
    "name": "x", "kind": "file", "size": 3, "mode": 0o644, "mtime_ns": 1, "uid": 0, "gid": 0, "version": "v",
}  # fmt: skip


def test_attributes_count_only_where_they_were_asked_for() -> None:
    """A watch of many files does not have room for them."""
    raw = FACTS | {"attributes": {"e2b.a": "b"}}
    assert SessionFile.of(raw).attributes == {}
    assert SessionFile.of(raw, attributes=True).attributes == {"e2b.a": "b"}
    assert SessionFile.of(FACTS, attributes=True).attributes == {}


@pytest.mark.parametrize("given", [[], "x", 5, {"a": 1}, {"a": None}, {"a": "x" * 5000}])
def test_attributes_that_make_no_sense_are_refused(given: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^cannot understand"):
        SessionFile.of(FACTS | {"attributes": given}, attributes=True)
