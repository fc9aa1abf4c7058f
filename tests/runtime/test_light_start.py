"""Frequent verbs load little; counts of modules, never times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from holdfast.errors import SessionNotFound
from holdfast.runtime.cli import app, light_parameters, plain_forms, printing, reporting
from holdfast.runtime.cli.families import FAMILIES
from holdfast.runtime.cli.verb_places import VERBS
from holdfast.runtime.store.store import Store

HEAVY = {"docker", "sqlalchemy", "rich", "pydantic", "pyte", "tenacity", "requests", "httpx", "asyncio"}
PROGRAM = """
import sys
from holdfast.runtime.cli.main import run
sys.argv = ["holdfast", *sys.argv[1:]]
try:
    run()
except SystemExit:
    pass
names = {name.partition(".")[0] for name in sys.modules}
print(len(sys.modules), *sorted(names), file=sys.stderr)
"""


def loaded(home: Path, *words: str) -> tuple[int, set[str]]:
    """Return how many modules a command line loads, and the packages they are in."""
    environment = {**os.environ, "HOLDFAST_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=environment, capture_output=True, text=True, check=True
    )
    count, *names = done.stderr.splitlines()[-1].split()
    return int(count), set(names)


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("--version",), 70),
        (("ls",), 200),
        (("exec", "nothing", "true"), 200),
        (("run", "nothing", "--", "true"), 340),
        (("cell", "nothing", "1"), 340),
        (("send", "nothing", "x"), 340),
        (("cp", "nothing:x", "."), 340),
        (("--help",), 480),
    ],
)
def test_frequent_verbs_load_little(home: Any, words: tuple[str, ...], most: int) -> None:
    """Without a session they fail after everything was loaded that they need to find it."""
    Store.open(home.database)
    count, names = loaded(home.root, *words)

    if plain_forms.matched(words):
        assert "typer" not in names
    assert names & (HEAVY if words != ("--help",) else HEAVY - {"asyncio"}) == set()
    assert count <= most


PLAIN = [
    ["ls"],
    ["ls", "--json"],
    ["exec", "nothing", "x"],
    ["exec", "nothing", "x", "y z"],
    ["exec", "", ""],
]
OTHERS = [
    *(
        [],
        ["exec"],
        ["exec", "s"],
        ["exec", "s", "-"],
        ["exec", "s", "--", "x"],
        ["exec", "s", "x", "--json"],
    ),
    *(["exec", "-d", "s", "x"], ["ls", "x"], ["ls", "--help"], ["ls", "--json", "--json"], ["--json", "ls"]),
]


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_a_plain_form_is_what_the_parser_makes_of_it(
    words: list[str], home: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(home.root))
    plain = plain_forms.matched(words)
    assert plain is not None
    ends = [
        (reporting.reported(plain, as_json="--json" in words), *capfd.readouterr()),
        (app.call(words), *capfd.readouterr()),
    ]
    assert ends[0] == ends[1]
    assert (ends[0][0] == 0) == (words[0] == "ls")


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_other_forms_are_left_to_the_parser(words: list[str]) -> None:
    assert plain_forms.matched(words) is None


def test_completion_is_left_to_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plain_forms.COMPLETION, "complete_bash")
    assert plain_forms.matched(["ls"]) is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BrokenPipeError(), SessionNotFound("cannot: x")])
def test_every_end_has_an_exit_code(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise error

    monkeypatch.setattr(printing, "mute", lambda: None)
    code = reporting.reported(fail, as_json=False)
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 1)


def test_every_verb_has_a_place() -> None:
    assert set(VERBS) == {verb for lines in FAMILIES.values() for verb in lines}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_alone_is_the_verb_among_all(verb: str) -> None:
    """Its help and its mistakes are the same as those of the whole command line."""
    alone, among = app.application(verb), app.application()
    for words in ([verb, "--help"], [verb, "--nosuch"]):
        shown = [CliRunner().invoke(each, words) for each in (alone, among)]
        assert shown[0].output == shown[1].output
        assert shown[0].exit_code == shown[1].exit_code


def test_help_before_a_verb_is_that_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["--help"], ["--help", "ls"], ["--json", "--help", "exec"]):
        assert app.call(words) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0].count("\n") > len(VERBS)
    assert shown == [shown[0]] * 3


TRIED = [
    *(
        ["exec", "w", f"--timeout={text}", "x"]
        for text in ("5", "0.5", "-1", "x", "1e3", "nan", "", " 5", "1_0")
    ),
    *(["new", "--pids", text] for text in ("5", "5.5", "x", "")),
    *(["journal", "w", "-n", text] for text in ("5", "0", "x")),
    *(["export", "w", text] for text in ("a/b", "")),
    ["new", "--allow", "a:1", "--allow", "b:2"],
    ["exec", "w", "--", "-x", "--timeout", "5"],
    ["exec", "w"],
    ["rm"],
]


@pytest.mark.parametrize("words", TRIED, ids=" ".join)
def test_values_are_converted_as_typer_does(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(*, light: bool) -> object:
        command: Any = typer.main.get_command(app.application(words[0]))
        if light:
            light_parameters.lighten(command)
        below = command.commands[words[0]]
        try:
            context = below.make_context(words[0], list(words[1:]))
        except Exception as error:  # noqa: BLE001  (the mistake of a user, whichever it is)
            return type(error), str(error)
        return {name: (type(value), str(value)) for name, value in context.params.items()}

    assert parsed(light=True) == parsed(light=False)


def test_a_table_is_aligned_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("日本", "wide"), ("e\u0301", "combined"), ("\x1b[31mred", "x"), ("", "")]
    printing.table(("NAME", "WHY"), rows)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NAME     WHY"
    assert lines[1] == "日本     wide"
    assert lines[2] == "e\u0301        combined"
    assert "\x1b" not in lines[3]
