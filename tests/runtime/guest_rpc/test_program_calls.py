"""A session's statements about programs are checked before they are used."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc.program_calls import ProgramFollowing
from holdfast.runtime.guest_rpc.program_result import ProgramInfo

INFO: dict[str, Any] = {
    "id": "one", "name": "", "argv": ["ls", "-l"], "cwd": "/", "user": "root", "actor": "agent", "pid": 7,
    "state": "exited", "exit_code": 3, "signal": None, "killed_by": None, "accepted": 0, "stdout": 5,
    "stderr": 0, "duration": 0.5,
}  # fmt: skip


def test_a_description_is_read() -> None:
    found = ProgramInfo.of(INFO)
    assert (found.argv, found.exit_code, found.duration) == (("ls", "-l"), 3, 0.5)
    assert found.as_dict() == INFO
    assert ProgramInfo.of(INFO | {"argv": [5]}).argv == ()
    assert "\x1b" not in ProgramInfo.of(INFO | {"cwd": "\x1b]0;x\x07"}).cwd


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": 0}, {"pid": "7"}, {"state": "gone"}, {"exit_code": 2.5}, {"signal": -1}, {"stdout": 2**63},
        {"duration": "x"}, {"user": None}, {"accepted": True},
    ],
)  # fmt: skip
def test_a_description_that_is_not_valid_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
        ProgramInfo.of(INFO | changed)


class NoLine:
    """A channel of which nothing is asked."""

    def client(self) -> None:
        return None


@pytest.mark.parametrize(
    "head",
    [
        {"event": "output", "stream": "stdin", "offset": 0},
        {"event": "output", "stream": "stdout", "offset": 9},
        {"event": "output", "stream": "stdout"},
        {"event": "gap", "stream": "stderr", "offset": 0, "size": -1},
        {"event": "gap", "stream": "stdout", "offset": 1, "size": 2},
    ],
)  # fmt: skip
def test_output_out_of_order_is_refused(head: dict[str, Any]) -> None:
    following = ProgramFollowing(NoLine(), "one")  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=r"^cannot understand the session"):
        following._hear(Frame(head, b"data"))
