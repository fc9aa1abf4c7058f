"""Frequent verbs load little; counts of modules, never times."""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from holdfast.errors import SessionNotFound
from holdfast.runtime.cli import (
    app,
    capture_actions,
    kernel_actions,
    light_parameters,
    plain_completion,
    plain_forms,
    plain_help,
    plain_parameters,
    printing,
    reporting,
    session_table,
    shell_actions,
)
from holdfast.runtime.cli.families import FAMILIES
from holdfast.runtime.cli.verb_places import VERBS
from holdfast.runtime.store.store import Store

HEAVY = {
    *(
        "docker",
        "sqlalchemy",
        "typer",
        "rich",
        "pydantic",
        "pyte",
        "tenacity",
        "requests",
        "httpx",
        "asyncio",
    ),
    *("dataclasses", "inspect", "pathlib", "typing", "threading", "shutil", "importlib.metadata"),
}
"""What no frequent verb loads: each takes longer than a tenth of the command."""
PROGRAM = """
import sys
from holdfast.runtime.cli.main import run
sys.argv = ["holdfast", *sys.argv[1:]]
try:
    run()
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


def loaded(home: Path, *words: str) -> set[str]:
    """Return the modules that a command line loads."""
    environment = {**os.environ, "HOLDFAST_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("--version",), 60),
        (("--help",), 75),
        (("ls",), 135),
        (("exec", "nothing", "true"), 135),
        (("exec", "--json", "nothing", "--timeout", "5", "true"), 135),
        (("cell", "nothing", "1"), 135),
        (("send", "nothing", "x"), 135),
    ],
)
def test_frequent_verbs_load_little(home: Any, words: tuple[str, ...], most: int) -> None:
    """Without a session they fail after everything was loaded that they need to find it."""
    Store.open(home.database)
    names = loaded(home.root, *words)

    assert names & HEAVY == set()
    assert len(names) <= most


@pytest.mark.parametrize(
    ("words", "most"), [(("run", "nothing", "--", "true"), 340), (("cp", "nothing:x", "."), 340)]
)
def test_other_verbs_load_no_engine(home: Any, words: tuple[str, ...], most: int) -> None:
    """Typer reads their words, and most of what they load belongs to it."""
    Store.open(home.database)
    names = loaded(home.root, *words)

    assert (
        names & {"docker", "sqlalchemy", "rich", "pydantic", "pyte", "requests", "httpx", "asyncio"} == set()
    )
    assert len(names) <= most


@functools.cache
def all_verbs() -> typer.Typer:
    return app.application()


def parameters(verb: str) -> tuple[tuple[str, ...], dict[str, tuple[str, str]]]:
    """Return the parameters of a verb as Typer has them, in the form of `plain_parameters`."""
    command: Any = typer.main.get_command(app.application(verb))
    below = command.commands[verb]
    arguments: list[str] = []
    options: dict[str, tuple[str, str]] = {}
    for each in below.params:
        if each.param_type_name == "argument":
            marks = {(1, True): "", (1, False): "?", (-1, True): "+", (-1, False): "*"}
            arguments.append(each.name + marks[each.nargs, each.required])
        elif getattr(each, "is_flag", False):
            options |= dict.fromkeys(each.opts, (each.name, plain_parameters.FLAG))
        elif each.type_descriptor.annotation is not int:  # whole numbers are left to Typer
            kinds = {
                str: plain_parameters.TEXT,
                float: plain_parameters.NUMBER,
                list[str]: plain_parameters.TEXTS,
            }
            options |= dict.fromkeys(each.opts, (each.name, kinds[each.type_descriptor.annotation]))
    return tuple(arguments), options


@pytest.mark.parametrize("verb", plain_parameters.ARGUMENTS)
def test_plain_parameters_are_those_of_the_verb(verb: str) -> None:
    """One that is missing here would only be slower; one that is wrong would be another command."""
    assert parameters(verb) == (plain_parameters.ARGUMENTS[verb], plain_parameters.OPTIONS[verb])


WORDS = (
    *("s", "x", "y z", "-", "--", "", "--json", "-d", "-e", "-k", "C-c", "-x", "-kUp", "-ed", "--nosuch"),
    *(
        "--timeout",
        "5",
        "0.5",
        "x",
        "1e3",
        "--timeout=7",
        "--patience=",
        "--patience",
        ".5",
        "--key",
        "--wait",
    ),
    *("--shell", "two", "--shell=two", "--name", "--check", "--json=yes", "--help", "--raw", "--job", "1_0"),
)


def drawn() -> list[list[str]]:
    """Return command lines of frequent verbs: each option, and words in any order."""
    random = Random(5)
    lines = [
        [verb, *random.choices(WORDS, k=random.randrange(6))]
        for verb in plain_parameters.ARGUMENTS
        for _ in range(150)
    ]
    for verb, options in plain_parameters.OPTIONS.items():
        for option, (_, kind) in options.items():
            given = [option] if kind == plain_parameters.FLAG else [option, "5"]
            lines += [[verb, "s", "x", *given], [verb, *given, "s", "x"], [verb, *given], [verb, "s", *given]]
    return lines


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What verbs are called with, instead of being carried out."""
    found: list[dict[str, Any]] = []

    def noted(module: Any, name: str) -> None:
        real = inspect.signature(getattr(module, name))

        def note(*args: Any, **kwargs: Any) -> int:
            bound = real.bind(*args, **kwargs)
            bound.apply_defaults()
            every = {**bound.arguments, **bound.arguments.get("how", {})}
            every.pop("how", None)
            found.append({key: value for key, value in every.items() if value not in (None, False, [], ())})
            return 7

        monkeypatch.setattr(module, name, note)

    for name in ("execute", "wait", "send", "screen"):
        noted(shell_actions, name)
    noted(kernel_actions, "cell")
    noted(capture_actions, "snapshot")
    noted(session_table, "show")
    return found


def test_a_plain_form_is_what_the_parser_makes_of_it(calls: list[dict[str, Any]]) -> None:
    """The same parameters reach the verb, for any words that are read without Typer."""
    plain = 0
    commands: dict[str, Any] = {
        verb: typer.main.get_command(app.application(verb)) for verb in plain_parameters.ARGUMENTS
    }
    for words in drawn():
        form = plain_forms.matched(words)
        if form is None:
            continue
        plain += 1
        calls.clear()
        assert form() == 7
        commands[words[0]].main(words, prog_name="holdfast", standalone_mode=False)
        assert len(calls) == 2, words
        assert calls[0] == calls[1], words
    assert plain > 150


@pytest.mark.parametrize(
    "words",
    [
        *([], ["exec"], ["exec", "s"], ["exec", "s", "-x"], ["exec", "s", "x", "--nosuch"], ["ls", "x"]),
        *(
            ["ls", "--help"],
            ["--json", "ls"],
            ["cell", "s"],
            ["cell", "s", "1", "2"],
            ["wait", "s", "--timeout", "5"],
        ),
        *(
            ["exec", "s", "x", "--timeout"],
            ["exec", "s", "x", "--timeout", "-1"],
            ["exec", "s", "x", "--timeout", "nan"],
        ),
        *(["send", "s", "-ke"], ["send", "s", "-k"], ["rm", "s"], ["exec", "s", "x", "--key", "--json"]),
    ],
    ids=" ".join,
)
def test_other_forms_are_left_to_the_parser(words: list[str]) -> None:
    assert plain_forms.matched(words) is None


@pytest.mark.parametrize(
    "words", [["ls"], ["ls", "--json"], ["exec", "nothing", "x"], ["screen", "", "--json"]], ids=" ".join
)
def test_a_plain_form_ends_as_the_verb_does(
    words: list[str], home: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the same output, error and exit code."""
    monkeypatch.setenv("HOLDFAST_HOME", str(home.root))
    plain = plain_forms.matched(words)
    assert plain is not None
    ends = [
        (reporting.reported(plain, as_json="--json" in words), *capfd.readouterr()),
        (app.call(words), *capfd.readouterr()),
    ]
    assert ends[0] == ends[1]
    assert (ends[0][0] == 0) == (words[0] == "ls")


def test_the_help_is_what_the_parser_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a terminal of any width that shows whole lines; a narrow one is left to Typer."""
    for columns in ("80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        plain = plain_help.matched(["--help"])
        assert plain is not None
        shown = [(plain(), capsys.readouterr().out), (app.call(["--help"]), capsys.readouterr().out)]
        assert shown[0] == shown[1]
    monkeypatch.setenv("COLUMNS", "79")
    assert plain_help.matched(["--help"]) is None
    assert plain_help.matched(["ls", "--help"]) is None


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    "line",
    [
        *(
            "holdfast ",
            "holdfast ex",
            "holdfast nosuch",
            "holdfast exec ",
            "holdfast exec a",
            "holdfast screen z",
        ),
        *(
            "holdfast exec a x",
            "holdfast exec --js",
            "holdfast rm ",
            "holdfast --",
            "holdfast ls ",
            "holdfast cell 'a",
        ),
        *("holdfast snapshot a", "holdfast exec alpha --"),
    ],
)
def test_completions_are_those_of_the_parser(
    shell: str, line: str, home: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever finds them; and the verb that a line has need not be joined by the others."""
    store = Store.open(home.database)
    for name in ("alpha", "anna", "b.c"):
        store.add_session(name, "image", {})
    words = line.split()
    at = len(words) if line.endswith(" ") else len(words) - 1
    environment = {"HOLDFAST_HOME": str(home.root), plain_forms.COMPLETION: f"complete_{shell}"}
    environment |= {"COMP_WORDS": line, "COMP_CWORD": str(at), "_TYPER_COMPLETE_ARGS": line}
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    assert plain_forms.matched(["ls"]) is None

    whole: Any = typer.main.get_command(all_verbs())
    with pytest.raises(SystemExit):
        whole.main([], prog_name="holdfast", standalone_mode=True)
    wanted = capsys.readouterr().out
    plain = plain_completion.matched()
    if plain is not None:
        assert plain() == 0
        assert capsys.readouterr().out == wanted
    with pytest.raises(SystemExit):
        app.call([])
    assert capsys.readouterr().out == wanted
    if line in ("holdfast exec a", "holdfast exec ") or (line == "holdfast ex" and shell == "bash"):
        assert plain is not None
        assert wanted.count("\n") > 1 or "alpha" in wanted


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
    alone, among = app.application(verb), all_verbs()
    for words in ([verb, "--help"], [verb, "--nosuch"]):
        shown = [CliRunner().invoke(each, words) for each in (alone, among)]
        assert shown[0].output == shown[1].output
        assert shown[0].exit_code == shown[1].exit_code


def test_help_before_a_verb_is_that_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["--help"], ["--help", "ls"], ["--json", "--help", "exec"]):
        assert app.call(words) == 0
        shown.append(capsys.readouterr().out)
    assert all(verb in shown[0] for verb in VERBS)
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
