"""The stream of a move: accepted and refused input."""

from __future__ import annotations

import io

import pytest

from holdfast.errors import SessionExists
from holdfast.runtime.moving import move_wire
from holdfast.runtime.moving.move_wire import LINE, NOISE, Refused, WireBroken


def test_a_greeting_is_found_behind_a_shells_output() -> None:
    text = b"Last login: today\n" + move_wire.greeting("1.2") + b"rest"
    stream = io.BytesIO(text)
    assert move_wire.read_greeting(stream) == "1.2"
    assert stream.read() == b"rest"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "the connection ended"),
        (b"bash: holdfast: command not found\n", "instead of a greeting"),
        (b"x" * NOISE * 2, "instead of a greeting"),
        (b"\n" * NOISE * 2, "the connection ended"),
        (move_wire.GREETING + b"\n", "greets with"),
        (move_wire.GREETING + b"[]\n", "greets with"),
        (move_wire.GREETING + b"[" * 100000 + b"\n", "greets with"),
        (move_wire.GREETING + b'{"protocol": 2, "version": "9\\u001b[31m"}\n', "protocol 2, this one by 1"),
    ],
)
def test_other_greetings_are_refused(text: bytes, said: str) -> None:
    with pytest.raises(WireBroken, match=said) as refused:
        move_wire.read_greeting(io.BytesIO(text))
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"a": 1}', b"[]\n", b"7\n", b"[" * LINE + b"\n", b"{" * (LINE + 2), b"\xff\n"]
)
def test_malformed_lines_are_refused(text: bytes) -> None:
    with pytest.raises(WireBroken):
        move_wire.read_line(io.BytesIO(text))


@pytest.mark.parametrize("size", [-1, True, "7", 1.5, None, [1]])
def test_invalid_sizes_are_refused(size: object) -> None:
    with pytest.raises(WireBroken, match="size"):
        move_wire.size_of({"bytes": size})
    assert move_wire.size_of({}) == 0


def test_a_failure_arrives_as_it_was() -> None:
    """Without what a terminal would obey."""
    sent = move_wire.line(move_wire.error(SessionExists("cannot: taken\x1b[2J", hint="rename it")))
    with pytest.raises(Refused, match="cannot: taken") as refused:
        move_wire.reply(move_wire.read_line(io.BytesIO(sent)))
    assert (refused.value.code, refused.value.hint) == (SessionExists.code, "rename it")
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("fields", [{}, {"ok": 1}, {"error": None}, {"ok": True, "error": {}}])
def test_malformed_replies_are_refusals(fields: dict[str, object]) -> None:
    with pytest.raises(Refused):
        move_wire.reply(fields)
