"""The help of the command line: one screen for all verbs, and examples that work for each."""

from __future__ import annotations

import re
import shlex

import pytest

from holdfast.runtime.cli import command_line, help_pages, verb_table
from holdfast.runtime.cli.grammar import Words

LINES = [(verb, line) for verb, (line, _) in verb_table.VERBS.items()]
SCREEN = 40
"""Lines of a terminal window that is neither the smallest nor tall."""
LEAVES = {path: verb_table.load(path) for path in verb_table.paths()}
EXAMPLES = [(path, line) for path, verb in LEAVES.items() for line in verb.examples]


def test_the_help_fits_one_screen_and_names_every_verb() -> None:
    """Those of every day come first and are explained, the others are named."""
    text = help_pages.of_all(command_line.EARLY, 80)
    assert len(text.splitlines()) <= SCREEN
    words = set(text.replace(",", " ").split())
    assert [verb for verb, _ in LINES if verb not in words] == []
    assert all(f"{line}\n" in text for line, _ in verb_table.FAMILIES["Every day"].values())


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    """Except examples, which people copy, and single words."""
    texts = [help_pages.of_all(command_line.EARLY, columns)]
    texts += [help_pages.of_group(verb, columns) for verb in verb_table.VERBS if verb_table.below(verb)]
    texts += [help_pages.of_verb(verb, columns).partition("  Examples:")[0] for verb in LEAVES.values()]
    wide = [line for text in texts for line in text.splitlines() if len(line) > columns]
    assert [line for line in wide if line[:1].isupper()] == []
    assert [line for line in wide if re.search(r"\S {1,2}\S", line.partition("] ")[2])] == []


def test_a_screen_takes_the_width_that_a_person_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Up to one that is still easy to read."""
    shown = []
    for columns in ("40", "80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert command_line.call(["exec", "--help"]) == 0
        shown.append(capsys.readouterr().out)
    assert max(map(len, shown[0].splitlines()[:-4])) <= 40
    assert shown[1] == shown[2] != shown[0]


def test_help_all_has_a_line_for_each_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """In its family, in terminals of 80 columns."""
    assert command_line.call(["help", "all"]) == 0
    shown = capsys.readouterr().out.splitlines()
    for verb, line in LINES:
        assert [words for words in map(str.split, shown) if words[:1] == [verb]] == [[verb, *line.split()]]
    assert max(map(len, shown)) <= help_pages.WIDEST


def test_no_two_verbs_have_the_same_description() -> None:
    """A line distinguishes its verb from all others, and each verb is in one family."""
    assert len({line for _, line in LINES}) == len(LINES)
    assert all(line[0].isupper() and line.endswith((".", "?")) for _, line in LINES)
    assert sum(map(len, verb_table.FAMILIES.values())) == len(LINES)


def test_every_verb_that_people_type_has_examples() -> None:
    """Only `receive` is typed by no one: `move` starts it."""
    assert [path for path, verb in LEAVES.items() if not verb.examples] == ["receive"]


@pytest.mark.parametrize(("path", "line"), EXAMPLES)
def test_the_command_line_takes_its_examples(path: str, line: str) -> None:
    """Each names its verb, and the parser accepts its words; the help shows it as it is."""
    words = typed(line)
    assert words[: len(path.split())] == path.split()
    assert Words(LEAVES[path], words[len(path.split()) :]).values()
    assert f"  holdfast {line}\n" in help_pages.of_verb(LEAVES[path], 80)


def typed(line: str) -> list[str]:
    """Return the words of a command line, without comments and redirections."""
    words = shlex.split(line, comments=True)
    for sign in ("<", ">"):
        if sign in words:
            del words[words.index(sign) : words.index(sign) + 2]
    return words


@pytest.mark.parametrize("path", LEAVES)
def test_every_parameter_is_explained(path: str) -> None:
    """With a name for its value that is made for people."""
    verb = LEAVES[path]
    assert verb.doc
    for each in verb.parameters:
        assert each.help.endswith((".", ")", "]")) or each.kind == "text", each.name
        assert each.metavar or each.kind == "flag"


def test_optional_and_required_arguments_are_shown() -> None:
    """Defaults, bounds, both flags of a switch, several words of an argument."""
    texts = {path: " ".join(help_pages.of_verb(verb, 80).split()) for path, verb in LEAVES.items()}
    assert "[default: main]" in texts["exec"]
    assert "[default: 12; at least 1]" in texts["drift"]
    assert "--shared / --no-shared" in texts["ci run"]
    assert "[default: shared]" in texts["ci run"]
    assert "SESSION... Names or ids. [required]" in texts["rm"]
    assert texts["send"].startswith("Usage: holdfast send [OPTIONS] SESSION [TEXT...]")
