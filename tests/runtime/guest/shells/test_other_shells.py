"""Features of bash that zsh and fish share: questions, people at the terminal, jobs; with a real
supervisor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest

SET = {"zsh": "typeset -gx {}={}", "fish": "set -gx {} {}"}
PASSWORD = "read -s 'x?Password: '; echo", "read -s -P 'Password: ' -g x; echo"
ASKS = dict(zip(SET, PASSWORD, strict=True))
"""How each asks for a line that is not shown."""
GETPASS = "python3 -c 'import getpass; print(len(getpass.getpass()))'"
EVE = "person:eve"


@pytest.fixture(scope="module", params=list(SET))
def guest(request: pytest.FixtureRequest, marks_library: Path) -> Iterator[Guest]:
    running = Guest(marks_library, shell=request.param)
    running.exec("true")
    yield running
    running.stop()


def _kind(guest: Guest) -> str:
    kind = json.loads((guest.run / "session.json").read_text())["shell"]
    assert isinstance(kind, str)
    return kind


def test_a_password_is_asked_for_and_answered(guest: Guest) -> None:
    """By the shell itself and by a program; the typed text is not in the output."""
    for command, answer in ((ASKS[_kind(guest)], b"secret\n"), (GETPASS, b"secret\n")):
        with guest.begin(command) as asking:
            state = asking.until("waiting").head["state"]
            assert (state["state"], state["detail"]) == ("waiting", "password"), state
            assert state["prompt"].strip() == "Password:"
            guest.ask("send", answer)
            seen = b"".join(frame.payload for frame in asking.frames() if frame.event == "output")
        assert b"secret" not in seen
        assert command != GETPASS or b"6" in seen
    if _kind(guest) == "zsh":
        assert guest.exec("echo $x").output == b"secret\r\n"


def test_a_person_attaches_types_and_leaves(guest: Guest) -> None:
    """They see the prompt, their line runs, its exit code is recorded, and the shell is free afterwards."""
    with guest.call("attach", actor=EVE, rows=30, cols=100) as person:
        assert person.until("attached").head["writes"] is True
        person.send("input", b"echo th''ere; stty size; sh -c 'exit 3'\r")
        assert b"there" in person.until_output(b"30 100")
    code = {"zsh": "echo $?", "fish": "echo $status"}[_kind(guest)]
    assert guest.exec(code, lease_wait=60).output == b"3\r\n"
    frames = guest.ask("journal", after_seq=0, kinds=["command_ended"])
    typed = [json.loads(frame.payload) for frame in frames if frame.event == "entry"]
    assert 3 in [entry["exit_code"] for entry in typed]


def test_a_person_interrupts_their_own_command(guest: Guest) -> None:
    with guest.call("attach", actor=EVE, rows=40, cols=120) as person:
        person.until("attached")
        # One program does both: a shell may lose an interrupt that comes between two commands.
        person.send("input", b"sh -c 'echo be\"\"gun; exec sleep 1000'\r")
        person.until_output(b"begun")
        person.send("input", b"\x03")
        person.send("input", b"echo af''ter\r")
        person.until_output(b"after")
    assert guest.exec("echo free", lease_wait=60).output == b"free\r\n"


def test_a_job_is_read_as_the_shell_reads_commands(guest: Guest) -> None:
    """In its grammar, with its exit code, and ended by an interrupt."""
    texts = {"zsh": "print -l ${(U):-one}; f() { return 4 }; f", "fish": "string upper one; sh -c 'exit 4'"}
    guest.ask("job_start", texts[_kind(guest)].encode(), id="grammar")
    frames = guest.ask("job_wait", id="grammar")
    assert b"".join(frame.payload for frame in frames if frame.event == "output") == b"ONE\r\n"
    assert frames[-1].head["exit_code"] == 4
    guest.ask("job_start", b"sh -c 'echo begun; exec sleep 1000'", id="long")
    with guest.call("job_wait", id="long") as waiting:
        waiting.until_output(b"begun")
        guest.ask("job_signal", id="long", signal="INT")
        assert waiting.until("finished").head["exit_code"] == 130


def test_jobs_have_the_variables_of_the_shell(guest: Guest) -> None:
    """As its child programs would: exported ones, with lists and lines."""
    export = SET[_kind(guest)]
    inner = {"zsh": "inner=no", "fish": "set -g inner no"}[_kind(guest)]
    lines = {"zsh": "$'a b\\nc'", "fish": "'a b'\\n'c'"}[_kind(guest)]
    more = {"zsh": "path+=(/more)", "fish": "set -gx PATH $PATH /more"}[_kind(guest)]
    guest.exec(f"{inner}; {more}; {export.format('GIVEN', lines)}; {export.format('EMPTY', chr(39) * 2)}")
    show = "sh -c 'echo \"$GIVEN\"; echo ${EMPTY-unset}${inner-unset}; echo $PATH'"
    expected = guest.exec(show).output
    assert expected.startswith(b"a b\r\nc\r\nunset\r\n/")
    assert expected.endswith(b":/more\r\n")
    guest.ask("job_start", show.encode(), id="variables")
    frames = guest.ask("job_wait", id="variables")
    assert b"".join(frame.payload for frame in frames if frame.event == "output") == expected


def test_changes_of_variables_are_in_the_journal(guest: Guest) -> None:
    """Those of the user; the session's own, and where the shell was before, are not counted."""
    guest.exec("cd /usr; cd /")
    export = SET[_kind(guest)].format("CHANGED", "1")
    guest.exec(export)
    guest.exec("true")
    found = [
        frame for frame in guest.ask("journal", after_seq=0, kinds=["changed"]) if frame.event == "entry"
    ]
    changed = {name for frame in found for name in json.loads(frame.payload).get("variables", {})}
    assert "CHANGED" in changed
    assert {name for name in changed if name.startswith("HOLDFAST_") or name == "OLDPWD"} == set()


def test_programs_learn_the_name_of_the_shell(guest: Guest) -> None:
    """`SHELL` is its path, in the shell, in jobs, and in programs started outside it."""
    path = shutil.which(_kind(guest))
    assert guest.exec("sh -c 'echo $SHELL'").output.decode().strip() == path
    guest.ask("job_start", b"sh -c 'echo $SHELL'", id="told")
    frames = guest.ask("job_wait", id="told")
    assert b"".join(frame.payload for frame in frames if frame.event == "output").decode().strip() == path
