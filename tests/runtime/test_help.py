"""The help of the command line: one screen for all verbs, and examples that work for each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.runtime.cli import app, help_text
from holdfast.runtime.cli.families import FAMILIES
from holdfast.runtime.cli.verb_examples import EXAMPLES

LINES = [(verb, line) for lines in FAMILIES.values() for verb, line in lines.items()]
SCREEN = 40
"""Lines of a terminal window that is neither the smallest nor tall."""
ROOT = app.readable()


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the words and the command of every verb that has none below it."""
    below = getattr(command, "commands", {})
    if not below:
        yield " ".join(path), command
    for name, each in below.items():
        yield from leaves(each, (*path, name))


LEAVES = dict(leaves(ROOT))


def test_every_verb_is_in_one_family() -> None:
    """And in no second one."""
    assert sorted(verb for verb, _ in LINES) == sorted(ROOT.commands)


def test_the_help_fits_one_screen_and_names_every_verb() -> None:
    """Those of every day come first and are explained, the others are named."""
    lines = help_text.TEXT.splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= help_text.COLUMNS
    words = set(help_text.TEXT.replace(",", " ").split())
    assert [verb for verb, _ in LINES if verb not in words] == []
    assert all(f"{line}\n" in help_text.TEXT for line in FAMILIES["Every day"].values())


def test_help_all_has_a_line_for_each_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """In its family, in terminals of 80 columns."""
    assert app.call(["help", "all"]) == 0
    shown = capsys.readouterr().out.splitlines()
    for verb, line in LINES:
        assert [words for words in map(str.split, shown) if words[:1] == [verb]] == [[verb, *line.split()]]
    assert max(map(len, shown)) <= help_text.COLUMNS


def test_no_two_verbs_have_the_same_description() -> None:
    """A line distinguishes its verb from all others."""
    assert len({line for _, line in LINES}) == len(LINES)
    assert all(line[0].isupper() and line.endswith((".", "?")) for _, line in LINES)


def test_every_verb_that_people_type_has_examples() -> None:
    """Only `receive` is typed by no one: `move` starts it."""
    assert set(LEAVES) - {"receive"} == set(EXAMPLES)


@pytest.mark.parametrize("verb", EXAMPLES)
def test_the_command_line_takes_its_examples(verb: str) -> None:
    """Each names its verb, and the parser accepts its words; the help shows it as it is."""
    path = verb.split()
    shown = help_of(verb)
    for line in EXAMPLES[verb]:
        words = typed(line)
        assert words[: len(path)] == path
        context = LEAVES[verb].make_context(verb, words[len(path) :])
        assert context.params
        assert f"  holdfast {line}\n" in shown + "\n"


def typed(line: str) -> list[str]:
    """Return the words of a command line, without comments and redirections."""
    words = shlex.split(line, comments=True)
    for sign in ("<", ">"):
        if sign in words:
            del words[words.index(sign) : words.index(sign) + 2]
    return words


def help_of(verb: str) -> str:
    """Return the help of a verb."""
    command = LEAVES[verb]
    context = command.context_class(command, info_name=verb, terminal_width=100)
    return str(command.get_help(context))


@pytest.mark.parametrize("verb", LEAVES)
def test_values_are_named_for_people(verb: str) -> None:
    """Not by their types in Python."""
    shown = help_of(verb)
    for word in ("<str>", "<int", "<float", "list[", "typing.", "<bool>"):
        assert word not in shown
