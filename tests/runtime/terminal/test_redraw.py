from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from holdfast.runtime.attachment.screen_state import shown
from holdfast.runtime.terminal.emulator import MODES, Emulator
from holdfast.runtime.terminal.redraw import redraw


def terminal(output: bytes, rows: int = 6, cols: int = 20) -> Emulator:
    made = Emulator(rows, cols)
    made.feed_bytes(output)
    return made


def state(of: Emulator) -> dict[str, Any]:
    """Return all state that decides the picture and the effect of the next bytes."""
    return {
        "screen": replace(shown(of), title=""),
        "cells": [of.cells(row) for row in range(of.lines)],
        "pen": of.cursor.attrs,
        "place": (of.cursor.y, of.cursor.x),
        "hidden": of.cursor.hidden,
        "alternate": of.alternate,
        "margins": of.margins,
        "modes": [of.private(mode) for mode in MODES if mode != 25],
        "insert": 4 in of.mode,
        "keypad": of.keypad,
    }


CASES = {
    "prompt": b"$ ls\r\na  b\r\n$ ",
    "colours": b"\x1b[1;31mred\x1b[0m \x1b[48;5;200mpink\x1b[0;38;2;1;2;3mrgb\x1b[4;9;7mx\x1b[105m y",
    "coloured blanks": b"\x1b[44m\x1b[2J\x1b[Hon blue\x1b[0m",
    "wide": "日本語 e\u0301 한".encode(),
    "wide at the edge": "\x1b[1;20H日".encode(),
    "half a wide character": "\x1b[1;1H日本\x1b[1;1Hx\x1b[1;4Hy".encode(),
    "emoji with a joiner": "a👩\u200d💻b\ufe0fc".encode(),
    "combining on wide": "日\u0301x".encode(),
    "waiting to wrap": b"x" * 20,
    "second screen": b"$ vi\r\n\x1b[31m\x1b[?1049h\x1b[22;0;0t\x1b[2J\x1b[3;3Hinside\x1b[?25l",
    "scroll region": b"\x1b[2;4r\x1b[3;1Hinner\n\n",
    "origin": b"\x1b[2;4r\x1b[?6h\x1b[2;2Ho",
    "modes": b"\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[4h",
    "no wrap": b"\x1b[?7l" + b"y" * 30,
    "strings for the terminal": b"a\x1bP+q436f\x1b\\b\x1b[>4;2mc\x1b[!pd\x1b[4:3me\x1b[38:2::9:8:7mf\x1b(0g",
    "title": b"\x1b]0;some title\x07x",
}


@pytest.mark.parametrize("name", CASES)
def test_a_redraw_gives_the_same_terminal(name: str) -> None:
    """Cells with their looks, the cursor, the modes and the scroll region are as they were."""
    before = terminal(CASES[name])

    after = terminal(redraw(before))

    assert state(after) == state(before)


@pytest.mark.parametrize("name", CASES)
def test_a_redraw_leaves_nothing_of_the_old_content(name: str) -> None:
    """Whatever the terminal showed and did before, it is the same afterwards."""
    for other in CASES.values():
        after = terminal(other)
        after.feed_bytes(b"\x1b\\" + redraw(terminal(CASES[name])))

        found, wanted = state(after), state(terminal(CASES[name]))
        found.pop("screen"), wanted.pop("screen")
        assert found == wanted


def test_a_redraw_leaves_the_title_alone() -> None:
    """The title of the terminal that is painted on is its user's."""
    assert shown(terminal(redraw(terminal(CASES["title"])))).title == ""


def test_after_a_redraw_the_program_continues() -> None:
    """Leaving the second screen shows the first one again, with its cursor."""
    rest = b"\x1b[?1049lafter"
    before = terminal(CASES["second screen"])
    after = terminal(redraw(before))
    for one in (before, after):
        one.feed_bytes(rest)

    assert state(after) == state(before)
    assert shown(after).text == "$ vi\nafter"


def test_sequences_for_the_terminal_are_not_text() -> None:
    """Queries, key modes and styles with colons are neither shown nor taken for other sequences."""
    made = terminal(CASES["strings for the terminal"])

    assert shown(made).text == "abcdefg"
    assert not made.cells(0)[2].underscore
    assert made.cells(0)[4].underscore


def test_programs_scroll_repeat_and_tab_back() -> None:
    """Terminfo's capabilities for xterm work: SU, SD, REP, CBT, saved cursors."""
    assert shown(terminal(b"1\r\n2\r\n3\x1b[S")).text == "2\n3"
    assert shown(terminal(b"1\r\n2\r\n3\x1b[2T")).text == "\n\n1\n2\n3"
    assert shown(terminal(b"=\x1b[4b!")).text == "=====!"
    assert shown(terminal(b"\t\tx\x1b[2Zy")).text == "        y       x"
    assert shown(terminal(b"ab\x1b[scd\x1b[uX")).text == "abXd"


def test_a_cropped_redraw_stays_within_the_smaller_terminal() -> None:
    """Whatever does not fit is left out, also half of a wide character; the row of the cursor is shown."""
    before = terminal("first\r\n12345日本\r\nthird".encode())

    after = terminal(redraw(before, rows=2, cols=6), rows=2, cols=6)

    assert shown(after).text == "12345\nthird"
    assert shown(after).cursor == (1, 5)


def test_anything_survives_a_redraw() -> None:
    """Also random output of real and broken sequences."""
    rng = random.Random(11)
    pool = [
        *(
            b"\x1b[" + tail
            for tail in b"?1049h ?1049l 2J H 3;9H 31;44m 0m 7m 2;5r r ?6h ?6l L M 4P 3@ K".split()
        ),
        *(b"\x1b[" + tail for tail in (b"1J", b"?25l", b"?25h", b"99;99r", b"S", b"T", b"")),
        *(b"\x1b" + tail for tail in (b"M", b"7", b"8", b"c")),
        *("é日 e\u0301 text ".encode(), b"\r\n", b"\n", b"\xff", b"0" * 25),
    ]
    for _ in range(300):
        before = terminal(b"".join(rng.choice(pool) for _ in range(60)) + b"\x1b\\")

        assert state(terminal(redraw(before))) == state(before)
