"""Both forms of Jupyter's messages on WebSockets: they come back whole, and nothing else passes."""

from __future__ import annotations

import json
import random
import struct
from contextlib import suppress

import pytest

from holdfast.runtime.guest.wire import kernel_messages
from holdfast.runtime.guest.wire.kernel_messages import CHANNELS, MOST_PARTS, MessageMalformed
from holdfast.runtime.jupyter import front_end_socket

HEADER = {"msg_id": "a", "msg_type": "execute_request", "session": "s"}
TEXTS = ("", "a", "é", "\u2028", "\x00", "\U0001f600", '"\\', "x" * 3000)


def drawn(rng: random.Random) -> tuple[str, list[bytes]]:
    """Return a channel and the parts of a message."""
    content = {rng.choice(TEXTS): rng.choice([None, True, 1.5, [1, {"a": []}], *TEXTS]) for _ in range(3)}
    header = {**HEADER, "msg_id": rng.choice(TEXTS[1:])}
    parts = [json.dumps(each).encode() for each in (header, rng.choice([{}, header]), {}, content)]
    return rng.choice(CHANNELS), [
        *parts,
        *(rng.randbytes(rng.choice([0, 1, 500])) for _ in range(rng.randrange(4))),
    ]


def same(one: list[bytes], other: list[bytes]) -> bool:
    return [*map(json.loads, one[:4]), *one[4:]] == [*map(json.loads, other[:4]), *other[4:]]


@pytest.mark.parametrize("seed", range(50))
def test_messages_come_back_whole_in_both_forms(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        channel, parts = drawn(rng)
        packed = kernel_messages.pack(channel, parts)
        assert kernel_messages.unpack(packed) == (channel, parts)
        found_channel, found = kernel_messages.unpack(
            front_end_socket.legacy_read(front_end_socket.legacy_shown(channel, parts))
        )
        assert found_channel == channel
        assert same(found, parts)


def test_the_binary_form_is_that_of_jupyter_server() -> None:
    """The bytes as `serialize_msg_to_ws_v1` of jupyter_server 2.21 writes them."""
    numbers = (6, 56, 61, 63, 65, 67, 69)
    expected = b"".join(each.to_bytes(8, "little") for each in numbers) + b"shell" + b"{}" * 4
    assert kernel_messages.pack("shell", [b"{}"] * 4) == expected


def test_the_text_serves_older_clients() -> None:
    parts = [json.dumps(each).encode() for each in (HEADER, {}, {}, {"code": "1"})]
    text = front_end_socket.legacy_shown("shell", parts)
    assert isinstance(text, str)
    assert json.loads(text) == {
        "msg_id": "a",
        "msg_type": "execute_request",
        "header": HEADER,
        "parent_header": {},
        "metadata": {},
        "content": {"code": "1"},
        "channel": "shell",
        "buffers": [],
    }


@pytest.mark.parametrize("seed", range(50))
def test_altered_bytes_are_a_message_or_malformed(seed: int) -> None:
    """Numbers and lengths of any size have only these outcomes, and take no memory."""
    rng = random.Random(seed)
    channel, parts = drawn(rng)
    forms = (
        (kernel_messages.pack(channel, parts), kernel_messages.unpack),
        (front_end_socket.legacy_shown(channel, [*parts, b"buffer"]), front_end_socket.legacy_read),
    )
    for data, read in forms:
        assert isinstance(data, bytes)
        for _ in range(50):
            altered = bytearray(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
            for _ in range(rng.randrange(1, 4)):
                if altered:
                    altered[rng.randrange(min(len(altered), rng.choice([16, 10_000])))] = rng.randrange(256)
            with suppress(MessageMalformed):
                read(bytes(altered))


@pytest.mark.parametrize(
    "data",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"header": []}',
        '{"header": {"msg_id": 1, "msg_type": "x"}}',
        '{"header": {"msg_id": "a", "msg_type": "x"}, "channel": "iopub2"}',
        '{"header": {"msg_id": "a", "msg_type": "x"}, "channel": []}',
        b"",
        struct.pack(">I", 2**32 - 1),
        struct.pack(">II", 1, 2**32 - 1),
        struct.pack(">III", 2, 12, 4),
    ],
)
def test_invalid_messages_of_a_client_are_malformed(data: str | bytes) -> None:
    with pytest.raises(MessageMalformed):
        front_end_socket.legacy_read(data)


@pytest.mark.parametrize("part", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("place", range(4))
def test_invalid_messages_of_a_kernel_are_malformed(part: bytes, place: int) -> None:
    parts = [json.dumps(HEADER).encode(), b"{}", b"{}", b"{}"]
    parts[place] = part
    with pytest.raises(MessageMalformed):
        front_end_socket.legacy_shown("iopub", parts)


def test_the_number_of_buffers_has_a_limit() -> None:
    parts = [json.dumps(HEADER).encode(), b"{}", b"{}", b"{}", *[b""] * MOST_PARTS]
    with pytest.raises(MessageMalformed):
        kernel_messages.unpack(kernel_messages.pack("shell", parts))
