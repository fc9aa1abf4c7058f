"""First guesses of people who know other tools do what they expect, and old names still work."""

from __future__ import annotations

import pytest

from holdfast.runtime.cli import command_line, verb_table
from holdfast.runtime.cli.guesses import GUESSES, RENAMED, translated


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("ps", "ls"),
        ("--json ps --all", "--json ls --all"),
        ("--as person:ada stop work", "--as person:ada suspend work"),
        ("images", "image ls"),
        ("help", "--help"),
        ("help exec", "exec --help"),
        ("help image ls", "image ls --help"),
        ("-h", "--help"),
        ("exec -h", "exec --help"),
        ("image ls -h", "image ls --help"),
        ("ps -h", "ls --help"),
        ("-V", "--version"),
        ("version", "--version"),
        ("rm -f work other", "rm work other"),
        ("delete --force work", "rm work"),
        ("key ls", "key list"),
        ("artifact list --json", "artifact ls --json"),
        ("exec work --timeout 1m true", "exec work --timeout 60 true"),
        ("wait work --patience=1.5h", "wait work --patience=5400"),
    ],
)
def test_a_guess_becomes_the_right_verb(given: str, used: str) -> None:
    words, notes = translated(given.split())
    assert words == used.split()
    assert len(notes) <= 1


@pytest.mark.parametrize(
    "given",
    [
        "",
        "ls",
        "exec work ls -h",
        "exec work -- sleep --timeout 1m",
        "exec work --timeout 1x true",
        "exec work --timeout 5 true",
        "ci run --timeout 30m -- true",
        "exec work --timeout 3 -- df -h",
        "run work ps -h",
        "exec help",
        "rm ps",
        "new version",
        "--reason ps exec work true",
    ],
)
def test_other_words_stay_as_they_are(given: str) -> None:
    """Names of sessions and words of commands are not verbs."""
    assert translated(given.split()) == (given.split(), [])


def test_guesses_lead_to_verbs_and_hide_none() -> None:
    assert not set(GUESSES) & set(verb_table.VERBS)
    assert {words[0] for words in GUESSES.values()} - {"--version"} <= set(verb_table.VERBS)
    assert translated(["stop", "work"])[1] == ["`stop` is `holdfast suspend` here"]


def test_help_all_is_the_list_of_all_verbs() -> None:
    assert translated(["help", "all"]) == (["--help-all"], [])


def test_options_of_a_command_have_a_way_in(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line that many type: `exec work ls -l`."""
    assert command_line.call(["exec", "work", "ls", "-l"]) == 2
    assert "`holdfast exec NAME -- ls -la`" in capsys.readouterr().err


def test_the_hint_for_a_terminal_names_attach(capsys: pytest.CaptureFixture[str]) -> None:
    """`docker exec -it NAME bash` is `holdfast attach NAME` here."""
    assert command_line.call(["exec", "-it", "work", "bash"]) == 2
    assert "`holdfast attach NAME`" in capsys.readouterr().err


def test_an_image_behind_a_name_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """`docker run --name x debian` is `holdfast new x --image debian` here."""
    assert command_line.call(["new", "work", "debian"]) == 2
    assert "`holdfast new NAME --image IMAGE`" in capsys.readouterr().err


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
def test_other_words_are_not_old_names(given: str) -> None:
    """Options of other verbs, words after `--`, and values are not names of options."""
    assert translated(given.split()) == (given.split(), [])


@pytest.mark.parametrize(("verb", "old"), sorted(RENAMED))
def test_the_new_name_exists_and_the_old_one_does_not(verb: str, old: str) -> None:
    """Otherwise the table would translate into errors, or hide an option."""
    flags = [flag for option in verb_table.load(verb).options for flag in option.on]
    assert RENAMED[verb, old][0] in flags
    assert old not in flags
