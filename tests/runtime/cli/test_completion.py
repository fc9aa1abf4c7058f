"""Completion in bash, zsh and fish: verbs, options, choices, and the names of this home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.cli import caller, command_line, completion, verb_table
from holdfast.runtime.store.store import Store


@pytest.fixture
def named(home: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A home with three sessions."""
    store = Store.open(home.database)
    for name in ("alpha", "anna", "b.c"):
        store.add_session(name, "image", {})
    monkeypatch.setenv("HOLDFAST_HOME", str(home.root))
    return home


def asked(shell: str, line: str, action: str = "get-args") -> tuple[str, int]:
    """Return the candidates a shell gets for a line whose last word is being typed."""
    words = line.split()
    environ = {caller.COMPLETION: f"complete_{shell}", "COMP_WORDS": line, "_TYPER_COMPLETE_ARGS": line}
    environ |= {"COMP_CWORD": str(len(words) - (not line.endswith(" ")))}
    return completion.answer(command_line.EARLY, environ | {"_TYPER_COMPLETE_FISH_ACTION": action})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("holdfast ex", "exec export"),
        ("holdfast nosuch", ""),
        ("holdfast nosuch ", ""),
        ("holdfast exec ", "alpha anna b.c"),
        ("holdfast exec a", "alpha anna"),
        ("holdfast screen z", ""),
        ("holdfast exec a x", ""),
        ("holdfast exec --js", "--json"),
        ("holdfast exec --json --j", ""),
        ("holdfast send alpha -k C-c --k", "--key"),
        ("holdfast exec --shell ", ""),
        ("holdfast exec --shell two a", "alpha anna"),
        ("holdfast exec -- a", "alpha anna"),
        ("holdfast exec alpha -- --js", ""),
        ("holdfast rm alpha a", "alpha anna"),
        ("holdfast --js", "--json"),
        ("holdfast --json --as x exec a", "alpha anna"),
        ("holdfast --as ", ""),
        ("holdfast key ", "new trust list rm"),
        ("holdfast key n", "new"),
        ("holdfast key new --pa", "--passphrase"),
        ("holdfast task step alpha 1 --status ", "open active blocked skipped"),
        ("holdfast task drop alpha d", "decision"),
        ("holdfast ci run --no-s", "--no-shared"),
        ("holdfast new --mem", "--memory"),
        ("holdfast run a", "alpha anna"),
        ("holdfast cell 'a", "alpha anna"),
        ('holdfast exec "al', "alpha"),
        ("holdfast cell a\\ b", ""),
    ],
)
def test_bash_gets_words(named: Any, line: str, found: str) -> None:
    assert asked("bash", line) == ("\n".join(found.split()), 0)


def test_all_verbs_come_first(named: Any) -> None:
    """Alone or behind options; in zsh and fish with a line about each."""
    assert asked("bash", "holdfast ")[0].split() == list(verb_table.VERBS)
    assert asked("bash", "holdfast --json ")[0].split() == list(verb_table.VERBS)
    assert '"ls":"List sessions."' in asked("zsh", "holdfast ")[0]
    assert "ls\tList sessions." in asked("fish", "holdfast ")[0].splitlines()


def test_options_come_with_their_purpose(named: Any) -> None:
    assert "--json\tOne JSON object or list on standard output." in asked("fish", "holdfast ls --")[0]
    assert asked("zsh", "holdfast --as")[0] == (
        """_arguments '*: :(("--as":"The actor for the journal\\\\: agent\\\\:NAME or person\\\\:NAME."))'"""
    )


def test_shells_complete_files_where_nothing_else_is_known(named: Any) -> None:
    assert asked("zsh", "holdfast import ") == ("_files", 0)
    assert asked("fish", "holdfast import ", "is-args") == ("", 1)
    assert asked("fish", "holdfast exec ", "is-args") == ("", 0)


def test_an_unknown_question_is_refused() -> None:
    for action in ("complete_tcsh", "source", "nothing_bash", ""):
        assert completion.answer(command_line.EARLY, {caller.COMPLETION: action}) == ("", 1)
    assert "compdef" in completion.answer(command_line.EARLY, {caller.COMPLETION: "source_zsh"})[0]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_once(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the shell's own place; existing settings stay."""
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = tmp_path / f".{shell}rc"
    settings.write_text("mine")
    for _ in range(2):
        assert command_line.call(["--install-completion", shell]) == 0
    place = Path(capsys.readouterr().out.split(" in ")[1].split("\n")[0])
    assert place.read_text() == completion.SCRIPTS[shell]
    lines = settings.read_text().splitlines()
    assert lines[0] == "mine"
    assert len(lines) == (1 if shell == "fish" else 2)
    assert command_line.call(["--show-completion", shell]) == 0
    assert capsys.readouterr().out == completion.SCRIPTS[shell]


ASKING = {
    "bash": "COMP_WORDS=(holdfast key l); COMP_CWORD=2; _holdfast_completion holdfast; echo ${COMPREPLY[@]}",
    "zsh": "_arguments() { echo $1 }; words=(holdfast key l); CURRENT=3; _holdfast_completion",
    "fish": "complete -C 'holdfast key l'",
}
SHOWN = {
    "bash": "list\n",
    "zsh": """*: :(("list":"List this home's keys and the trusted keys."))\n""",
    "fish": "list\tList this home's keys and the trusted keys.\n",
}


@pytest.mark.parametrize("shell", ASKING)
def test_shells_themselves_complete(shell: str, named: Any, tmp_path: Path) -> None:
    """With the script that they source, and the command on their path."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = tmp_path / "holdfast"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    command.chmod(0o755)
    script = completion.SCRIPTS[shell] + ASKING[shell]
    if shell == "zsh":  # whose own functions for completion are not loaded
        script = "compdef() { }\n" + script
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    called = ["zsh", "-f", "-c", script] if shell == "zsh" else [shell, "-c", script]
    done = subprocess.run(called, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == SHOWN[shell], done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_the_first_press(tmp_path: Path) -> None:
    """compinit autoloads the file from a folder, so the first call both defines the function and answers."""
    (tmp_path / "_holdfast").write_text(completion.SCRIPTS["zsh"])
    (tmp_path / "holdfast").write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    (tmp_path / "holdfast").chmod(0o755)
    script = f"fpath=({tmp_path}); autoload -U _holdfast; compdef() {{ }}; {ASKING['zsh']}"
    script = script.replace("_holdfast_completion", "_holdfast")
    done = subprocess.run(
        ["zsh", "-f", "-c", script],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "HOLDFAST_HOME": str(tmp_path / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == SHOWN["zsh"]
