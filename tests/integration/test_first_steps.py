"""First steps with a session, and its answers: results, waiting, names, the end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast import (
    CommandNotFound,
    Holdfast,
    InvalidArgument,
    JobNotFound,
    KernelNotFound,
    Session,
    SessionBusy,
    SessionNotFound,
    ShellNotFound,
)

# Results.


def test_text_that_bash_cannot_read_is_explained(shared: Session, shared_cli: Any) -> None:
    """After it was run, and before, without running it; also on the command line."""
    open_quote = shared.exec("echo 'open")
    assert (open_quote.exit_code, open_quote.incomplete) == (2, True)
    assert "not finished (line 1: unexpected EOF" in open_quote.message
    in_the_middle = shared.exec("echo first\n)\necho second")
    assert (in_the_middle.exit_code, in_the_middle.text[-7:]) == (0, "second\n")
    assert "line 2: syntax error near unexpected token `)'" in in_the_middle.message

    checked = shared.check_syntax("touch /srv/ran\nif true")
    assert (checked.ok, checked.incomplete) == (False, True)
    assert shared.check_syntax("touch /srv/ran").ok
    assert shared.exec("ls /srv/ran").exit_code == 2
    asked = shared_cli("exec", "--check", "shared", "fi")
    assert (asked.code, asked.out) == (2, "")
    assert asked.err == "holdfast: line 1: syntax error near unexpected token `fi'\n"
    assert shared_cli("exec", "--check", "--json", "shared", "true").json["ok"] is True
    said = shared_cli("exec", "shared", "cat << EOF")
    assert (said.code, "the here-document does not end (expected `EOF')" in said.err) == (2, True)


def test_a_lying_or_hanging_bash_delays_no_result(shared: Session) -> None:
    """Root in a session can replace bash: a result then has no explanation, or that bash's text."""
    fake = "#!/bin/bash.real\n{}\n"
    huge = "printf 'bash: line %s: a\\n\\nbash: line 7: b\\033]0;c\\007\\n' $(printf '9%.0s' {1..5000}) >&2"
    planted = shared.exec(
        "cp /bin/bash /bin/bash.real && cat > /bin/liar <<'END' && chmod 755 /bin/liar\n"
        f"{fake.format(huge)}END"
    )
    assert planted.ok
    assert shared.exec("mv /bin/liar /bin/bash").ok
    lied = shared.exec("(exit 2)")
    checked = shared.check_syntax("true")
    hangs = fake.format("sleep 98765 & exec sleep 98765")
    hanging = f"cat > /bin/liar <<'END' && chmod 755 /bin/liar && mv /bin/liar /bin/bash\n{hangs}END"
    assert shared.exec(hanging).ok
    late = shared.exec("(exit 2)")
    left = shared.exec("pgrep -f 'sleep 98765'; mv /bin/bash.real /bin/bash")

    assert (lied.exit_code, checked.message, checked.line) == (2, "b]0;c", 1)
    assert (late.exit_code, late.message, left.text) == (2, "", "")


def test_output_comes_as_text(shared: Session) -> None:
    """A character written in two pieces stays one; bytes are available on request."""
    texts: list[str] = []
    pieces: list[bytes] = []
    shared.exec(r"printf 'a\303'; sleep 0.1; printf '\251\n'", on_output=texts.append, on_bytes=pieces.append)
    job = shared.detach(r"printf 'a\303'; sleep 0.1; printf '\251'")
    shown: list[str] = []
    job.wait(on_output=shown.append)
    job.follow(shown.append)

    assert "".join(texts) == "aé\n"
    assert b"".join(pieces) == "aé\n".encode()
    assert "".join(shown) == "aéaé"


def test_a_result_has_the_directory_and_the_shown_text(shared: Session) -> None:
    """The shell's directory; and of a line that a REPL repaints, the last version."""
    assert shared.exec("cd /usr/bin").cwd == "/usr/bin" == shared.shell().cwd
    assert shared.exec("cd").cwd == "/root"
    asked = shared.exec("python3")
    assert asked.cwd is None
    answered = shared.answer("print('hello world')\n")
    shared.answer("exit()\n")

    assert answered.plain.splitlines()[-2:] == ["hello world", ">>>"]
    assert "\x1b" in answered.text


def test_another_user_gets_the_directory(hf: Holdfast) -> None:
    """And errexit, and text that cannot be read: with no more rights than that user has."""
    session = hf.new("user", user="nobody")

    assert session.exec("cd /tmp").cwd == "/tmp"
    assert session.exec("set -e; false").message.startswith("`set -e` ended the shell")
    assert session.exec("fi").message.endswith("syntax error near unexpected token `fi'")


def test_nothing_pages_unless_asked_to(shared: Session) -> None:
    """An agent's commands never meet a pager."""
    made = shared.exec(
        "git init -q /srv/repo; cd /srv/repo; for i in $(seq 60); do "
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m $i; done; git log; cd"
    )

    assert made.ok
    assert made.text.count("commit ") == 60


# Waiting.


def test_an_interrupt_reports_its_result_and_frees_the_shell(shared: Session) -> None:
    """The next command is always accepted; a program that continues says what it waits for."""
    for command in ("read x", "python3 -c 'input()'", "sleep 600", "bash -c 'read x; read y'", "cat"):
        begun = shared.exec(command, patience=1)
        assert begun.running
        ended = shared.interrupt()
        assert ended is not None
        assert (ended.command_id, ended.running) == (begun.command_id, False)
        assert ended.exit_code == 130
        assert shared.exec("true").ok
    assert shared.interrupt() is None
    shared.exec("python3")
    again = shared.interrupt()
    assert again is not None
    assert again.waiting is not None
    assert again.waiting.detail == "repl"
    shared.answer("exit()\n")
    shared.exec("trap '' INT; sh -c 'echo on; exec sleep 600'", patience=1)
    deaf = shared.interrupt(patience=0.2)
    assert deaf is not None
    assert deaf.running
    shared.detach("pkill -TERM -x sleep").wait()
    assert shared.exec("trap - INT", busy_wait=60).ok


def test_patience_ends_the_wait_not_the_command(shared: Session, shared_cli: Any) -> None:
    """By `exec` and `answer`; on the command line with 124 and how to continue."""
    begun = shared.exec(
        "echo begun; read x; until [ -e /srv/go ]; do sleep 0.02; done; echo $x", wait=True, patience=2
    )
    assert (begun.running, begun.text, begun.waiting) == (True, "begun\n", None)
    answered = shared.answer("word\n", patience=1)
    assert (answered.running, answered.command_id) == (True, begun.command_id)
    shared.detach("touch /srv/go").wait()
    assert shared.join(begun.command_id).text.endswith("word\n")

    left = shared_cli("exec", "--patience", "0.2", "shared", "sleep 600")
    assert left.code == 124
    assert f"`holdfast wait shared {shared.shell().command_id}` follows it" in left.err
    shared.interrupt()
    sent = shared_cli("exec", "shared", "read x; sleep 600")
    assert sent.code == 75
    assert shared_cli("send", "--wait", "--patience", "0.2", "-e", "shared", "x").code == 124
    shared.interrupt()


def test_a_second_caller_can_wait(shared: Session, shared_cli: Any) -> None:
    """For the shell and for the kernel; otherwise it is refused immediately."""
    shared.exec("rm -f /srv/go")
    shell = shared.exec("until [ -e /srv/go ]; do sleep 0.02; done", patience=0)
    assert shell.running
    cell = threading.Thread(
        target=shared.cell, args=("import os, time\nwhile not os.path.exists('/srv/go'): time.sleep(0.02)",)
    )
    cell.start()
    with pytest.raises(SessionBusy):
        shared.exec("true")
    with pytest.raises(SessionBusy):
        shared.exec("true", busy_wait=0.1)
    waiting = [
        shared_cli.start("exec", "--busy-wait", "60", "shared", "exit 3"),
        shared_cli.start("cell", "--busy-wait", "60", "shared", "1/0"),
    ]
    shared.detach("sleep 0.5; touch /srv/go").wait()
    assert [process.wait(60) for process in waiting] == [3, 1]
    cell.join(60)


# Names and arguments.


def test_missing_things_are_lookup_errors(shared: Session) -> None:
    """Each has a class of its own, whichever way it is looked up."""
    calls: dict[type[Exception], Any] = {
        ShellNotFound: [lambda: shared.exec("true", shell="two"), lambda: shared.shell("two")],
        KernelNotFound: [lambda: shared.cell("1", kernel="two")],
        JobNotFound: [lambda: shared.job("two")],
        CommandNotFound: [lambda: shared.join("two")],
    }
    for kind, wrong in calls.items():
        for call in wrong:
            with pytest.raises(LookupError) as raised:
                call()
            assert type(raised.value) is kind


def test_lines_that_a_terminal_would_truncate_are_refused(shared: Session) -> None:
    """With the limit; none of it arrives. Earlier lines of a long text are reported."""
    shared.exec("cat > /srv/typed")
    with pytest.raises(InvalidArgument, match=r"has 10000 bytes.*takes 4095 .*; nothing was typed$"):
        shared.answer("y" * 10_000 + "\n")
    with pytest.raises(InvalidArgument, match="only its first 1048576 bytes were typed"):
        shared.send(("y" * 15 + "\n") * (1 << 16) + "y" * 5000 + "\n")
    shared.send("\x04")
    assert shared.exec("stat -c %s /srv/typed; rm /srv/typed", busy_wait=60).text == "1048576\n"


def test_a_waiting_job_is_named(shared: Session) -> None:
    """By the name of its program."""
    asked = shared.detach("python3 -c 'input(\"who? \")'").wait()

    assert asked.waiting is not None
    assert asked.waiting.command == 'python3 -c input("who? ")'
    shared.job(asked.command_id).signal("KILL")


# The end of a session.


def _remove_and_fail(hf: Holdfast) -> None:
    with hf.new("brief", remove=True):
        hf.session("brief").remove()
        _ = 1 / 0


def test_a_session_can_end_with_its_block(hf: Holdfast, cli: Any) -> None:
    """On request: also by an error, and when another process was faster. Others stay."""
    with hf.new("brief", remove=True) as session:
        assert session.exec("true").ok
    with pytest.raises(SessionNotFound):
        hf.session("brief")
    with pytest.raises(ZeroDivisionError):
        _remove_and_fail(hf)
    assert cli("new", "stays").out == "stays\n"
    with hf.session("stays") as session:
        session.exec("x=1")
    assert hf.session("stays").exec("echo $x").text == "1\n"
    twice = cli("new", "stays", "--name", "other")
    assert (twice.code, "cannot name the session twice" in twice.err) == (1, True)
