"""What a joined terminal says and shows over a URL."""

from __future__ import annotations

import base64
import json

import pytest

from holdfast.runtime.client.attach_call import PIECE, AttachCall
from holdfast.runtime.client.channel_calls import ServerStopped

HOW = {"shell": "main", "rows": 24, "cols": 80, "take": True}


def test_long_input_is_sent_in_pieces() -> None:
    call = AttachCall("work", HOW, lambda _: None)
    messages = [json.loads(each) for each in call.typing(b"\xff" * (PIECE + 1))]
    assert [len(base64.b64decode(each["type_base64"])) for each in messages] == [PIECE, 1]
    assert call.typing(b"") == []


def test_output_is_shown_and_the_end_has_a_reason() -> None:
    shown: list[bytes] = []
    call = AttachCall("work", HOW, shown.append)
    assert json.loads(call.opening())["args"] == HOW
    call.opened()
    call.receive(json.dumps({"channel": 1, "event": "output", "output": "é", "output_base64": None}))
    call.receive(json.dumps({"channel": 1, "event": "output", "output": "?", "output_base64": "/w=="}))
    call.receive(json.dumps({"channel": 1, "result": {"reason": "detached"}}))
    assert (b"".join(shown), call.result, call.ended) == ("é".encode() + b"\xff", "detached", True)


def test_over_another_connection_it_has_the_newest_size_and_takes_nothing_away() -> None:
    call = AttachCall("work", HOW, lambda _: None)
    call.opening()
    call.opened()
    assert json.loads(call.resizing(40, 132)) == {"channel": 1, "resize": [40, 132]}
    assert json.loads(call.opening())["args"] == {**HOW, "rows": 40, "cols": 132, "take": False}


def test_a_server_that_stops_is_not_the_end() -> None:
    call = AttachCall("work", HOW, lambda _: None)
    with pytest.raises(ServerStopped):
        call.receive(json.dumps({"channel": 1, "result": {"reason": "left"}}))
    call.patience.end()
    call.receive(json.dumps({"channel": 1, "result": {"reason": "left"}}))
    assert call.result == "left"
