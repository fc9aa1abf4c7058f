"""Variables of an execution exist for its cell, and are removed after it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b import code_execution


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # another environment may be active
    for name in ("E2B_KEPT", "E2B_PASSING"):
        monkeypatch.setenv(name, "before")  # so that it is restored at the end
        monkeypatch.delenv(name)
    made = InteractiveShell.instance()
    yield made
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, code: str, kept: dict[str, str], passing: dict[str, str]) -> None:
    before = code_execution.source("python", kept, passing)
    if before is not None:
        _done(shell, before, silent=True)
    _done(shell, code)


def _done(shell: Any, code: str, **how: Any) -> None:
    shell.run_cell(code, **how).raise_error()


def test_variables_of_an_execution_last_for_its_cell(shell: InteractiveShell) -> None:
    names = set(shell.user_ns)
    run(shell, "import os\nseen = os.environ['E2B_PASSING']", {}, {"E2B_PASSING": "it's \"\n"})
    assert shell.user_ns["seen"] == "it's \"\n"
    assert "E2B_PASSING" not in os.environ
    assert set(shell.user_ns) - names == {"os", "seen"}
    os.environ["E2B_PASSING"] = "old"
    run(shell, "seen = os.environ['E2B_PASSING']", {}, {"E2B_PASSING": "new"})
    assert (shell.user_ns["seen"], os.environ["E2B_PASSING"]) == ("new", "old")


def test_variables_go_when_the_cell_fails_and_stay_if_it_has_set_them(shell: InteractiveShell) -> None:
    with pytest.raises(ZeroDivisionError):
        run(shell, "1 / 0", {}, {"E2B_PASSING": "x"})
    assert "E2B_PASSING" not in os.environ
    run(shell, "import os; os.environ['E2B_PASSING'] = 'mine'", {}, {"E2B_PASSING": "x"})
    assert os.environ["E2B_PASSING"] == "mine"


def test_variables_of_the_sandbox_are_set_once(shell: InteractiveShell) -> None:
    kept = {"E2B_KEPT": "theirs"}
    run(shell, "import os; os.environ['E2B_KEPT'] += '!'", kept, {})
    run(shell, "pass", kept, {})
    assert os.environ["E2B_KEPT"] == "theirs!"
    run(shell, "pass", {"E2B_KEPT": "other"}, {})
    assert os.environ["E2B_KEPT"] == "other"


def test_an_empty_environment_runs_no_code() -> None:
    assert code_execution.source("python", {}, {}) is None


@pytest.mark.parametrize(
    "variables", [{"": "x"}, {"a=b": "x"}, {"a": "\0"}, {"a\0": "x"}, {"a": "\ud800"}, {"a": "x" * 70_000}]
)
def test_invalid_settings_are_refused(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="cannot set the environment"):
        code_execution.checked(variables)


def in_bash(*cells: str) -> list[str]:
    """Run pieces of code in one bash, and return the lines they print."""
    bash = shutil.which("bash")
    assert bash
    clean = {"PATH": os.environ["PATH"], "HOME": "/"}
    # Typed, as its kernel does it: each line by itself, in an interactive shell.
    done = subprocess.run(
        [bash, "--norc", "--noprofile", "-i"],
        input="\n".join(cells) + "\n",
        env=clean,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_bash_has_an_executions_variables_until_the_next_one() -> None:
    """They are other programs' as well; earlier values return, and values that the cell has set stay."""

    def before(passing: dict[str, str], kept: dict[str, str] | None = None) -> str:
        return code_execution.source("bash", kept or {}, passing) or ""

    odd = "it's \"$(echo x)` \t\n !x é \\"
    shown = in_bash(
        "export OLD=old",
        before({"NEW": odd, "OLD": "passing"}),
        "printenv NEW | od -An -c | tr -d ' \\n'; echo; printenv OLD",
        before({}),
        "printenv OLD; echo ${NEW-none}",
        before({"NEW": "1"}),
        "NEW=mine",
        before({}),
        "echo $NEW; set | grep -c __holdfast",
        before({"LONG": "y" * 20_000}),
        "printenv LONG | wc -c",
    )
    assert shown[1:] == ["passing", "old", "none", "mine", "0", "20001"]
    octal = subprocess.run(["od", "-An", "-c"], input=odd + "\n", capture_output=True, text=True, check=True)
    assert shown[0] == "".join(octal.stdout.split())


def test_bash_has_the_sandboxs_variables_once() -> None:
    kept = {"KEPT": "theirs", "not-a-name": "x"}
    first, second = (code_execution.source("bash", each, {}) or "" for each in (kept, {"KEPT": "other"}))
    assert in_bash(first, "KEPT+=more; printenv KEPT", first, "printenv KEPT", second, "printenv KEPT") == [
        *("theirsmore", "theirsmore", "other")
    ]


def test_unsupported_options_of_a_language_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="not allow a variable named a-b"):
        code_execution.source("bash", {}, {"a-b": "x"})
    with pytest.raises(InvalidArgument, match="code in cobol"):
        code_execution.source("cobol", {}, {"A": "x"})
    assert code_execution.source("cobol", {"A": "x"}, {}) is None
