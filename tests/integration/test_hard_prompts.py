"""Programs that hold a terminal by /dev/tty, or have changed their user, are captured at their prompt."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Session
from holdfast.runtime.tasks import Task
from holdfast.snapshots import service

pytestmark = pytest.mark.engine

SETUP = """
useradd --create-home bob
echo root:rootpw | chpasswd
openssl genrsa -aes128 -passout pass:secret -out /srv/key.pem 2048 2>/srv/said && chmod 644 /srv/key.pem
"""
# How it is started, what it is answered, what it says then. `su` is root's program run by bob, on a terminal
# of a session whose leader is root's, and changes its user when it is answered.
PROMPTS = {
    "getpass": ("python3 -c 'import getpass; print(\"got\", getpass.getpass())'", "x1\n", "got x1"),
    "openssl": ("openssl rsa -in /srv/key.pem -noout -check", "secret\n", "key ok"),
    "less": ("seq 500 | less", "q", ""),
    "su": ("su bob -c 'su root -c id'", "rootpw\n", "uid=0(root)"),
}
HOLDS = """
import os, select, socket
outside = socket.socket(socket.AF_UNIX)
outside.connect("/mnt/outside/socket")
watched = select.epoll()
watched.register(outside.fileno(), select.EPOLLIN)
file = open("/srv/file", "w+")
shared = os.dup(file.fileno())
print(os.getpid(), outside.fileno(), file.fileno())
"""


def _await_prompt(task: Task) -> None:
    """Not by what it waits for: what a program that has changed its user is blocked on is closed."""
    deadline = time.monotonic() + 60
    while not task.output().rstrip().endswith((b":", b"\x1b[K")):
        assert time.monotonic() < deadline, task.output()
        time.sleep(0.02)


def _answered(session: Session, task: str, text: str) -> str:
    found = session.task(task)
    found.send(text)
    done = found.wait(wait=True, patience=60)
    assert done.exit_code == 0, (session.name, done)
    return done.text


def test_prompts_are_answered_in_copies_and_in_the_parent(hf: Holdfast) -> None:
    """Each program is captured while it asks, goes on in a copy of a copy, and waits on in the parent."""
    parent = hf.new("prompts")
    assert parent.exec(SETUP, timeout=60).ok
    tasks = {}
    for name, (command, _, _) in PROMPTS.items():
        task = parent.detach(command, name=name)
        _await_prompt(task)
        tasks[name] = task.id
    copy = parent.snapshot().restore("copy").snapshot().restore("copy-of-copy")
    for session in (copy, parent):
        for name, (_, answer, said) in PROMPTS.items():
            assert said in _answered(session, tasks[name], answer)


def test_what_cannot_be_kept_can_be_left_out(
    hf: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has something that is at its end in its place, also in a set of epoll; the parent keeps it."""
    tmp_path.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (tmp_path / "socket").chmod(0o666)
        listener.listen()
        parent = hf.new("leaves-out", mounts=[f"{tmp_path}:/mnt/outside"])
        pid, *descriptors = map(int, parent.cell(HOLDS, timeout=60).stdout.split())
        ask = service.ask

        def asking(engine: Any, home: Any, progress: Any, op: str, /, **fields: Any) -> Any:
            if op == "dump":
                fields["substitute"] = [{"pid": pid, "fd": fd, "with": "null"} for fd in descriptors]
            return ask(engine, home, progress, op, **fields)

        monkeypatch.setattr(service, "ask", asking)
        copy = parent.snapshot().restore("copy")
        there = copy.cell(
            "names = [os.readlink(f'/proc/self/fd/{fd}') for fd in (file.fileno(), shared)]\n"
            "try: outside.send(b'x')\n"
            "except OSError as error: print(type(error).__name__, *names)\n"
            "print(len(watched.poll(30)))"
        )
        here = parent.cell("print(outside.send(b'x'), os.readlink(f'/proc/self/fd/{shared}'))")
    assert there.stdout == "BrokenPipeError /dev/null /dev/null\n1\n"
    assert here.stdout == "1 /srv/file\n"
