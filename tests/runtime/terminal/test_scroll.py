"""The final state of output on a terminal."""

from __future__ import annotations

import pytest

from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.terminal import scroll


def _plain(output: bytes, rows: int = 5, cols: int = 20) -> str:
    return scroll.plain_text(output, rows, cols)


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"", ""),
        (b"a\tb\n\n  c", "a\tb\n\n  c"),
        (b"\x1b[1;31mred\x1b[0m\n", "red\n"),
        (b"x" * 100 + b"\n", "x" * 100 + "\n"),
        (b"10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        (b"abc\b\b\x1b[K!\n", "a!\n"),
        (b"y" * 45 + b"\x1b[K\nend\r\n", "y" * 45 + "\nend\n"),
        (b"z" * 30 + b"\x1b[A\r\x1b[Kshort\n", "short\n" + "z" * 10 + "\n"),
        ("ä€\x1b[1D漢\n".encode(), "ä漢\n"),
        (b"\x1b]0;title\x07text\x1bPq#0\x1b\\\n", "text\n"),
        (b"before\n\x1b[?1049hfull\x1b[2;2Hscreen\x1b[?1049lafter\n", "before\nafter\n"),
        (b"before\n\x1b[?1049hfull screen", "before"),
        (b"one\x1b[2J\x1b[Htwo\n", "two\n"),
        (b"\x9b31m\x1b[\x00\xff\n", "\ufffd31m\ufffd\n"),
    ],
)
def test_the_final_text_of_a_terminal(output: bytes, shown: str) -> None:
    """Without colors and overdrawn text; long lines are complete, and lines that scrolled off are there."""
    assert _plain(output) == shown


def test_lines_that_scroll_off_are_kept() -> None:
    """All of them, up to a size; beyond it the end."""
    many = b"".join(b"%d\r\n" % n for n in range(1000))
    assert _plain(many) == "".join(f"{n}\n" for n in range(1000))
    huge = b"line\r\n" * 100_000
    assert _plain(huge).count("line") == scroll.DRAWN // 6


def test_a_result_uses_the_size_of_its_terminal() -> None:
    """A REPL that repaints its line has one line in the end."""
    painted = b"\r\x1b[K>>> p\r\x1b[K>>> print(1)\n\x1b[?2004l\r1\n\x1b[?2004h\r\x1b[K>>> "
    result = ExecResult(exit_code=None, output=painted, start_offset=0, end_offset=0, rows=3, cols=10)

    assert result.plain == ">>> print(1)\n1\n>>>"
