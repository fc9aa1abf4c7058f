"""Terminals that are narrow, have no color, or lack characters get text, never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.runtime.cli import command_line, printing, terminal_text
from holdfast.runtime.cli.verb_table import VERBS


@contextlib.contextmanager
def latin(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have both streams lack most characters; at the end the list has what they were given."""
    streams = [io.TextIOWrapper(io.BytesIO(), "latin-1", write_through=True) for _ in range(2)]
    shown: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        terminal_text.never_fail()
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
    """What Latin-1 has stays as it is, symbols become similar ones, and the rest question marks."""
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
    """The command itself prepares its streams, and a pipe that closes is no error worth a word."""
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
