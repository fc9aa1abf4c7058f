from __future__ import annotations

import os
import pty
import random
import re
import tracemalloc
import tty
from collections.abc import Iterator
from pathlib import Path
from unicodedata import bidirectional

import pytest
from tests.hostile_output import MODES, cases

from holdfast.runtime.cli import printing
from holdfast.runtime.terminal.allowed_controls import DEVICE, READY, VERSION, Use, answer
from holdfast.runtime.terminal.safe_output import RESET, SafeOutput
from holdfast.runtime.terminal.vt_parser import Control, Escape, Function, Parser, Sequence, Text

HOSTILE = cases()
CHANGING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
"""The classes of characters that embed, override or isolate (Unicode Standard Annex 9)."""

# All that may come out, defined a second time and independently: nothing that a terminal answers, keeps
# or gives away is in this language, and every sequence in it is whole.
_PIECES = (
    r"[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]",  # text
    r"[\x07-\x0f]",  # BEL, BS, HT, LF, VT, FF, CR, SO, SI
    r"\x1b[78DEHM]|\x1b[()][0B]",
    r"\x1b\[[0-9]{0,4}[@-IKLMPSTXZ`abdeg]|\x1b\[[0-2]?J|\x1b\[[su]",
    r"\x1b\[[0-9]{0,4};[0-9]{0,4}[Hfr]|\x1b\[[0-9]{0,4}[fr]|\x1b\[[0-9;:]*m|\x1b\[4[hl]|\x1b\[!p",
    r"\x1b\[\?[0-2]?[JK]|\x1b\[\?5W",
)
_SHOWN = "0*(?:5|6|7|12|25|47|1047|1048|1049)"
_TYPED = "0*(?:1|9|1000|1002|1003|1004|1005|1006|1015|2004)"
_FULL_RESET = re.escape(RESET.decode() + "\x1b(B\x1b)B\x0f\x1b[?5l\x1b[H\x1b[2J")


def _language(use: Use) -> re.Pattern[str]:
    modes = _SHOWN if use is Use.SHOW else f"(?:{_SHOWN}|{_TYPED})"
    pieces = [*_PIECES, rf"\x1b\[\?{modes}(?:;{modes})*[hl]", _FULL_RESET]
    if use is Use.ATTACH:
        pieces += [r"\x1b[=>]", r"\x1b\[[0-6]? q"]
    return re.compile("(?:" + "|".join(f"(?:{piece})" for piece in reversed(pieces)) + ")*")


LANGUAGE = {use: _language(use) for use in Use}


def through(data: bytes, use: Use = Use.SHOW, size: int = 1 << 20) -> bytes:
    safe = SafeOutput(use)
    return b"".join(safe.feed(data[at : at + size]) for at in range(0, len(data), size))


def test_there_are_many_attacks() -> None:
    """The corpus is not smaller than it says."""
    assert len(set(HOSTILE.values())) >= 500


@pytest.mark.parametrize("use", Use)
def test_only_known_good_functions_come_out(use: Use) -> None:
    """Of every attack, alone, after text, and after an unfinished sequence."""
    for name, data in HOSTILE.items():
        for before in (b"", b"text ", b"\x1b[3", b"\x1b", b"\x1b]2;x", "é".encode()[:1]):
            found = through(before + data + b" text", use).decode()
            assert LANGUAGE[use].fullmatch(found), (name, before, found)


@pytest.mark.parametrize("use", Use)
def test_where_output_is_cut_makes_no_difference(use: Use) -> None:
    """Each attack in single bytes, and cut at every position."""
    for name, data in HOSTILE.items():
        whole = b"<" + data + b"\x1b\\>"
        expected = through(whole, use)
        assert through(whole, use, 1) == expected, name
        for at in range(1, min(len(whole), 200)):
            safe = SafeOutput(use)
            assert safe.feed(whole[:at]) + safe.feed(whole[at:]) == expected, (name, at)


def test_text_around_an_attack_stays() -> None:
    """Dropping an attack removes no text with it, once the attack has ended."""
    for name, data in HOSTILE.items():
        found = through(b"before" + data + b"\x1b\\after").decode()
        assert found.startswith("before"), name
        assert found.endswith("after"), name


@pytest.mark.parametrize("use", Use)
@pytest.mark.parametrize("char", [c for c in map(chr, range(0x110000)) if bidirectional(c) in CHANGING])
def test_no_character_changes_the_direction_of_writing(use: Use, char: str) -> None:
    """Of all that Unicode has; a terminal shows what is there, in the order in which it is there."""
    assert through(f"a{char}\x1b[31mb{char}c".encode(), use) == b"a\x1b[31mbc"


def test_joiners_and_languages_stay() -> None:
    """Emoji of several parts, Persian, Hebrew, and hyphens that show at the end of a line only."""
    text = "\U0001f469\u200d\U0001f4bb می\u200cخواهم שלום co\u00adop".encode()
    assert through(text) == text


def test_attacks_can_follow_each_other() -> None:
    """All of them in one stream, in pieces of any size: nothing adds up to an allowed function."""
    everything = b"".join(HOSTILE.values())
    for size in (1, 7, 64, 4096, len(everything)):
        assert LANGUAGE[Use.SHOW].fullmatch(through(everything, size=size).decode())


def test_each_mode_is_judged_alone() -> None:
    """An allowed one does not bring in others, nor do others remove it."""
    data = b"\x1b[?25;1000;7h\x1b[?1000;2004;1h\x1b[?1049;31337l"

    assert through(data) == b"\x1b[?25;7h\x1b[?1049l"
    assert through(data, Use.ATTACH) == b"\x1b[?25;1000;7h\x1b[?1000;2004;1h\x1b[?1049l"


def test_drawing_functions_pass_unchanged() -> None:
    """Cursor, colors, erasing, regions, second screen, tabs, characters for lines, insert and delete."""
    good = [
        *(f"\x1b[{n}{final}" for n in ("", "0", "1", "24") for final in "@ABCDEFGIKLMPSTXZ`abde"),
        *(f"\x1b[{n}J" for n in ("", "0", "1", "2")),
        *("\x1b[H", "\x1b[5;10H", "\x1b[;H", "\x1b[3;f", "\x1b[2;20r", "\x1b[r", "\x1b[s", "\x1b[u"),
        *("\x1b[m", "\x1b[0;1;38;5;196;48;2;1;2;3m", "\x1b[4:3m", "\x1b[38:2::1:2:3m", "\x1b[58;5;1m"),
        *("\x1b[?25l", "\x1b[?12;25h", "\x1b[?1049h", "\x1b[?47l", "\x1b[?7l", "\x1b[?5h", "\x1b[4h"),
        *("\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bE", "\x1bH", "\x1b[3g", "\x1b[g", "\x1b(0", "\x1b)B"),
        *(
            "\x0e",
            "\x0f",
            "\a",
            "\b",
            "\t",
            "\r\n",
            "\v",
            "\f",
            "\x1b[!p",
            "\x1b[?J",
            "text é 日本 👩\u200d💻",
        ),
    ]
    for function in good:
        assert through(function.encode()).decode() == function
        assert through(function.encode(), Use.ATTACH).decode() == function
    for mode in (1, 1000, 1002, 1003, 1004, 1006, 2004):
        for final in "hl":
            function = f"\x1b[?{mode}{final}"
            assert through(function.encode(), Use.ATTACH).decode() == function
            assert through(function.encode()) == b""


def test_a_control_character_inside_is_executed_at_once() -> None:
    """As in a terminal: the sequence is whole after it."""
    assert through(b"\x1b[3\n1m") == b"\n\x1b[31m"
    assert through(b"\x1b[3\x181m") == b"1m"
    assert through(b"\x1b[3\x1b[1m") == b"\x1b[1m"


def test_control_functions_of_8_bits_become_7_bit_ones() -> None:
    """C1 controls in UTF-8 have their effect; bytes that are not UTF-8 are shown as such and do nothing."""
    assert through("\u009b31m\u0084\u0085\u0088\u008d".encode()) == b"\x1b[31m\x1bD\x1bE\x1bH\x1bM"
    assert through(b"\x9b31m").decode() == "\ufffd31m"
    assert through("Û”".encode()).decode() == "Û”"


def test_a_terminal_that_is_not_utf8_gets_its_own_encoding() -> None:
    """Bytes of UTF-8 would be C1 controls there: `Û` is C3 9B."""
    safe = SafeOutput(encoding="latin-1")
    found = safe.feed("Û日\x1b[31m".encode())

    assert found == b"\xdb?\x1b[31m"


def test_a_string_without_end_costs_no_memory() -> None:
    """Nothing of it is kept."""
    safe = SafeOutput()
    safe.feed(b"\x1b]52;c;")
    tracemalloc.start()
    try:
        for _ in range(500):
            assert safe.feed(b"A" * 65536) == b""
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert current < 200_000
    assert safe.feed(b"\x07shown") == b"shown"


def test_a_sequence_without_end_costs_no_memory() -> None:
    """It is dropped up to its end, however long."""
    for long in (b"\x1b[" + b"1;" * 50_000, b"\x1b" + b"(" * 100_000):
        safe = SafeOutput()
        assert safe.feed(long) == b""
        assert safe.feed(b"Bshown") == b"shown"


@pytest.mark.parametrize(
    ("data", "undone"),
    [
        (b"\x1b[?25l", b"\x1b[?25h"),
        (b"\x1b[?25l\x1b[?25h", b""),
        (b"\x1b[31mred", b"\x1b[0m"),
        (b"\x1b[?1049h\x1b[?7l", b"\x1b[?1049l\x1b[?7h"),
        (b"\x1b[?1049h\x1b[?1049l", b""),
        (b"\x1b(0lqk", b"\x1b(B\x1b)B\x0f"),
        (b"\x1b[2;5r", b"\x1b7\x1b[r\x1b8"),
        (b"\x1b[4h", b"\x1b[4l"),
        (b"plain\n", b""),
    ],
)
def test_modes_are_switched_off_at_the_end(data: bytes, undone: bytes) -> None:
    """A shell finds the terminal as it expects it; modes that do not need undoing are left alone."""
    safe = SafeOutput()
    safe.feed(data)

    assert safe.end() == undone
    assert safe.end() == b""


def test_a_full_reset_keeps_the_scrollback() -> None:
    """It clears the screen by other means."""
    found = through(b"\x1bc")

    assert b"\x1bc" not in found
    assert found.endswith(b"\x1b[H\x1b[2J")


def functions(data: bytes) -> Iterator[Function]:
    return Parser().feed(data)


def test_the_parser_recognizes_all_functions() -> None:
    """Text, controls, escapes with intermediates, sequences with all their parts."""
    assert list(functions(b"a\n\x1b(B\x1b[?1;2 q")) == [
        Text("a"),
        Control("\n"),
        Escape("(", "B"),
        Sequence("?", "1;2", " ", "q"),
    ]


ASKED = {
    b"\x1b[c": DEVICE,
    b"\x1b[0c": DEVICE,
    b"\x1b[>c": VERSION,
    b"\x1b[5n": READY,
    b"\x1b[6n": b"\x1b[4;8R",
}


def test_answers_to_programs_reveal_nothing() -> None:
    """Kind and place of the cursor are answered, whatever the terminal is; nothing else is."""
    for data, expected in ASKED.items():
        assert [answer(function, lambda: (3, 7)) for function in functions(data)] == [expected]
    for name, data in HOSTILE.items():
        for function in functions(data):
            assert answer(function, lambda: (3, 7)) in {b"", *ASKED.values()}, name
    for data in (b"\x1b[21t", b"\x1b[?6n", b"\x1b[=c", b"\x1b[>q", b"\x1b[1;1;1;1;5;5*y", b"\x1b[?25$p"):
        assert [answer(function, lambda: (3, 7)) for function in functions(data)] == [b""]


def test_only_a_writer_gets_modes_that_type() -> None:
    """Output that is merely shown switches on nothing that makes a terminal send something."""
    for body in MODES.values():
        found = through(b"\x1b[" + body.encode()).decode()
        assert not re.search(r"\x1b\[\?[0-9;]*(?:100[0-9]|2004)", found)


def test_random_output_is_made_safe_however_it_is_cut() -> None:
    """Streams of sequences, their fragments and odd bytes: always in the language, always the same."""
    rng = random.Random(7)
    fragments = [
        *(bytes([n]) for n in (*range(32), 0x7F, 0x9B, 0x9D, 0xC2, 0xC3, 0xE2, 0xF0, 0xFF)),
        *(
            b"\x1b[",
            b"\x1b]",
            b"\x1bP",
            b"\x1b\\",
            b"\x1b",
            b"\xc2\x9b",
            b"\xc2\x9d",
            b"?",
            b">",
            b";",
            b":",
            b"$",
        ),
        *(
            b"6n",
            b"c",
            b"m",
            b"31m",
            b"25;1000h",
            b"1049l",
            b"52;c;eA==",
            b"12",
            b"99999",
            b"H",
            b" q",
            b"(0",
            b"t",
        ),
        *("é日\u202e".encode(), b"text"),
    ]
    for _ in range(300):
        data = b"".join(rng.choices(fragments, k=60))
        for use in Use:
            whole = through(data, use)
            assert LANGUAGE[use].fullmatch(whole.decode()), data
            assert through(data, use, rng.randrange(1, 7)) == whole, data


def test_a_terminal_gets_safe_output_and_a_program_every_byte(tmp_path: Path) -> None:
    """Of the same command: unfiltered for pipes and files, and on request; reset at the end."""
    data = b"\x1b]52;c;eA==\x07\xff\x1b[31mred\x1b[6n"
    with (tmp_path / "file").open("w") as file, printing.guest_output(file=file) as show:
        show(data)
    assert (tmp_path / "file").read_bytes() == data

    for raw, expected in ((False, "first \ufffd\x1b[31mred\x1b[0m".encode()), (True, b"first " + data)):
        master, slave = pty.openpty()
        tty.setraw(slave)
        with open(slave, "w", encoding="utf-8") as file, printing.guest_output(raw=raw, file=file) as show:  # noqa: PTH123
            show(b"first ")
            show(data)
            received = b""
        while len(received) < len(expected):
            received += os.read(master, 1000)
        os.close(master)
        assert received == expected
