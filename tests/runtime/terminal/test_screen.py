from __future__ import annotations

import random

from holdfast.runtime.attachment.screen_state import render


def test_a_prompt_with_its_cursor() -> None:
    """Lines are without trailing blanks, the cursor keeps its place after them."""
    screen = render(b"hello\r\n\x1b[31mred\x1b[0m \xc3\xa9\r\n$ ", 5, 20)

    assert screen.text == "hello\nred é\n$"
    assert screen.cursor == (2, 2)


def test_the_alternate_screen_hides_the_first_one_for_a_while() -> None:
    """A full-screen program is visible while it runs, and the first screen afterwards."""
    inside = b"before\r\n$ vi\r\n\x1b[?1049h\x1b[2J\x1b[Hinside"

    assert render(inside, 5, 20).text == "inside"
    assert render(inside + b"\x1b[?1049lafter", 5, 20).text == "before\n$ vi\nafter"


def test_anything_can_be_rendered_and_nothing_escapes() -> None:
    """Random bytes and malformed sequences yield printable lines and a cursor on the screen."""
    rng = random.Random(3)
    pool = [
        b"\x1b[",
        b"\x1b]0;",
        b"?1049h",
        b"?6n",
        b"99;99r",
        b"\x1b[>c",
        b"38;5;m",
        b"\x9b",
        b"\xff",
        b"\x07",
        b"x\n",
    ]
    for _ in range(50):
        screen = render(b"".join(rng.choice(pool) for _ in range(300)), 10, 30)

        assert all(line.isprintable() for line in screen.text.split("\n"))
        assert 0 <= screen.cursor[0] < 10
        assert 0 <= screen.cursor[1] < 30
