"""Named shells of one session: separate from each other, through captures, and at a person's terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from holdfast.errors import SessionBusy, ShellNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session


@pytest.fixture(autouse=True)
def only_main_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what a failed test left open in the session that the tests of this module share."""
    yield
    if "shared" in request.fixturenames:
        session = request.getfixturevalue("shared")
        for shell in session.shells.list()[1:]:
            session.shells.close(shell.name, force=True)


def names(session: Session) -> list[str]:
    return [shell.name for shell in session.shells.list()]


def test_shells_are_separate_and_continue_in_copies(hf: Holdfast, cli: Any, tmp_path: Path) -> None:
    """A question that waits in one is answered in the parent and in each copy, as each likes."""
    session = hf.new("work")
    assert cli("shells", "work", "open", "build", "--size", "30x90").code == 0
    session.exec("cd /usr; X=main")
    session.exec("cd /tmp; X=build; sleep 1000 & job=$!", shell="build")
    asked = session.exec("read -p 'Name: ' n; echo $n $X $PWD $(stty size)", shell="build")
    assert asked.waiting is not None
    assert asked.waiting.prompt == "Name: "
    assert session.exec("echo $X $PWD").text == "main /usr\n"
    session.terminal_of("build").take(600)

    live, files = session.snapshot("live"), session.snapshot("files", kind="filesystem")
    copies = [live.restore("restored"), *live.fork(1)]
    for copy in copies:
        assert names(copy) == ["main", "build"]
        assert "Name: " in copy.terminal_of("build").screen().text
        assert copy.terminal_of("build").lease().holder is None
        assert copy.exec("echo $X $PWD").text == "main /usr\n"
        answered = copy.answer(f"{copy.name}\n", shell="build")
        assert answered.text.splitlines()[-1] == f"{copy.name} build /tmp 30 90"
        assert copy.exec("kill -0 $job; echo $X", shell="build").text == "build\n"
    session.suspend()
    session.resume()
    assert session.answer("parent\n", shell="build").text.splitlines()[-1] == "parent build /tmp 30 90"

    session.terminal_of("build").take(600)
    other = cli("--as", "agent:two", "exec", "--shell", "build", "work", "true", "--json")
    assert other.error["code"] == "session_busy"
    assert cli("--as", "agent:two", "exec", "work", "true").code == 0

    assert cli("replay", "work", "--shell", "build", "--cast", str(tmp_path / "cast")).code == 0
    played = (tmp_path / "cast").read_text()
    assert json.loads(played.splitlines()[0])["height"] == 30
    assert "Name: " in played
    assert "/usr" not in played

    plain = files.restore("plain")
    assert names(plain) == ["main"]
    plain.shells.open("build")
    assert plain.terminal_of("build").info().offset < 200, "it shows what another shell of its name wrote"
    assert plain.exec("echo $X", shell="build").text == "\n"


def test_shells_are_opened_used_and_closed_from_the_command_line(shared: Session, shared_cli: Any) -> None:
    def run(*arguments: str) -> Any:
        return shared_cli(arguments[0], *arguments[1:])

    name = shared.name
    opened = run("shells", name, "open", "logs", "--json")
    assert opened.json["shell"] == "logs"
    assert run("shells", name, "open", "logs", "--json").json["pid"] == opened.json["pid"]
    assert run("exec", "--shell", "logs", name, "cd /var; echo hi").out == "hi\n"
    listed = run("shells", name).out.splitlines()
    assert [line.split()[0] for line in listed] == ["NAME", "main", "logs"]
    assert "/var" in listed[2]
    asked = run("exec", "--shell", "logs", name, "read -p 'Who? ' who; echo $who")
    assert asked.code == 75
    assert "send --shell logs" in asked.err or f"send {name} --shell logs" in asked.err
    assert "Who? " in run("screen", name, "--shell", "logs").out
    assert "Who? " not in run("screen", name).out
    in_use = run("shells", name, "close", "logs", "--json")
    assert (in_use.code, in_use.error["code"]) == (1, "session_busy")
    assert run("send", name, "--shell", "logs", "--wait", "-e", "me").out.endswith("me\n")
    assert run("lease", name, "--shell", "logs").code == 0
    closed = run("shells", name, "close", "logs")
    assert (closed.code, closed.out, closed.err) == (0, "", "")
    assert names(shared) == ["main"]
    with pytest.raises(ShellNotFound, match="logs"):
        shared.exec("true", shell="logs")
    kinds = [event["kind"] for event in run("journal", name, "--json").json]
    assert {"shell_opened", "shell_closed"} <= set(kinds)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("open",), "cannot open a shell without its name"),
        (("list", "x"), "cannot do 'list' with the shells"),
        (("paint", "x"), "cannot do 'paint' with the shells"),
        (("open", "../x"), "cannot open the shell: its name can have"),
        (("open", "x", "--size", "big"), "cannot use the size 'big'"),
        (("open", "x", "--size", "0x0"), "cannot"),
        (("close", "main"), "cannot close shell main: a session always has it"),
        (("close", "absent"), "cannot find shell absent"),
    ],
)
def test_refusals_are_one_line(
    shared: Session, shared_cli: Any, arguments: tuple[str, ...], message: str
) -> None:
    done = shared_cli("shells", shared.name, *arguments)
    assert done.code != 0
    assert done.err.startswith(f"holdfast: {message}"), done.err
    assert len(done.err.splitlines()) <= 2
    assert names(shared) == ["main"]


def test_their_number_has_a_limit_and_a_command_ends_with_its_shell(work: Session) -> None:
    for n in range(15):
        work.shells.open(f"s{n}")
    with pytest.raises(Exception, match="there are 16 already"):
        work.shells.open("one-more")
    left = work.exec("trap '' HUP; sleep 600", shell="s0", patience=1)
    with pytest.raises(SessionBusy, match="is running in it"):
        work.shells.close("s0")
    for n in range(15):
        work.shells.close(f"s{n}", force=True)
    assert names(work) == ["main"]
    with pytest.raises(LookupError):
        work.join(left.command_id, patience=1)


def test_a_person_attaches_to_one_of_them(shared: Session, shared_cli: Any) -> None:
    shared.shells.open("desk")
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "holdfast", "--as", "person:eve", "attach", "--no-status", "--shell", "desk", shared.name],
        env=shared_cli.environment,
        dimensions=(20, 80),
        timeout=90,
    )
    terminal.expect("The shell is held")
    terminal.send("echo th''ere; stty size\r")
    terminal.expect("there")
    terminal.expect("20 80")
    assert shared.exec("true").ok
    with pytest.raises(SessionBusy, match="person:eve"):
        shared.shells.close("desk")
    shared.shells.close("desk", force=True)
    terminal.expect("the shell was closed")
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus == 0
