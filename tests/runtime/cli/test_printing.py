"""Output for people and programs: tables, long texts as JSON, terminals that lack color or characters."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.runtime.cli import command_line, printing
from holdfast.runtime.cli.printing import PIECE, pieces
from holdfast.runtime.cli.verb_table import VERBS


def test_no_invisible_character_is_left() -> None:
    """Characters that would turn or hide text on a terminal are escaped, in the long text and next to it."""
    hidden = "\u202e\x9b31m\u200b"
    written = "".join(pieces({"name": hidden}, "output", hidden.encode()))

    assert written.isascii()
    assert json.loads(written) == {"name": hidden, "output": hidden}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'"\\\n\x00\x1b' * 1000,
        "ä€😀".encode() * (PIECE // 3),  # characters across the ends of pieces
        random.Random(1).randbytes(2 * PIECE + 1),
        b"x" * PIECE + "€".encode()[:2],
    ],
    ids=["empty", "escapes", "wide", "binary", "cut"],
)
def test_pieces_are_one_object(data: bytes) -> None:
    """Text as text; bytes that are not text also as they are."""
    written = "".join(pieces({"id": "a", "n": [1]}, "output", data))
    found = json.loads(written)

    assert written.endswith("}\n")
    assert (found["id"], found["n"]) == ("a", [1])
    assert found["output"] == data.decode("utf-8", "replace")
    whole = base64.b64decode(found["output_base64"]) if "output_base64" in found else found["output"].encode()
    assert whole == data
    assert max(map(len, pieces({}, "output", data))) < 8 * PIECE


def test_a_table_is_aligned_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("日本", "wide"), ("e\u0301", "combined"), ("\x1b[31mred", "x"), ("", "")]
    printing.table(("NAME", "WHY"), rows)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NAME     WHY"
    assert lines[1] == "日本     wide"
    assert lines[2] == "e\u0301        combined"
    assert "\x1b" not in lines[3]


@contextlib.contextmanager
def latin(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have both streams lack most characters; at the end the list has what they were given."""
    streams = [io.TextIOWrapper(io.BytesIO(), "latin-1", write_through=True) for _ in range(2)]
    shown: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        printing.never_fail()
        yield shown
    for stream in streams:
        stream.seek(0)
        shown.append(stream.read())


@pytest.mark.parametrize("columns", ["40", "80"])
def test_every_help_is_written_in_latin_1(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """In terminals of 40 columns as well; `NAME-2, …` becomes `NAME-2, ...`."""
    monkeypatch.setenv("COLUMNS", columns)
    with latin(monkeypatch) as shown:
        for words in (["--help"], ["help", "all"], *([verb, "--help"] for verb in VERBS)):
            assert command_line.call(words) == 0
    assert shown[0].count("Usage: holdfast") == len(VERBS) + 1
    assert "NAME-1, NAME-2, ..." in " ".join(shown[0].split())


def test_tables_trees_and_errors_are_approximated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters of Latin-1 stay as they are, symbols become similar ones, and the rest question marks."""
    with latin(monkeypatch) as shown:
        printing.table(("NAME", "WHAT"), [("ü", "│ ● … 日本 🙂")])
        printing.note("→ ü")
        printing.report("code", "cannot: …", "日", as_json=False)
    assert "ü     | * ... ?? ?" in shown[0]
    assert "holdfast: -> ü" in shown[1]
    assert "holdfast: cannot: ...\n  hint: ?" in shown[1]


def test_json_keeps_every_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """Escaped, astral ones as two surrogates (RFC 8259, section 7), also piece by piece."""
    value = {"text": "ü … 日本 🙂"}
    with latin(monkeypatch) as shown:
        printing.emit(value)
        printing.emit_long({}, "text", value["text"].encode())
    assert shown[0].isascii()
    assert [json.loads(line) for line in shown[0].splitlines()] == [value, value]


def test_an_ordinary_terminal_gets_the_characters_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    printing.emit({"text": "…"})
    assert capsys.readouterr().out == '{"text": "…"}\n'


def test_a_process_in_such_a_terminal_ends_as_usual() -> None:
    """The command itself prepares its streams, and a closed pipe is not an error worth a word."""
    for line in ("holdfast fork --help", "holdfast help all | head -1", "holdfast nosuch…"):
        done = subprocess.run(
            ["bash", "-c", f'holdfast() {{ {sys.executable} -m holdfast "$@"; }}; {line}'],
            env=os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert b"Traceback" not in done.stderr
        assert done.returncode in (0, 2)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_color_is_left_out_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """By the variable that programs agree on, or because the terminal has none."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert printing.has_color(Terminal())
    monkeypatch.setenv(name, value)
    assert not printing.has_color(Terminal())


@pytest.mark.parametrize(
    ("image", "snapshot", "shown"),
    [
        ("holdfast/session:7cb0e0bfee2c", None, "holdfast/session:7cb0e0bfee2c"),
        ("sha256:4f6de330515800", "a8569ba70742", "snapshot a8569ba70742"),
        ("sha256:4f6de330515800", None, "4f6de3305158"),
        ("debian:trixie", "a8569ba70742", "debian:trixie"),
    ],
    ids=["ours", "copy", "no-name", "files-of-an-image"],
)
def test_the_origin_of_a_session_is_an_image_or_a_snapshot(
    image: str, snapshot: str | None, shown: str
) -> None:
    """The name of a copy's image means nothing to a person; its snapshot can be restored again."""
    assert printing.origin(image, snapshot) == shown


@pytest.mark.parametrize(
    ("widths", "room", "expected"),
    [
        ([11, 12, 7, 10, 29], 36, [7, 7, 7, 7, 7]),
        ([4, 12, 7], 20, [4, 9, 7]),
        ([4, 5], 20, [4, 5]),
        ([9, 9, 9], 2, [1, 1, 1]),
    ],
    ids=["all-cut", "widest-cut", "fits", "no-room"],
)
def test_no_column_of_a_narrow_table_disappears(widths: list[int], room: int, expected: list[int]) -> None:
    """The widest are cut first, to equal widths."""
    assert printing.shares(widths, room) == expected
