"""Real programs go on after a capture: some of the catalog, and how the command speaks of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.runtime.controller import Holdfast
from holdfast.runtime.programs import catalog, runner
from holdfast.runtime.programs.program import Program, Run

pytestmark = pytest.mark.engine

QUICK = (
    "bash-jobs",
    "bash-pipeline",
    "zombies",
    "other-user",
    "python-asyncio",
    "pdb",
    "ipykernel",
    "c-channels",
)


@pytest.fixture
def program() -> Callable[..., Program]:
    def make(name: str, **more: Any) -> Program:
        ready = "begun state"
        start = "i=0; while :; do i=$((i+1)); echo $i 0 > new; mv new state; sleep 0.05; done"
        return Program(
            name=name,
            family="made",
            does="counts",
            **{"start": start, "ready": ready, "check": (Run("steady state"),)} | more,
        )

    return make


def test_programs_go_on_in_parent_and_copies(hf: Holdfast) -> None:
    """Eight at once: jobs, pipelines, the dead, other users, coroutines, a debugger, a kernel, channels."""
    found = runner.run(hf, catalog.chosen(QUICK))
    assert [f"{one.program}: {one.reason}" for one in found if one.word != "works"] == []


RENAMED = """
import os, time
for name in ("/dev/shm/opened", "/srv/opened"):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"kept")
    os.link(name, name + "-otherwise")
    os.unlink(name)
n = 0
while True:
    n += 1
    faults = sum(os.pread(fd, 4, 0) != b"kept" or os.fstat(fd).st_nlink != 1 for fd in range(3, fd + 1))
    open("new", "w").write(f"{n} {faults}\\n")
    os.replace("new", "state")
    time.sleep(0.05)
"""


def test_a_file_open_by_a_name_it_has_no_more_comes_back(
    hf: Holdfast, program: Callable[..., Program]
) -> None:
    """As semaphores of POSIX are, in shared memory: opened by one name, known by another."""
    start = f"exec python3 -c '{RENAMED}'"
    programs = [program("renamed", start=start), program("neighbour")]
    assert [(one.word, one.reason) for one in runner.run(hf, programs) if one.word != "works"] == []


def test_one_program_does_not_redden_its_neighbours(hf: Holdfast, program: Callable[..., Program]) -> None:
    """What makes a capture fail is found; the others work. What does not start is told with its words."""
    bad = "mkdir -p m; exec 9</proc/self/ns/net; exec strace -o trace sleep 100041"
    programs = [
        program("first"),
        program("traced", start=bad, ready="[ -s trace ]", refusable=("gdb",)),
        program("second"),
        program("broken", start="echo 'no such thing'; exit 3"),
    ]
    said: list[str] = []
    found = {one.program: one for one in runner.run(hf, programs, say=said.append)}
    assert [found[name].word for name in ("first", "second")] == ["works", "works"], said
    assert found["traced"].word == "red"
    assert found["traced"].passed == ("started",)
    assert "refused, but not by name" in found["traced"].reason
    assert "no such thing" in found["broken"].reason


def test_the_command_lists_and_reports(cli: Any) -> None:
    """The list needs no engine; a wrong name is refused; what only goes with programs is said."""
    names = [entry["name"] for entry in cli("doctor", "--programs", "--list", "--json").json]
    assert names == [program.name for program in catalog.PROGRAMS]
    assert cli("doctor", "--programs", "--only", "emacs", "--json").error["code"] == "invalid_argument"
    assert cli("doctor", "--list", "--json").error["code"] == "invalid_argument"


def test_the_command_writes_the_table(cli: Any, tmp_path: Any, hf: Holdfast) -> None:
    """As JSON on standard output and as a page; progress is on standard error."""
    page = tmp_path / "page.md"
    done = cli("doctor", "--programs", "--only", "bash-read", "--json", "--markdown", str(page))
    assert (done.code, [entry["result"] for entry in json.loads(done.out)]) == (0, ["works"]), done.err
    assert "works: bash-read" in done.err
    assert "| bash-read |" in page.read_text()
