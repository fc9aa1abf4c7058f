"""Programs that are started directly in real sessions: pipes, exit codes, users, timeouts, captures."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration import both_doors

from holdfast.errors import InvalidArgument, ProgramNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session


def test_streams_exit_code_and_environment_are_the_programs(work: Session) -> None:
    """Nothing goes through a shell, and the shell stays free."""
    before = {each.id for each in work.programs.list()}
    work.exec("cd /srv; export WORD=kept", timeout=60)
    made = work.run(["sh", "-c", 'echo "$WORD $MORE $PWD"; echo wrong >&2; exit 3'], env={"MORE": "a b"})
    assert (made.text, made.stderr, made.exit_code, made.ok) == ("kept a b /srv\n", b"wrong\n", 3, False)
    assert work.run(["printf", "%s|", "a b", "$HOME", "*", "'"]).text == "a b|$HOME|*|'|"
    killed = work.run(["sh", "-c", "kill -9 $$"])
    assert (killed.exit_code, killed.signal) == (None, 9)
    assert work.run(["tty"]).text == "not a tty\n"
    assert work.run(["cat"]).stdout == b""
    assert work.run(["pwd"], cwd="/usr").text == "/usr\n"
    assert work.run(["sh", "-c", "id -un; echo $WORD:$HOME"], user="nobody", cwd="/").text.startswith(
        "nobody\n:"
    )
    assert [each.exit_code for each in work.programs.list() if each.id not in before][:2] == [3, 0]
    # Changes of files are noted a moment after the command that made them.
    kinds = [entry.kind for entry in work.journal() if entry.kind != "changed"][-2:]
    assert kinds == ["run_started", "run_ended"]


def test_a_failure_to_run_is_one_line(shared: Session) -> None:
    for argv, how, said in (
        (["nosuch"], {}, "cannot run nosuch: no such program"),
        (["/etc/passwd"], {}, "cannot run /etc/passwd: permission denied"),
        (["ls"], {"cwd": "/nope"}, "cannot run ls in /nope: no such directory"),
        (["ls"], {"user": "stranger"}, "no such user"),
        (["a\0b"], {}, "NUL"),
        (["ls"], {"env": {"A=B": "c"}}, "an invalid name"),
        ([], {}, "must be a list"),
        ("ls -l", {}, "must be a list"),
        (["x" * 3_000_000], {}, "more than"),
        (["x" * 200_000], {}, "^cannot run x{20,300}….* too long$"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            shared.run(argv, **how)
    with pytest.raises(ProgramNotFound):
        shared.programs.get("nothing").info()
    with pytest.raises(InvalidArgument, match="signal"):
        shared.programs.start(["sleep", "1"]).signal("NOSUCH")


@pytest.mark.parametrize("work", both_doors.LONG, indirect=True)
def test_gigabytes_pass_through_unchanged(work: Session) -> None:
    """More than the session keeps: the writer waits for the reader."""
    size, total, digest = 300 << 20, 0, hashlib.sha256()
    piece = os.urandom(1 << 20)

    def take(data: bytes) -> None:
        nonlocal total
        total += len(data)
        digest.update(data)

    made = work.run(["cat"], input=(piece for _ in range(size >> 20)), on_stdout=take)

    expected = hashlib.sha256()
    for _ in range(size >> 20):
        expected.update(piece)
    assert (made.exit_code, total, made.lost) == (0, size, 0)
    assert digest.digest() == expected.digest()
    assert len(made.stdout) <= 1 << 20


def test_a_timeout_ends_the_program_and_all_that_it_started(work: Session) -> None:
    script = "trap '' TERM; setsid sleep 77777 & sleep 77777 & exec sleep 77777"
    made = work.run(["bash", "-c", script], timeout=0.5)
    assert (made.timed_out, made.ok) == (True, False)
    deadline = time.monotonic() + 30
    while work.run(["pgrep", "-f", "^sleep 77777"]).exit_code == 0:
        assert time.monotonic() < deadline
    left = work.programs.start(["sh", "-c", "sleep 0.2; echo late"])
    assert left.wait(patience=0).info.state == "running"
    assert left.wait().text == "late\n"
    assert left.wait().text == "late\n"


def test_input_comes_in_pieces_and_can_be_ignored(work: Session) -> None:
    program = work.programs.start(["sh", "-c", "read a; echo got $a; cat"], input=True)
    program.write("one\n")
    program.write(b"two\n")
    program.close_input()
    program.close_input()
    assert program.wait().text == "got one\ntwo\n"
    assert work.run(["true"], input=(b"x" * 100_000 for _ in range(1000))).exit_code == 0
    assert work.run(["head", "-c", "3"], input=b"abcdef").text == "abc"


def test_a_program_lives_in_all_copies_and_its_streams_go_on(hf: Holdfast) -> None:
    """A run that is followed continues across snapshots; the same id works in a restored copy."""
    session = hf.new("runs")
    counting = (
        "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo $i; [ $((i % 10)) = 0 ] && echo e$i >&2; done; cat"
    )
    program = session.programs.start(["sh", "-c", counting], input=True)
    found: list[Any] = []
    following = threading.Thread(target=lambda: found.append(program.wait()))
    following.start()
    snapshots = [session.snapshot() for _ in range(3)]
    program.write("the end\n")
    program.close_input()
    following.join()
    lines = [str(number) for number in range(1, 30001)]
    assert found[0].text.splitlines() == [*lines, "the end"]
    assert found[0].stderr.decode().splitlines() == [
        f"e{number}" for number in lines if int(number) % 10 == 0
    ]
    copy = snapshots[0].restore("copy")
    there = copy.programs.get(program.id)
    there.write("in a copy\n")
    there.close_input()
    assert there.wait().text.splitlines() == [*lines, "in a copy"]


def test_the_command_passes_streams_and_code(shared: Session, shared_cli: Any, tmp_path: Path) -> None:
    name = shared.name
    made = shared_cli("run", name, "--", "sh", "-c", "echo out; echo err >&2; exit 5")
    assert (made.code, made.out, made.err) == (5, "out\n", "err\n")
    assert shared_cli("run", "-i", name, "--", "tr", "a-z", "A-Z", stdin="hello").out == "HELLO"
    assert (
        shared_cli("run", "-e", "A=b", "-w", "/usr", name, "--", "sh", "-c", "echo $A $PWD").out == "b /usr\n"
    )
    assert shared_cli("run", name, "--", "sh", "-c", "kill -15 $$").code == 143
    assert shared_cli("run", "--timeout", "0.5", name, "--", "sleep", "100").code == 124
    told = shared_cli("run", "--json", name, "--", "echo", "x").json
    assert (told["exit_code"], told["stdout"], told["argv"]) == (0, "x\n", ["echo", "x"])
    failed = shared_cli("run", name, "--", "nosuch")
    assert (failed.code, failed.err) == (1, "holdfast: cannot run nosuch: no such program\n")
    assert "must be KEY=VALUE" in shared_cli("run", "-e", "A", name, "--", "ls").err
    running = shared_cli.start("run", name, "--", "sleep", "88888", stderr=subprocess.DEVNULL)
    while shared.run(["pgrep", "-f", "^sleep 88888"]).exit_code != 0:
        assert running.poll() is None
    running.send_signal(2)
    assert running.wait(60) == 130
    deadline = time.monotonic() + 30
    while shared.run(["pgrep", "-f", "^sleep 88888"]).exit_code == 0:
        assert time.monotonic() < deadline


def test_an_image_gets_a_session_of_its_own(shared: Session, shared_cli: Any, shared_hf: Holdfast) -> None:
    """It is removed at the end, with the program's exit code as the command's; a mistyped name is not an
    image."""
    before = [each.name for each in shared_hf.sessions()]
    done = shared_cli("run", shared.row.image, "--", "sh", "-c", "echo in; exit 3")
    assert (done.code, done.out) == (3, "in\n")
    assert [each.name for each in shared_hf.sessions()] == before
    slip = shared_cli("run", "sharde", "--", "true")
    assert slip.code == 1
    assert "an image is named with its tag: sharde:latest" in slip.err
