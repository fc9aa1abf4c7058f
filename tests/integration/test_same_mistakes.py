"""A mistake is the same error in process and over a URL: its class, its text and its hint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration import both_doors

from holdfast.base.home import Home
from holdfast.errors import (
    HoldfastError,
    KernelNotFound,
    ProgramNotFound,
    SessionNotFound,
    ShellNotFound,
    SnapshotNotFound,
)
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.results import CellResult

Mistakes = dict[str, Callable[[Any], object]]


async def _callback(_: object) -> None:
    """Would have to be awaited."""


ASKING = CellResult("waiting", None, "", "", cell_id="none", seq=0)
COMMANDS: Mistakes = {
    "a text as argv": lambda s: s.run("w"),
    "no argv": lambda s: s.run([]),
    "a NUL in argv": lambda s: s.run(["a\0b"]),
    "an unknown program": lambda s: s.run(["nosuch"]),
    "a wrong variable": lambda s: s.run(["ls"], env={"A=B": "c"}),
    "an unknown folder": lambda s: s.run(["ls"], cwd="/nope"),
    "an unknown user": lambda s: s.run(["ls"], user="stranger"),
    "a timeout of nothing for a program": lambda s: s.run(["ls"], timeout=0),
    "a text as argv of a start": lambda s: s.programs.start("w"),
    "an unknown id of a program": lambda s: s.programs.get("none").info(),
    "a wrong id of a program": lambda s: s.programs.get("a b").info(),
    "an unknown signal": lambda s: s.programs.start(["sleep", "1"]).signal("NOSUCH"),
    "argv as a text": lambda s: s.exec(["ls", "-l"]),
    "no text": lambda s: s.exec(" "),
    "an empty text": lambda s: s.exec(""),
    "a NUL": lambda s: s.exec("echo \0"),
    "a timeout of nothing": lambda s: s.exec("true", timeout=0),
    "a timeout in words": lambda s: s.exec("true", timeout="x"),
    "patience below nothing": lambda s: s.exec("true", patience=-1),
    "a lease in words": lambda s: s.exec("true", lease_wait="x"),
    "a busy wait below nothing": lambda s: s.exec("true", busy_wait=-1),
    "an unknown shell": lambda s: s.exec("true", shell="none"),
    "a wrong shell": lambda s: s.exec("true", shell="a b"),
    "a shell that is a number": lambda s: s.exec("true", shell=7),
    "a coroutine function": lambda s: s.exec("true", on_output=_callback),
    "an unknown command": lambda s: s.join("no such command"),
    "a command of another shell": lambda s: s.join("none", shell="none"),
    "typed numbers": lambda s: s.send(7),
    "typed into no shell": lambda s: s.send("x", shell="none"),
    "an answer of numbers": lambda s: s.answer(7),
    "an empty answer": lambda s: s.answer(""),
    "an interrupt in no shell": lambda s: s.interrupt(shell="none"),
    "syntax of nothing": lambda s: s.check_syntax(" "),
    "syntax of numbers": lambda s: s.check_syntax(7),
    "a job of words": lambda s: s.detach(["ls"]),
    "a job of nothing": lambda s: s.detach(" "),
    "a job of less": lambda s: s.detach(""),
    "a job with a lease of nothing": lambda s: s.detach("true", lease_wait=0),
    "a job of a stranger": lambda s: s.detach("true", user="stranger"),
    "a job without height": lambda s: s.detach("true", rows=0),
    "an unknown job": lambda s: s.job("none"),
    "no end": lambda s: s.cell("1", timeout=float("inf")),
    "code that is none": lambda s: s.cell(b"1"),
    "a busy wait of a cell": lambda s: s.cell("1", busy_wait=-1),
    "code before that is none": lambda s: s.cell("1", before=7),
    "an unknown kernel": lambda s: s.cell("1", kernel="none"),
    "a wrong kernel": lambda s: s.cell("1", kernel="a b"),
    "a coroutine function for a cell": lambda s: s.cell("1", on_event=_callback),
    "an unknown cell": lambda s: s.kernel.join("none"),
    "an interrupt of no kernel": lambda s: s.kernel.interrupt("none"),
    "a restart of no kernel": lambda s: s.kernel.restart("none"),
    "an answer to no cell": lambda s: s.kernel.answer(ASKING, "x"),
    "a wrong name": lambda s: s.exce("true"),
}
PLACES: Mistakes = {
    "a shell with a wrong name": lambda s: s.shells.open("a b"),
    "a shell with a number": lambda s: s.shells.open(7),
    "a shell without height": lambda s: s.shells.open("x", rows=0),
    "the main shell closed": lambda s: s.shells.close("main"),
    "no shell closed": lambda s: s.shells.close("none"),
    "an unknown spec": lambda s: s.kernels.open("x", spec="none"),
    "a kernel nowhere": lambda s: s.kernels.open("x", cwd="/nope"),
    "a kernel with a wrong name": lambda s: s.kernels.open("a b"),
    "the main kernel closed": lambda s: s.kernels.close("main"),
    "no kernel closed": lambda s: s.kernels.close("none"),
    "an unknown key": lambda s: s.terminal.send_keys("Entr"),
    "a screen of no shell": lambda s: s.terminal_of("none").screen(),
    "a lease of no time": lambda s: s.terminal.take(0),
    "a lease in words of a terminal": lambda s: s.terminal.take("x"),
    "a lease for no one": lambda s: s.terminal.give("nobody:"),
    "a recording of no time": lambda s: s.terminal.recording("never"),
    "a folder": lambda s: s.files.read("/tmp"),
    "no file": lambda s: s.files.read("/tmp/none"),
    "a file as a folder": lambda s: s.files.list("/etc/passwd"),
    "no path": lambda s: s.files.stat(""),
    "a path with a NUL": lambda s: s.files.stat("a\0b"),
    "too many permissions": lambda s: s.files.chmod("/tmp", 0o7777),
    "permissions that are none": lambda s: s.files.chmod("/tmp", True),
    "permissions of a new file": lambda s: s.files.write("/tmp/x", b"", mode=0o7777),
    "nothing to find": lambda s: s.files.find(most=0),
    "too much to find": lambda s: s.files.find(most=10**6),
    "nothing to replace": lambda s: s.files.replace("/etc/passwd", "", "x"),
    "a stranger's files": lambda s: s.files.as_user("stranger").stat("/"),
    "a watch of nothing": lambda s: s.files.watch("/tmp/none"),
    "a move of nothing": lambda s: s.files.move("/tmp/none", "/tmp/other"),
    "a removal of nothing": lambda s: s.files.remove("/tmp/none"),
    "a download of nothing": lambda s: s.files.download("/tmp/none", "/nowhere"),
    "an upload of nothing": lambda s: s.files.upload("/nowhere", "/tmp/x"),
    "an upload into nothing": lambda s: s.files.upload(__file__, "/tmp/none/x"),
    "drift since nothing": lambda s: s.drift("nothing"),
    "an unknown part": lambda s: s.pulse(parts=["odd"]),
    "a port of none": lambda s: s.port(0),
    "a port too high": lambda s: s.wait_port(70000),
    "no server": lambda s: s.wait_port(9, patience=0),
    "less than no patience": lambda s: s.wait_port(9, patience=-1),
}
CHANGES: Mistakes = {
    "a wrong label": lambda s: s.set_labels(["a b=c"]),
    "a label without value": lambda s: s.set_labels(["a"]),
    "a policy of words": lambda s: s.policy(every="x"),
    "an unknown policy": lambda s: s.policy(nosuch=1),
    "a wrong time": lambda s: s.policy(idle="1x"),
    "an unknown kind of policy": lambda s: s.policy(kind="odd"),
    "nowhere": lambda s: s.allow("nowhere"),
    "no exception": lambda s: s.disallow("127.0.0.9:1"),
    "a wrong domain": lambda s: s.allow_domains("a b"),
    "an unknown network": lambda s: s.change_network("odd"),
    "no forks": lambda s: s.fork(0),
    "too many forks": lambda s: s.fork(1000),
    "a fork with a wrong name": lambda s: s.fork(1, "a b"),
    "a snapshot with a wrong label": lambda s: s.snapshot("a b"),
    "no obstacle": lambda s: s.snapshot("x", force_drop=["pid:999999"]),
    "a template with a wrong name": lambda s: s.template("a b"),
    "a rewind to nothing": lambda s: s.rewind("none"),
    "a rewind too far": lambda s: s.rewind("@-99"),
    "a rewind to a wrong name": lambda s: s.rewind("a b"),
    "a resume of what runs": lambda s: s.resume(),
    "no goal": lambda s: s.task.plan("- a"),
    "an unknown step": lambda s: s.task.done("9.9"),
    "a wrong step": lambda s: s.task.done("x"),
    "a wrong item": lambda s: s.task.drop("odd", 1),
    "an unknown entry": lambda s: s.task.attempt("1.1", "#99999"),
    "no budget": lambda s: s.task.handoff(0),
    "an unknown artifact": lambda s: s.task.artifact("x", "/tmp/none"),
}
HOME: Mistakes = {
    "an unknown session": lambda hf: hf.session("none"),
    "a wrong session": lambda hf: hf.session("a b"),
    "no session": lambda hf: hf.session(""),
    "no session removed": lambda hf: hf.remove_session("none"),
    "an unknown snapshot": lambda hf: hf.snapshot("none"),
    "no snapshot removed": lambda hf: hf.remove_snapshot("none"),
    "no snapshots removed": lambda hf: hf.remove_snapshots("none"),
    "a difference of nothing": lambda hf: hf.diff("none", "other"),
    "a fork of nothing": lambda hf: hf.fork("none"),
    "a name in use": lambda hf: hf.new("shared"),
    "a new wrong name": lambda hf: hf.new("a b"),
    "a wrong memory": lambda hf: hf.new(memory="x"),
    "an unknown network of a new one": lambda hf: hf.new(network="odd"),
    "an unknown option": lambda hf: hf.new(nosuch=1),
    "an unknown template": lambda hf: hf.new(template="none"),
    "a wrong policy": lambda hf: hf.new(policy={"every": "x"}),
    "a wrong label of a new one": lambda hf: hf.new(labels=["a b=c"]),
    "a wrong label asked for": lambda hf: hf.sessions(labels=["a b"]),
    "an artifact of nothing": lambda hf: hf.artifacts.find("none"),
    "an artifact to save": lambda hf: hf.artifacts.save("none", "/nowhere"),
    "an artifact to remove": lambda hf: hf.artifacts.remove("none"),
}


FORM = frozenset(
    (
        "a NUL in argv",
        "a wrong variable",
        "an unknown signal",
        "a shell that is a number",
        "an empty answer",
        "a job of less",
        "a job without height",
        "a shell with a wrong name",
        "a shell with a number",
        "a shell without height",
        "a kernel with a wrong name",
        "a lease of no time",
        "a lease in words of a terminal",
        "no path",
        "a path with a NUL",
        "nothing to find",
        "too much to find",
        "nothing to replace",
        "an upload into nothing",
        "an unknown part",
        "a port of none",
        "a port too high",
        "a policy of words",
        "an unknown policy",
        "an unknown kind of policy",
        "an unknown network",
        "no forks",
        "too many forks",
        "a fork with a wrong name",
        "a snapshot with a wrong label",
        "a template with a wrong name",
        "a wrong step",
        "a wrong item",
        "no budget",
        "a new wrong name",
        "an unknown network of a new one",
        "an unknown option",
        "a wrong policy",
    )
)
"""Mistakes that the form of a request refuses, or the client, in other words. It only shrinks."""
SOUGHT: dict[str, type[HoldfastError]] = {
    "a wrong id of a program": ProgramNotFound,
    "a wrong shell": ShellNotFound,
    "a wrong kernel": KernelNotFound,
    "a rewind to a wrong name": SnapshotNotFound,
    "a wrong session": SessionNotFound,
    "no session": SessionNotFound,
}
"""Names that nothing can have: not found in process, not valid in a request. It only shrinks."""


@pytest.fixture(scope="module", params=both_doors.BRIEF[1:])
def far(request: pytest.FixtureRequest, shared: Session, shared_home: Home) -> Iterator[Holdfast]:
    """The same home over a URL."""
    with both_doors.opened(request.param, shared_home) as controller:
        yield controller


def _raised(mistake: Callable[[Any], object], handle: object) -> tuple[Any, ...]:
    try:
        mistake(handle)
    except HoldfastError as error:
        return type(error), str(error), error.hint
    except Exception as error:  # noqa: BLE001  (its kind is compared)
        return (type(error),)
    return (None,)


def _differences(mistakes: Mistakes, here: object, there: object) -> dict[str, Any]:
    """Return the mistakes whose errors differ, unless listed, and listed ones that do not."""
    found: dict[str, Any] = {}
    for name, mistake in mistakes.items():
        told, over = _raised(mistake, here), _raised(mistake, there)
        if name in SOUGHT:
            same = told[0] is SOUGHT[name] and over[0] is not told[0]
        else:
            same = told[0] is over[0] and (told == over) is (name not in FORM)
        if not same or told[0] is None or over[0] is None:
            found[name] = (told, over)
    return found


@pytest.mark.parametrize("mistakes", [COMMANDS, PLACES, CHANGES], ids=["commands", "places", "changes"])
def test_a_mistake_with_a_session_is_the_same(far: Holdfast, shared: Session, mistakes: Mistakes) -> None:
    if both_doors.awaits(far):
        mistakes = {name: each for name, each in mistakes.items() if not name.startswith("a coroutine")}
    assert _differences(mistakes, shared, far.session(shared.id)) == {}


def test_a_mistake_with_a_home_is_the_same(far: Holdfast, shared_hf: Holdfast, shared: Session) -> None:
    assert _differences(HOME, shared_hf, far) == {}
    assert [each.id for each in shared_hf.sessions()] == [shared.id]
