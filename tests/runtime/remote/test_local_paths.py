"""Command lines that name files of the caller's, and the input that goes with the others."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import grammar, verb_table
from holdfast.runtime.remote.elsewhere import CommandLine, reads_input, refuse, variables

FILE = {"there.hfb": True}
_WITH = {"journal": ["--ipynb"], "replay": ["--cast"]}


@pytest.mark.parametrize(
    ("words", "verb", "options"),
    [
        ("ls", "ls", ""),
        ("--as person:me --reason why exec S true", "exec", "S true"),
        ("--json ls", "ls", ""),
        ("--as=person:me ls --json", "ls", "--json"),
        ("run S --cwd / -- cp a - b", "run", "S --cwd /"),
        ("--json", "", ""),
    ],
)
def test_the_verb_and_its_words_are_found(words: str, verb: str, options: str) -> None:
    line = CommandLine.of(words.split())
    assert (line.verb, list(line.options)) == (verb, options.split())


@pytest.mark.parametrize(
    "words",
    [
        "export S there.hfb",
        "import there.hfb",
        "cp S:/a b",
        "cp a S:/b",
        "journal S --ipynb notes.ipynb",
        "journal S --ipynb=notes.ipynb",
        "replay S --cast file.cast",
        "cell S 1 --save plots",
        "thaw there.hfb",
        "fits there.hfb",
        "ci run -- make test",
        "move S host",
        "new S --secret KEY@host=@there.hfb",
        "new S --build .",
        "new S --devcontainer .",
        "new S --build=.",
        "artifact get report",
        "artifact get report folder --session S",
        "task import S there.md",
        "new S --image ./there.tar",
        "new S --image=~/there.tar",
    ],
)
def test_files_of_the_caller_are_refused_with_a_hint(words: str) -> None:
    with pytest.raises(InvalidArgument, match="the engine is on a different machine") as refused:
        refuse(CommandLine.of(words.split()), FILE)
    assert refused.value.hint


@pytest.mark.parametrize(
    "words",
    [
        "export S -",
        "import -",
        "cp S:/a -",
        "cp - S:/b",
        "artifact get report -",
        "artifact ls --session get",
        "task import S -",
        "journal S --ipynb -",
        "journal S --json",
        "replay S --cast=-",
        "thaw registry.test/team/failed:1",
        "fits 0123456789ab",
        "exec S cat there.hfb",
        "run S -- cp a b",
        "new S --secret KEY@host=@-",
        "new S --secret KEY@host=env:KEY",
    ],
)
def test_other_paths_are_not_local(words: str) -> None:
    refuse(CommandLine.of(words.split()), FILE)


def test_no_verb_with_a_file_is_forgotten() -> None:
    """A parameter that is a path, or shown as a file, is one of the caller's."""
    found = set()
    for path in verb_table.paths():
        for each in verb_table.load(path).parameters:
            is_file = each.kind == grammar.PATH or each.metavar in ("FILE", "SOURCE")
            if is_file and each.on != ("--file",):  # of a folder that is refused
                found.add(path.split()[0])
    assert found >= {"ci", "cp", "export", "import", "journal", "replay"}
    for verb in found:
        words = [verb, "S", *_WITH.get(verb, ()), "there.hfb"]
        with pytest.raises(InvalidArgument):
            refuse(CommandLine.of(words), FILE)


@pytest.mark.parametrize(
    ("words", "reads"),
    [
        ("exec S -", True),
        ("exec S true", False),
        ("cell S 1+1", True),
        ("attach S", True),
        ("run -i S -- cat", True),
        ("run S -- cat -i -", False),
        ("new S --secret KEY@host=@-", True),
        ("ls", False),
    ],
)
def test_only_commands_that_read_get_the_input(words: str, reads: bool) -> None:
    assert reads_input(CommandLine.of(words.split())) is reads


def test_variables_that_go_along() -> None:
    given = {
        "TERM": "xterm",
        "HOLDFAST_ACTOR": "agent:me",
        "HOLDFAST_HOME": "/mine",
        "TOKEN": "secret",
        "OTHER": "secret",
        "PATH": "/bin",
        "DOCKER_HOST": "ssh://there",
    }
    line = CommandLine.of(["new", "S", "--secret", "KEY@host=env:TOKEN"])
    assert variables(line, given) == {"TERM": "xterm", "HOLDFAST_ACTOR": "agent:me", "TOKEN": "secret"}
