from __future__ import annotations

import itertools
import os
import pty
import random
from typing import Any

import pytest

from holdfast.runtime.terminal.uncook import PIECE, Tail, Uncook


def _uncook(pieces: Any) -> Any:
    uncook = Uncook()
    return b"".join(uncook.feed(piece) for piece in pieces) + uncook.end()


@pytest.mark.parametrize("cut", range(1, 6))
def test_uncooking_is_exact_however_the_stream_is_cut(cut: Any) -> None:
    """Every short text of CR, LF and others comes back from its cooked form."""
    for text in itertools.chain.from_iterable(itertools.product(b"\r\nx", repeat=n) for n in range(6)):
        original = bytes(text)
        cooked = original.replace(b"\n", b"\r\n")
        pieces = [cooked[i : i + cut] for i in range(0, len(cooked), cut)]

        assert original == _uncook(pieces)


def test_uncooking_inverts_a_real_terminal() -> None:
    """The effect of the kernel's line discipline on random bytes is undone."""
    data = bytes(random.Random(7).choices(b"\r\n\0a\xff", k=2000))
    master, slave = pty.openpty()
    try:
        os.write(slave, data)
        cooked = b""
        while len(cooked) < len(data) + data.count(b"\n"):
            cooked += os.read(master, 65536)
    finally:
        os.close(slave)
        os.close(master)

    assert data == _uncook([cooked])


def test_the_tail_keeps_the_end_and_counts_the_rest() -> None:
    """Of a long stream the last bytes are kept, and the number of the others."""
    tail = Tail(10)
    for number in range(100):
        tail.feed(b"%02d" % number)

    assert tail.value() == b"9596979899"
    assert tail.dropped == 190


@pytest.mark.parametrize("size", [1, 999, 70_000])
def test_a_long_tail_is_exact_however_it_is_cut(size: int) -> None:
    """The kept part is the end of the stream, and memory never holds more than the limit."""
    data = random.Random(size).randbytes(400_000)
    tail = Tail(100_000)
    for at in range(0, len(data), size):
        tail.feed(data[at : at + size])
        assert sum(map(len, tail._pieces)) + len(tail._newest) <= 100_000 + max(PIECE, size) * 2

    assert tail.value() == data[-100_000:] == tail.value()
    assert tail.dropped == 300_000
    tail.feed(b"more")
    assert tail.value() == data[-99_996:] + b"more"
