"""Programs of the session's image that ask: seen, answered, captured while they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import ExecResult, Holdfast, Session, SessionBusy

PASSWORD = "correct-horse"
GIT = "GIT_EDITOR=vi git -c user.name=Ada -c user.email=ada@example.org"


@pytest.fixture(scope="module")
def users(shared_hf: Holdfast) -> Iterator[Session]:
    """Make a session whose processes are not root's; root has a password there."""
    session = shared_hf.new("users", user="nobody")
    yield session
    session.remove()


def _state(result: ExecResult) -> tuple[str | None, str]:
    assert result.waiting is not None, result
    return result.waiting.detail, result.waiting.prompt


def _leave(session: Session, result: ExecResult, *texts: str) -> None:
    """Answer the questions of a command, until it ends."""
    for text in texts:
        session.answer(text)
    session.interrupt()
    assert not session.join(result.command_id, wait=True).running


@pytest.mark.parametrize(
    ("command", "detail", "prompt", "leave"),
    [
        ("less /etc/services", "pager", None, ["q"]),
        ("seq 10000 | less", "pager", ":", ["q"]),
        ("vi /tmp/text", "key", "", ["\x1b:q!\r"]),
        ("nano /tmp/text", "key", "", ["\x18"]),
        ("python3", "repl", ">>> ", ["exit()\r"]),
        ("bash", "repl", None, ["exit\r"]),
        ("openssl genrsa -aes128 2048", "password", "Enter PEM pass phrase:", []),
        ("sudo cat", "line", "", ["\x04"]),
        (f"git init -q /tmp/r; cd /tmp/r; {GIT} commit --allow-empty", "key", "", ["\x1b:q!\r"]),
        ("rm -i /etc/hostname", "line", "rm: remove regular file '/etc/hostname'? ", ["n\n"]),
        ("apt-get remove tree", "line", "Do you want to continue? [Y/n] ", ["n\n"]),
    ],
)
def test_programs_that_ask_are_known(
    work: Session, command: str, detail: str, prompt: str | None, leave: list[str]
) -> None:
    """The call returns with the program's question; it continues when it is answered."""
    asked = work.exec(f"cd; {command}")

    assert asked.exit_code is None
    assert not asked.ok
    found = _state(asked)
    assert found == (detail, found[1] if prompt is None else prompt)
    _leave(work, asked, *leave)


def test_programs_of_another_user_are_known(users: Session) -> None:
    """Root in the container inspects them with their own ids; su has become root's and is closed to it."""
    assert users.exec("id -un").text == "nobody\n"
    for command, wanted in (
        ("python3 -c 'input(\"who? \")'", ("line", "who? ")),
        ("cat", ("line", "")),
        ("su root", ("password", "Password: ")),
    ):
        asked = users.exec(command)
        assert _state(asked) == wanted
        _leave(users, asked)


def test_an_answer_can_bring_the_next_question(work: Session) -> None:
    """Each call of `answer` returns at the next one, with the output since the last."""
    first = work.exec("read -p 'one? ' a; read -s -p 'two? ' b; echo; echo $a-$b")
    second = work.answer("1\n")
    third = work.answer("2\n")

    assert [_state(first), _state(second)] == [("line", "one? "), ("password", "two? ")]
    assert (third.exit_code, third.text) == (0, "\n1-2\n")
    assert first.command_id == second.command_id == third.command_id
    assert not third.running


# As gpg and its agent: what asks has a session of its own, and knows the terminal by its name.
ASKED_BY_ANOTHER = r"""
import os, socket, sys, tty
ours, its = socket.socketpair()
if os.fork() == 0:
    os.setsid()
    terminal = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
    tty.setraw(terminal)
    os.write(terminal, b"Passphrase: ")
    typed = b""
    while not typed.endswith(b"\r"):
        typed += os.read(terminal, 1)
    its.send(typed)
    os._exit(0)
print("\ngot", ours.recv(100))
"""


def test_a_program_that_asks_from_elsewhere_is_known(work: Session) -> None:
    """The command waits for a process that was not started from the terminal, and that reads it."""
    work.exec(f"cat > /tmp/by_another.py <<'END'\n{ASKED_BY_ANOTHER}\nEND")

    asked = work.exec("python3 /tmp/by_another.py $(tty); stty sane")

    assert _state(asked) == ("password", "Passphrase: ")
    assert work.answer("secret\r").text.split("\n")[-2] == r"got b'secret\r'"


def test_a_call_for_a_different_command_is_refused(work: Session) -> None:
    """The refusal says what has to be answered first; a caller that keeps waiting is not disturbed by it."""
    asked = work.exec("read -p 'Name: ' name")
    with pytest.raises(SessionBusy, match=r"waits for a line \('Name: '\)"):
        work.exec("true")
    assert work.answer("Ada\n").ok
    assert work.join(asked.command_id).ok


def test_the_command_line_answers(shared_cli: Callable[..., Any]) -> None:
    """75 says that it waits; `send --wait` answers and continues, `wait` follows, `exec --wait` stays."""
    asked = shared_cli("exec", "shared", "read -s -p 'Secret: ' x; echo; echo got $x")
    assert (asked.code, asked.out) == (75, "Secret: ")
    assert "waits for a password ('Secret: ')" in asked.err
    assert "holdfast send" in asked.err
    again = shared_cli("wait", "shared", "--json")
    assert (again.code, again.json["waiting"]["detail"]) == (75, "password")
    patience = shared_cli("wait", "shared", "--wait", "--patience", "0.2")
    assert patience.code == 124
    done = shared_cli("send", "shared", "--wait", "-e", "x1")
    assert (done.code, done.out) == (0, "\ngot x1\n")
    assert shared_cli("wait", "shared").code == 1


def test_a_question_is_captured_and_answered_in_a_fork(hf: Holdfast) -> None:
    """The copy asks the same; its answer is not the parent's, which still waits."""
    session = hf.new("asks")
    asked = session.exec(
        "read -rsp 'Password: ' password; echo; [ $password = " + PASSWORD + " ] && echo opened"
    )
    assert _state(asked) == ("password", "Password: ")

    fork = session.fork(1, "answers")[0]
    there = fork.join(asked.command_id)
    answered = fork.answer(f"{PASSWORD}\n")
    here = session.shell().observed

    assert there.waiting is not None
    assert there.waiting == asked.waiting
    assert answered.ok
    assert answered.text == "\nopened\n"
    assert here == asked.waiting
    assert session.answer("wrong\n").exit_code == 1
