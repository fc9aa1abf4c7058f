"""A supervisor of another version refuses requests; its age is named."""

from __future__ import annotations

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.guest.wire.protocol import VERSION, Frame
from holdfast.runtime.guest_rpc.guest_client import raise_error


@pytest.mark.parametrize(
    ("number", "said"), [(VERSION + 1, "a newer version"), (VERSION - 1, "an older version")]
)
def test_its_age_is_named(number: int, said: str) -> None:
    message = f"cannot do exec: this session speaks protocol {number}, not {VERSION}"
    with pytest.raises(ProtocolError, match=f"{said} of Holdfast made its supervisor .protocol {number};"):
        raise_error(Frame({"event": "error", "code": "version", "message": message}))


def test_what_is_no_number_is_not_shown() -> None:
    frame = Frame({"event": "error", "code": "version", "message": "speaks protocol \x1b[2J" + "9" * 50})
    with pytest.raises(ProtocolError, match="cannot use the session") as refused:
        raise_error(frame)
    assert "999" not in str(refused.value)
