"""The English of docstrings, comments, messages and pages: phrases that do not belong in it.

They read as a translation, and say less than the field's own term would.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
ROOT = Path(__file__).parent.parent

INSTEAD = {
    r"(?<!there )(?<!There )(?<!there\n)\b(?:is|are|was|were|be) none\b": "is not valid, there is none",
    r"\b(?:go|goes|gone|went) on\b": "continues",
    r"\b(?:came|come|comes) (?:of|to) (?:it|this|that|them)\b": "the outcome, the result",
    r"\b(?:is|are|was|were) (?:another|others)(?=[.,;:]|$)": "differs",
    r"\b[Ww]hoever\b|\b(?:for|to|of|by|from|with) who\b": "the caller that, whichever process",
    r"\bso (?:many|long|much)\b(?! (?:as|that)\b)": "this many, for 30 s",
    r"\b[Ss]omebody\b|\b[Nn]obody\b(?!:)|\b[Nn]owhere\b": "a caller, another process, no one",
    r"\b[Tt]old\b(?! apart)": "reported, notified",
    r"\b(?:stand|stands|stood|standing) still\b": "is frozen, is paused",
    r"\banew\b": "again",
    r", too[.;,)]": "also",
    r"\bof then\b": "the snapshot's",
    r"\b(?:is|was|are|were) said\b": "is reported",
}
"""Patterns, and what a native speaker would say."""
NOT_VERBS = frozenset(
    re.findall(
        r"\w+",
        """a an the what who whose whom whether how where why when all as from for those these this that one
        every each both some any which more only no not nothing something anything everything it its in on of
        by with without under at bytes seconds lines names paths returns yields raises reads writes is are""",
    )
)
"""First words of a function's docstring that are not a verb in the imperative (PEP 257)."""


def _product() -> Iterator[Path]:
    # The parts are links; Path.rglob does not follow those.
    for folder, _, files in os.walk(PACKAGE, followlinks=True):
        yield from (Path(folder) / file for file in sorted(files) if file.endswith(".py"))


FILES = sorted(_product())
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "programs.md"})
"""But for the table that programs of the tests describe themselves in."""
SOURCES = sorted(each for part in ("images", "snapshots") for each in (ROOT / part).rglob("*.[ch]"))
"""The product's sources in C."""
TESTS = sorted((ROOT / "tests" / "snapshots").rglob("*.py"))
"""Tests whose docstrings are in plain English."""


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield strings with a blank in them and comments, each with its line."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _found(text: str) -> Iterator[str]:
    for pattern, instead in INSTEAD.items():
        for match in re.finditer(pattern, text):
            yield f"'{match[0]}' in '{text[max(0, match.start() - 30) : match.end() + 30]}': {instead}"


def test_product_texts_are_idiomatic() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {each}"
        for path in FILES
        for line, text in _texts(path)
        for each in _found(text)
    ]
    assert wrong == []


def test_pages_are_idiomatic() -> None:
    """Except for what commands print, in blocks of code."""
    wrong = [
        f"{path.relative_to(ROOT)}: {each}"
        for path in PAGES
        for each in _found(re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL))
    ]
    assert wrong == []


def test_comments_in_c_are_idiomatic() -> None:
    assert SOURCES
    wrong = [
        f"{path.relative_to(ROOT)}: {each}"
        for path in SOURCES
        for comment in re.findall(r"/\*.*?\*/|//[^\n]*", path.read_text(), flags=re.DOTALL)
        for each in _found(comment)
    ]
    assert wrong == []


def test_docstrings_of_tests_are_idiomatic() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    wrong = [
        f"{path.relative_to(ROOT)}: {each}"
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, documented)
        for each in _found(ast.get_docstring(node) or "")
    ]
    assert wrong == []


def test_docstrings_of_functions_are_in_the_imperative() -> None:
    """Those of properties name the value."""
    wrong = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {text.splitlines()[0]}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
        and text.split()[0].strip(",.:;`").lower() in NOT_VERBS
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "he goes on",
        "what came of it",
        "the id is none",
        "for who asked",
        "so many files",
        "told anew",
        "it, too.",
    ],
)
def test_translated_phrases_are_found(text: str) -> None:
    assert list(_found(text))


def test_plain_phrases_pass() -> None:
    text = "There is none. As long as it is told apart, no one stops; so long as that holds, it continues."
    assert list(_found(text)) == []
