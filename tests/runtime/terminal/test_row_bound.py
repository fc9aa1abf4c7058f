"""Output that is kept above the last row of a terminal: the same picture, one row lower down nothing."""

from __future__ import annotations

import random

import pytest

from holdfast.runtime.attachment.screen_state import shown
from holdfast.runtime.terminal.allowed_controls import Use
from holdfast.runtime.terminal.emulator import Emulator
from holdfast.runtime.terminal.row_bound import RowBound
from holdfast.runtime.terminal.safe_output import SafeOutput

ROWS, COLS = 6, 20
MARK = b"STATUS"


class Bounded:
    """A terminal of one row more, which shows output that is kept above it."""

    def __init__(self) -> None:
        self.bound = RowBound(ROWS)
        self.terminal = Emulator(ROWS + 1, COLS)
        self._safe = SafeOutput(Use.ATTACH, bound=self.bound)
        self.terminal.feed_bytes(self.bound.region.encode() + b"\x1b[H")
        self._paint()

    def feed(self, data: bytes) -> None:
        """Show output, and paint the row again if the output could have erased it, as a mirror does."""
        self.terminal.feed_bytes(self._safe.feed(data))
        if self.bound.erased:
            self.bound.erased = False
            self._paint()

    def _paint(self) -> None:
        self.terminal.feed_bytes(b"\x1b7\x1b[?6l\x1b[%d;1H%s\x1b8" % (ROWS + 1, MARK))

    @property
    def rows(self) -> list[str]:
        return (shown(self.terminal).text.split("\n") + [""] * ROWS)[: ROWS + 1]


def plain(data: bytes) -> Emulator:
    made = Emulator(ROWS, COLS)
    made.feed_bytes(data)
    return made


@pytest.mark.parametrize(
    "data",
    {
        "more lines than rows": b"\r\n".join(b"line %d" % number for number in range(30)),
        "position below": b"\x1b[999;999Hx\x1b[99dy\x1b[7;3Hz",
        "moves down": b"\x1b[99Ba\x1b[99eb\x1b[99Ec",
        "wrap at the end": b"\x1b[6;1H" + b"w" * 50,
        "erase below": b"one\r\ntwo\x1b[1;2H\x1b[J",
        "erase all": b"one\x1b[2J\x1b[Htwo",
        "region to the end": b"\x1b[2;6r\x1b[6;1Ha\nb\nc\x1b[r\x1b[6;1Hd\ne",
        "region without an end": b"\x1b[3r\x1b[6;1Hx\n\ny",
        "origin": b"\x1b[2;6r\x1b[?6h\x1b[99;1Hlow\n\n\x1b[1;1Htop",
        "second screen": b"$ vi\x1b[?1049h\x1b[H\x1b[2J\x1b[999;1Hbottom\nmore\x1b[?1049lback",
        "full reset": b"one\r\n\x1bctwo\x1b[9;1Hlow\n",
        "soft reset": b"\x1b[2;6r\x1b[!p\x1b[6;1Hx\ny",
        "scroll and lines": b"1\r\n2\r\n3\x1b[2S\x1b[1T\x1b[1;1H\x1b[3L\x1b[2M",
    }.items(),
    ids=lambda one: one[0].replace(" ", "-"),
)
def test_a_program_shows_the_same_and_leaves_the_row_alone(data: tuple[str, bytes]) -> None:
    bounded, alone = Bounded(), plain(data[1])
    bounded.feed(data[1])
    wanted = (shown(alone).text.split("\n") + [""] * ROWS)[:ROWS]
    assert bounded.rows == [*wanted, MARK.decode()]
    assert (bounded.terminal.cursor.y, bounded.terminal.cursor.x) == (alone.cursor.y, alone.cursor.x)


def test_a_region_that_ends_above_is_reported() -> None:
    """The caller paints then: a line feed below it would reach the row."""
    bounded = Bounded()
    for data, split in (
        (b"\x1b[2;4r", True),
        (b"\x1b[5;2r", True),
        (b"\x1b[r", False),
        (b"\x1b[1;9r", False),
    ):
        bounded.feed(data)
        assert bounded.bound.split is split


def test_a_saved_place_is_reported() -> None:
    """In each of its forms: saving a second place would lose the program's."""
    for data in (b"\x1b7", b"\x1b[s", b"\x1b[?1048h"):
        bounded = Bounded()
        bounded.feed(data)
        assert bounded.bound.saved
        bounded.feed(b"\x1bc")
        assert not bounded.bound.saved


def test_any_output_leaves_the_row_alone() -> None:
    """Of real and broken sequences, in parts, as long as no region ends above."""
    rng = random.Random(5)
    pool = [
        *(
            f"\x1b[{tail}".encode()
            for tail in [
                "99;9H",
                "9d",
                "99B",
                "9e",
                "9E",
                "2J",
                "J",
                "1J",
                "K",
                "3L",
                "2M",
                "S",
                "T",
                "2;6r",
                "r",
                "1;99r",
                "9X",
                "4P",
            ]
        ),
        *(f"\x1b[?{tail}".encode() for tail in ("1049h", "1049l", "6h", "6l", "7l", "7h", "47h", "47l")),
        *(
            "é日 text ".encode(),
            b"\r\n",
            b"\n",
            b"\x1bD",
            b"\x1bM",
            b"\x1bE",
            b"\xff",
            b"0" * 25,
            b"\x1b[4h\x1b[4l",
        ),
        b"\x1bc",
    ]
    for _ in range(200):
        bounded, output = Bounded(), b"".join(rng.choice(pool) for _ in range(40))
        for start in range(0, len(output), 7):
            bounded.feed(output[start : start + 7])
        assert bounded.rows[ROWS] == MARK.decode(), output
