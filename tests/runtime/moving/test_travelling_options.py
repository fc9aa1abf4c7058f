"""Which options a session keeps when it moves."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.moving.travelling_options import travelling
from holdfast.runtime.sessions.session_options import SessionOptions


def test_what_is_set_travels() -> None:
    options = SessionOptions.parse(memory="1g", env=["A=b"], network="none").model_dump(mode="json")
    assert travelling("work", options).items() >= {"memory": options["memory"], "env": {"A": "b"}}.items()
    SessionOptions.parse(**travelling("work", options))
    # A machine with an earlier version does not know options that are not used.
    assert "read_only" not in travelling("work", options)
    chosen = SessionOptions.parse(read_only=True, writable=["/srv"]).model_dump(mode="json")
    assert travelling("work", chosen).items() >= {"read_only": True, "writable": ["/srv"]}.items()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mounts": [{"source": "/srv/data\x1b", "target": "/data"}]}, "/srv/data"),
        ({"secrets": [{"name": "TOKEN", "hosts": ["a.example"]}]}, "TOKEN"),
    ],
)
def test_what_only_this_machine_has_keeps_it_here(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=f"cannot move work: .*{named}") as refused:
        travelling("work", options)
    assert "\x1b" not in str(refused.value)
