"""The command that tries programs lists them, and refuses unknown names. Needs no engine."""

import pytest
from tests.compat.__main__ import run
from tests.compat.programs import catalog

from holdfast.errors import InvalidArgument


def test_the_command_lists_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """One program to a line, in the order of the catalog."""
    run(["programs", "list"])
    lines = capsys.readouterr().out.splitlines()
    programs = (*catalog.PROGRAMS, *catalog.FURTHER)
    assert [line.split()[0] for line in lines] == [program.name for program in programs]


def test_the_command_refuses_an_unknown_name() -> None:
    """Before a session is made."""
    with pytest.raises(InvalidArgument, match="'emacs'"):
        run(["programs", "run", "bash-jobs", "emacs"])
