"""First guesses of people who know other tools do what they expect, or say what does."""

from __future__ import annotations

import pytest

from holdfast.runtime.cli import app
from holdfast.runtime.cli.first_guesses import VERBS, translated
from holdfast.runtime.cli.verb_places import VERBS as EXISTING


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
def test_a_guess_becomes_what_does_it(given: str, used: str) -> None:
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
def test_everything_else_stays_as_it_is(given: str) -> None:
    """Names of sessions and words of commands are no verbs."""
    assert translated(given.split()) == (given.split(), [])


def test_guesses_lead_to_verbs_and_hide_none() -> None:
    assert not set(VERBS) & set(EXISTING)
    assert {words[0] for words in VERBS.values()} - {"--version"} <= set(EXISTING)
    assert translated(["stop", "work"])[1] == ["`stop` is `holdfast suspend` here"]


def test_help_all_is_the_list_of_all_verbs() -> None:
    assert translated(["help", "all"]) == (["--help-all"], [])


def test_options_of_a_command_have_a_way_in(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line that many type: `exec work ls -l`."""
    assert app.call(["exec", "work", "ls", "-l"]) == 2
    assert "`holdfast exec NAME -- ls -la`" in capsys.readouterr().err


def test_the_hint_for_a_terminal_names_attach(capsys: pytest.CaptureFixture[str]) -> None:
    """`docker exec -it NAME bash` is `holdfast attach NAME` here."""
    assert app.call(["exec", "-it", "work", "bash"]) == 2
    assert "`holdfast attach NAME`" in capsys.readouterr().err
