"""`holdfast --help` lists every verb once, in its group, in one line that no other verb has."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from holdfast.runtime.cli.app import application
from holdfast.runtime.cli.families import FAMILIES

LINES = [(verb, line) for lines in FAMILIES.values() for verb, line in lines.items()]


def test_every_verb_is_in_one_family() -> None:
    verbs = typer.main.get_command(application()).commands  # type: ignore[attr-defined]

    assert sorted(verb for verb, _ in LINES) == sorted(verbs)


def test_lines_fit_a_terminal_of_80_columns() -> None:
    shown = CliRunner().invoke(application(), ["--help"], env={"COLUMNS": "80"}).output.splitlines()

    for verb, line in LINES:
        assert [words for words in map(str.split, shown) if words[:1] == [verb]] == [[verb, *line.split()]]


def test_no_two_verbs_have_the_same_description() -> None:
    assert len({line for _, line in LINES}) == len(LINES)
    assert all(line[0].isupper() and line.endswith((".", "?")) for _, line in LINES)
