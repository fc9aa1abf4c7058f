"""Old names of options work for one release, with a note."""

from __future__ import annotations

import pytest
import typer

from holdfast.runtime.cli.app import application
from holdfast.runtime.cli.deprecated import OPTIONS, translated


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("wait work --timeout 5", "wait work --patience 5"),
        ("--as agent:one wait work --timeout=5", "--as agent:one wait work --patience=5"),
        ("--json export one file --refuse-secrets", "--json export one file --secrets refuse"),
        ("push --refuse-secrets one ref", "push --secrets refuse one ref"),
    ],
)
def test_an_old_name_becomes_the_new_one(given: str, used: str) -> None:
    """With one note that names both."""
    words, notes = translated(given.split())

    assert words == used.split()
    assert len(notes) == 1
    assert "is now --" in notes[0]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "--json",
        "exec work --timeout 5 -- wait --timeout 5",
        "wait work -- --timeout",
        "--reason wait exec work --timeout 5",
        "export one file",
    ],
)
def test_everything_else_stays_as_it_is(given: str) -> None:
    """Options of other verbs, words after `--`, and values are not names of options."""
    assert translated(given.split()) == (given.split(), [])


@pytest.mark.parametrize(("verb", "old"), sorted(OPTIONS))
def test_the_new_name_exists_and_the_old_one_does_not(verb: str, old: str) -> None:
    """Otherwise the table would translate into errors, or hide an option."""
    command = typer.main.get_command(application()).commands[verb]  # type: ignore[attr-defined]
    names = [name for option in command.params for name in option.opts]

    assert OPTIONS[verb, old][0] in names
    assert old not in names
