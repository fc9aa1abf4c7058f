"""The README can be read in three minutes, and has every part that a newcomer looks for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
MOST_WORDS = 690
"""Three minutes at 230 words a minute."""
MOST_LINES = 122
MOST_OF_A_SNIPPET = 8
INSTALLED_BY_NAME = re.compile(rb"\b(?:pipx?|uv(?: tool| pip)?) (?:install|add) ['\"]?holdfast\b(?!-)")
SECTIONS = (
    "Two commands",
    "At the shell",
    "Your own agent",
    "Your CI",
    "Many machines",
    "What survives a snapshot",
    "What it is not",
    "Needs",
    "More",
)


def words(page: str) -> int:
    """Return the number of words that a person reads: no code, pictures or addresses of links."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    text = re.sub(r"^!\[.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return sum(1 for word in text.split() if re.search(r"\w", word))


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_readme_is_short() -> None:
    assert words(README) <= MOST_WORDS
    assert len(README.splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Two words.", 2),
        ("![A picture](a.svg)", 0),
        ("[a link](https://example.org/a-b), read", 3),
        ("- one · two\n```sh\nnot these\n```\n| three |", 3),
    ],
    ids=["sentence", "picture", "link", "code"],
)
def test_only_words_that_are_read_count(text: str, count: int) -> None:
    assert words(text) == count


def test_each_part_is_there_once() -> None:
    assert tuple(re.findall(r"^## (.*)$", README, re.MULTILINE)) == SECTIONS
    assert len(re.findall(r"^!\[", README, re.MULTILINE)) == 2
    assert len(re.findall(r"^\|---", README, re.MULTILINE)) == 1
    assert "pipx install" in section("Two commands")
    assert re.findall(r"^make (\w+)", section("Two commands"), re.MULTILINE) == ["demo", "test"]


def test_snippets_are_short() -> None:
    snippets = re.findall(r"```\w+\n(.*?)```", README, re.DOTALL)
    assert len(snippets) >= 6
    assert [each for each in snippets if len(each.splitlines()) > MOST_OF_A_SNIPPET] == []


def test_each_of_six_bullets_has_a_figure_and_its_proof() -> None:
    bullets = re.findall(r"^- .*$", section("What survives a snapshot"), re.MULTILINE)
    assert len(bullets) == 6
    assert [each for each in bullets if not re.search(r"\d.*\]\(docs/\w+[-\w]*\.md\)\)\.$", each)] == []


def test_no_text_installs_this_package_from_an_index() -> None:
    """The name is not registered: its future owner would get the machines of people who follow the text."""
    root = Path(__file__).parent.parent
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    paths = [root / name for name in listed.stdout.split("\0") if name and not name.startswith("tests/")]
    wrong = [
        str(path.relative_to(root))
        for path in paths
        if path.is_file() and INSTALLED_BY_NAME.search(path.read_bytes())
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        (b"pip install 'holdfast[mcp]'", True),
        (b"pipx install holdfast", True),
        (b"uv tool install holdfast\n", True),
        (b"pipx install '.[mcp,serve]'", False),
        (b"pip install dist/holdfast-1.0-py3-none-any.whl", False),
        (b"pip install -q pytest; holdfast ls", False),
    ],
    ids=["extra", "pipx", "uv", "checkout", "wheel", "others"],
)
def test_an_installation_by_name_is_found(text: bytes, *, is_found: bool) -> None:
    assert bool(INSTALLED_BY_NAME.search(text)) == is_found
