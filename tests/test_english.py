"""The English of docstrings, messages, comments and pages: patterns that read as a translation.

Each is counted, and has a ceiling for each kind of text. Ceilings only fall: a change that repairs texts
lowers them to the output of `python tests/test_english.py`. Eliminated patterns (`INSTEAD`) stay so.
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
ROOT = Path(__file__).parent.parent

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
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
COUNTED = {
    "clause without a noun": (
        r"(?m)(?:^|[.;:,(] |"
        r"\b(?:of|to|for|with|by|from|and|or|that|than|is|are|in|as|only|[Rr]eturn|[Yy]ield) )"
        r"(?:[Ww]hat|[Ww]ho|[Oo]f what)\b(?! to do:)",
        "name the thing: the kept entries, the caller",
    ),
    "no in place of not": (
        r"\b(?:is|are|was|were|has|have|had|be|with|takes?|needs?|knows?|gives?|finds?)"
        r" no (?!longer|more\b|one\b)\w+"
        r"|\bnone of (?:that|this|these|those|its)\b",
        "is not a tar archive, does not have",
    ),
    "another for different": (
        r"\b(?:another|other) (?:form|name|version|kind|way|value|type|size|place|one|command|id)s?\b",
        "a different version, an unexpected form",
    ),
    "those, that of": (
        r"\bthose (?:of|that|which|who|with|in|it|they|there)\b|\bthat of\b|\bthe ones?\b",
        "repeat the noun",
    ),
    "may": (r"\b(?:may|might)\b", "can, at most N"),
    "at once": (r"\bat once\b", "immediately, together, in one call"),
    "beside, apart, gone": (
        r"\b(?:beside|apart|meanwhile|by itself|by themselves|for good|gone)\b",
        "next to, separately, in the meantime, on its own, removed",
    ),
    "not after the verb": (
        r"\b(?:knows?|has|have|needs?|says?|finds?) (?:not|nothing of|nothing)\b|\bneed not\b|\bas yet\b",
        "does not know, need not be",
    ),
}
"""Patterns, and what a native speaker would say."""
CEILINGS = {
    "clause without a noun": (97, 29, 58, 33),
    "no in place of not": (144, 49, 22, 52),
    "another for different": (42, 3, 8, 19),
    "those, that of": (137, 26, 24, 26),
    "may": (87, 32, 22, 3),
    "at once": (8, 6, 11, 3),
    "beside, apart, gone": (61, 19, 29, 11),
    "not after the verb": (61, 22, 9, 27),
}
"""The most of each pattern in docstrings, messages, pages and docstrings of tests."""
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
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield strings with a blank in them and comments, each with its line."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _counted(texts: list[str]) -> dict[str, int]:
    """Return how often each pattern is in texts."""
    return {
        name: sum(len(re.findall(pattern, text)) for text in texts) for name, (pattern, _) in COUNTED.items()
    }


def counts() -> dict[str, tuple[int, ...]]:
    """Return how often each pattern is in docstrings, in messages, in pages, and in docstrings of tests."""
    docstrings: list[str] = []
    messages: list[str] = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        documented = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
        texts = {id(node.body[0].value) for node in documented if ast.get_docstring(node)}  # type: ignore[attr-defined]
        docstrings += [text for node in documented if (text := ast.get_docstring(node))]
        messages += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in texts and node.value.count(" ") > 2
        ]
    pages = [re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL) for path in PAGES]
    found = [_counted(texts) for texts in (docstrings, messages, pages, _docstrings_of_tests())]
    return {name: tuple(each[name] for each in found) for name in COUNTED}


def _docstrings_of_tests() -> list[str]:
    return [
        text
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node))
    ]


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


def test_no_pattern_is_more_frequent_than_it_was() -> None:
    """In docstrings, messages, pages and docstrings of tests; `COUNTED` has the words to write."""
    for name, found in counts().items():
        over = [
            f"{count} of at most {most}"
            for count, most in zip(found, CEILINGS[name], strict=True)
            if count > most
        ]
        assert over == [], f"{name}: {', '.join(over)}; write: {COUNTED[name][1]}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("clause without a noun", "Return what is kept."),
        ("no in place of not", "It is no tar."),
        ("another for different", "It has another form."),
        ("those, that of", "Only those that are left."),
        ("may", "It may fail."),
        ("at once", "Ended at once."),
        ("beside, apart, gone", "The session is gone."),
        ("not after the verb", "It knows nothing of sessions."),
    ],
)
def test_a_pattern_is_counted(name: str, text: str) -> None:
    """And a plain sentence is not."""
    assert _counted([text])[name] == 1
    assert (
        sum(
            _counted(
                ["Return the kept entries. There is no longer a session; call it what you like."]
            ).values()
        )
        == 0
    )


def test_pages_are_idiomatic() -> None:
    """Except for the output of commands, in blocks of code."""
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
    wrong = [
        f"{path.relative_to(ROOT)}: {each}"
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, DOCUMENTED)
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


if __name__ == "__main__":
    for row in counts().items():
        sys.stdout.write(f"{row}\n")
