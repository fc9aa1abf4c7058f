from __future__ import annotations

import json
import sys
import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.base import printable_json
from holdfast.errors import SessionNotFound
from holdfast.runtime.cli import printing
from holdfast.runtime.history.recording.cast import CastEvent, lines
from holdfast.runtime.journal import notebook
from holdfast.runtime.store.entry import Entry

UNSEEN = "\x7f\x85\x90\x9b\x9d\u061c\u200b\u200e\u200f\u2028\u202a\u202e\u2066\u2069\ufeff\U000e0041\ud800"


def test_no_character_that_is_not_seen_is_left() -> None:
    """Of all of Unicode: controls, formats, surrogates, line separators; the values are the same."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            continue
        text = printable_json.dumps({"key" + char: ["a" + char]})
        assert text.isascii(), hex(code)
        assert "\x7f" not in text
        assert json.loads(text) == {"key" + char: ["a" + char]}


def test_text_that_is_seen_stays_readable() -> None:
    """Letters of any script, symbols and emoji are not escaped."""
    seen = {"text": 'é 日本 שלום مرحبا ☃ 👩 "quoted" \\ \n\t'}

    assert printable_json.dumps(seen) == json.dumps(seen, ensure_ascii=False)


def plain(text: str) -> bool:
    return not any(char in text for char in UNSEEN)


def test_values_for_programs_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Results and errors of the command line."""
    printing.emit([{"said": UNSEEN}])
    printing.fail(SessionNotFound("cannot find x" + UNSEEN, hint=UNSEEN), as_json=True)
    shown = capsys.readouterr()

    assert plain(shown.out)
    assert plain(shown.err)
    assert json.loads(shown.out) == [{"said": UNSEEN}]


def test_files_for_other_programs_can_be_shown() -> None:
    """Casts and notebooks."""
    cast = "".join(lines([CastEvent(1.0, "o", UNSEEN, 5)], 24, 80, 0.0, UNSEEN))
    details = {"id": "1", "kernel": "main", "code": UNSEEN[:-1]}
    entry: Any = Entry(
        session_id="a" * 12,
        session="s",
        seq=1,
        at=datetime.now(UTC).timestamp(),
        kind="cell_started",
        actor=None,
        host=False,
        current=True,
        details=details,
    )
    book = notebook.write(notebook.notebook([entry], "main", "s"))

    assert plain(cast)
    assert plain(book)
    assert "".join(json.loads(book)["cells"][0]["source"]) == UNSEEN[:-1]
