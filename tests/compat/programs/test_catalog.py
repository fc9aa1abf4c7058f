"""The catalog is well-formed: the author of an entry sees immediately which field is missing."""

import shutil
import subprocess

import pytest
from tests.compat.programs import catalog, payload
from tests.compat.programs.program import Program, Run, Type
from tests.compat.stacks import STACKS

from holdfast.errors import InvalidArgument

ALL = (*catalog.PROGRAMS, *catalog.FURTHER)
FILES = {path.name for path in payload.FILES.iterdir()}


def commands(program: Program) -> list[str]:
    steps = [step.command for step in program.check if isinstance(step, Run)]
    own = [] if program.where == "cell" else [program.start]
    return [program.prepare, program.ready, *own, *steps]


def test_names_are_unique() -> None:
    """A name stands for one program, and none is also a family's name."""
    names = [program.name for program in ALL]
    others = {one.family for one in ALL} - {"rust", "java"}
    assert len(set(names)) == len(names)
    assert not set(names) & others


@pytest.mark.parametrize("program", ALL, ids=lambda program: program.name)
def test_an_entry_is_complete(program: Program) -> None:
    """It has a description, a start, a condition to wait for and a check; its packages are known."""
    assert program.faults() == []
    assert not program.stack or program.stack in STACKS


@pytest.mark.parametrize("program", ALL, ids=lambda program: program.name)
def test_commands_of_the_catalog_exist(program: Program) -> None:
    """Bash can read its commands, and the files they name are in the catalog."""
    for command in commands(program):
        for word in command.replace('"', " ").replace("'", " ").replace(";", " ").split():
            if word.startswith("$INSIDE/"):
                assert word.removeprefix("$INSIDE/") in FILES
        done = subprocess.run(
            [shutil.which("bash") or "bash", "-n"], input=command.encode(), capture_output=True
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_faults_of_an_entry_are_named() -> None:
    """Each missing part is reported separately."""
    bad = Program(
        name="Bad Name", family="", does="", start="", ready="", check=(Type("x"),), where="foreground"
    )
    assert len(bad.faults()) == 4
    assert Program("ok-name", "f", "d", "s", "r", (Type("x"), Run("ok")), where="cell").faults() == [
        "a kernel has no terminal to type into"
    ]


def test_programs_are_chosen_by_name_or_family() -> None:
    """In the order of the catalog, whatever the order of the names; all if none is given."""
    assert [one.name for one in catalog.chosen(["pdb", "bash-jobs"])] == ["bash-jobs", "pdb"]
    assert {one.family for one in catalog.chosen(["c"])} == {"c"}
    assert catalog.chosen() == list(catalog.PROGRAMS)


def test_an_unknown_program_is_refused() -> None:
    """By its name, with the command that lists them."""
    with pytest.raises(InvalidArgument, match="'emacs'") as caught:
        catalog.chosen(["bash-jobs", "emacs"])
    assert "programs list" in caught.value.hint


def test_the_files_are_packed_reproducibly() -> None:
    """The archive is small, and the same for the same files."""
    assert payload.packed() == payload.packed()
    assert len(payload.packed()) < 100_000
