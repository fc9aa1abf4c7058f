"""Messages of a WebSocket: exactly these forms are read, and errors in others are one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.serve.channels import channel_messages as messages

OPEN: dict[str, Any] = {"open": 1, "call": "exec", "session": "work", "args": {"command": "true"}}


def test_a_whole_number_can_have_a_point() -> None:
    read = messages.parse(json.dumps(OPEN | {"open": 2.0, "patience": 3}))
    assert isinstance(read, messages.OpenMessage)
    assert (read.open, read.patience, read.args) == (2, 3, {"command": "true"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"open": ' + "9" * 5000 + "}", "not JSON"),
        ("[]", "does not have any of"),
        ("{}", "does not have any of"),
        (json.dumps(OPEN | {"open": True}), "open: "),
        (json.dumps(OPEN | {"open": "1"}), "open: "),
        (json.dumps(OPEN | {"open": 1.5}), "open: "),
        (json.dumps(OPEN | {"open": 10**300}), "open: "),
        (json.dumps(OPEN | {"patience": float("nan")}), "patience: "),
        (json.dumps(OPEN | {"patience": float("inf")}), "patience: "),
        (json.dumps(OPEN | {"session": "\ud800"}), "session: "),
        (json.dumps(OPEN | {"session": "work\n"}), "session: "),
        (json.dumps(OPEN | {"call": "\udfff"}), "call: "),
        (json.dumps(OPEN | {"args": []}), "args: "),
        (json.dumps(OPEN | {"\ud800": 1}), ": "),
        ('{"channel": 1, "type": "\\ud800"}', "type: "),
        ('{"channel": 1, "resize": [40]}', "resize: "),
        ('{"channel": 1, "resize": [40, 120.5]}', "resize.1: "),
    ],
)
def test_malformed_messages_are_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot read the message") as refused:
        messages.parse(text)
    assert why in str(refused.value)
    assert messages.written(None, {"error": str(refused.value)}).isprintable()
