"""Programs at prompts and in terminals of their own: the same in copies, and in copies of copies."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, LiveUnsupported, Session
from holdfast.runtime.api.job import Job
from holdfast.snapshots import service

pytestmark = pytest.mark.thorough

# /srv/front says whether it has its terminal by both names and controls it; /srv/pane runs inside tmux.
SETUP = r"""
cat > /srv/front <<'END'
#!/usr/bin/python3
import os
os.close(os.open("/dev/tty", os.O_RDWR))
print("at", os.ttyname(0)[:8], os.tcgetpgrp(0) == os.getpgrp())
END
cat > /srv/pane <<'END'
trap '/srv/front > /tmp/pane; tmux wait-for -S done' INT
tmux wait-for -S up
while :; do sleep 0.1; done
END
chmod +x /srv/front
useradd --create-home bob
echo root:rootpw | chpasswd
openssl genrsa -aes128 -passout pass:secret -out /srv/key.pem 2048 2>/srv/said && chmod 644 /srv/key.pem
"""
# How it is started, the answer it gets, its output then. `su` is root's program run by bob, on a terminal
# of a session whose leader is root's, and changes its user when it is answered.
PROMPTS = {
    "getpass": ("python3 -c 'import getpass; print(\"got\", getpass.getpass())'", "x1\n", "got x1"),
    "openssl": ("openssl rsa -in /srv/key.pem -noout -check", "secret\n", "key ok"),
    "less": ("seq 500 | less", "q", ""),
    "su": ("su bob -c 'su root -c id'", "rootpw\n", "uid=0(root)"),
}
# A job that reads its terminal from the background is stopped by SIGTTIN.
JOBS = """
{ read -r line; echo got $line; } &
until [ "$(ps -o stat= $!)" = T ]; do :; done
tmux new-session -d 'bash /srv/pane'; tmux wait-for up
"""
# A terminal made by a program, as tmux and script do. One end writes faster than the other reads: it is full
# when it is captured. What arrives is checked number by number.
FULL = r"""
import os, pty, time
child, master = pty.fork()
if child == 0:
    with os.fdopen(1, "wb") as out:
        for number in range(100_000): out.write(b"%d\n" % number)
    os._exit(0)
wanted, rest = 0, b""
print("up", flush=True)
while True:
    time.sleep(0 if os.path.exists("/srv/go") else 0.001)
    try: data = os.read(master, 700)
    except OSError: break
    *lines, rest = (rest + data).split(b"\r\n")
    for line in lines:
        assert line == b"%d" % wanted, (line, wanted)
        wanted += 1
print("all", wanted)
"""
CRIU_KEEPS = 16384
# Nothing reads until it is captured: it holds more than CRIU keeps. The writer says how much.
BEYOND = r"""
import os, pty, sys, time, tty
child, master = pty.fork()
if child == 0:
    tty.setraw(1)
    os.set_blocking(1, False)
    there, last = b"", time.monotonic()
    while time.monotonic() < last + 0.5:
        try: done = os.write(1, b"%07d." % (len(there) // 8))
        except BlockingIOError: time.sleep(0.01); continue
        there, last = there + b"%07d." % (len(there) // 8), time.monotonic()
        assert done == 8, done
    open("/srv/there", "w").write(str(len(there)))
    while not os.path.exists("/srv/go"): time.sleep(0.05)
    os._exit(0)
while not os.path.exists("/srv/there"): time.sleep(0.05)
print("up", flush=True)
while not os.path.exists("/srv/go"): time.sleep(0.05)
found = b""
while True:
    try: found += os.read(master, 700)
    except OSError: break
print(found == b"".join(b"%07d." % number for number in range(len(found) // 8)), len(found))
"""
# Two and a half lines are typed before the program reads; the rest of the third comes after the capture.
AHEAD = r"""
import os, pty, time
child, master = pty.fork()
if child == 0:
    while not os.path.exists("/srv/go"): time.sleep(0.05)
    print([os.read(0, 100) for _ in range(3)])
    os._exit(0)
os.write(master, b"one\ntwo\nthr")
shown = b""
while not shown.endswith(b"thr"): shown += os.read(master, 1000)
print("up", flush=True)
while not os.path.exists("/srv/go"): time.sleep(0.05)
os.write(master, b"\x7fee\n")
while True:
    try: shown += os.read(master, 1000)
    except OSError: break
print(shown)
"""
# As sudo and script do: it keeps both ends of the terminal of a session, of which a process is born with it.
KEEPS = r"""
import fcntl, os, termios, time
master, slave = os.openpty()
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    os.dup2(slave, 0)
    os.close(master), os.close(slave)
    is_member = os.fork() == 0
    while not os.path.exists("/srv/go"): time.sleep(0.05)
    if not is_member:
        os._exit(os.waitpid(-1, 0)[1] >> 8)
    with os.fdopen(os.open("/dev/tty", os.O_WRONLY), "w") as terminal:
        print("mine", os.tcgetpgrp(0) == os.getpgrp(), file=terminal)
    os._exit(0)
print("up", flush=True)
print(os.read(master, 100), os.wait()[1])
"""
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


def _await(job: Job, *ends: bytes) -> None:
    """Wait without looking at what it is blocked on: that is closed for a program that has changed
    its user.
    """
    deadline = time.monotonic() + 60
    while not job.output().rstrip().endswith(ends):
        assert time.monotonic() < deadline, job.output()
        time.sleep(0.02)


def _answered(session: Session, job: str, text: str) -> str:
    found = session.job(job)
    found.send(text)
    done = found.wait(wait=True, patience=60)
    assert done.exit_code == 0, (session.name, done)
    return done.text


def _last_line(session: Session, job: str) -> str:
    """Return the last line of a program that has ended."""
    done = session.job(job).wait(wait=True, patience=120)
    if done.exit_code is None:
        there = session.exec("ps -eo pid,ppid,tpgid,stat,tty,wchan:24,args | grep '[/]srv/'", timeout=60).text
        pytest.fail(f"{done.text!r} is all of {job} in {session.name}: {there.splitlines()}")
    return done.text.splitlines()[-1]


def test_prompts_and_terminals_in_copies_and_in_the_parent(hf: Holdfast) -> None:
    """Programs that ask by /dev/tty or have changed their user are answered; terminals and jobs are kept."""
    parent = hf.new("prompts")
    assert parent.exec(SETUP, timeout=60).ok
    jobs = {}
    for name, (command, _, _) in PROMPTS.items():
        job = parent.detach(command, name=name)
        _await(job, b":", b"\x1b[K")
        jobs[name] = job.id
    shell = parent.detach("su bob", name="shell")
    _await(shell, b"$")
    loop = parent.detach("trap 'echo interrupted' INT; echo up; while :; do sleep 0.1; done", name="loop")
    _await(loop, b"up")
    assert parent.exec(JOBS, timeout=60).ok
    copy = parent.snapshot().restore("copy").snapshot().restore("copy-of-copy")
    for session in (copy, parent):
        for name, (_, answer, said) in PROMPTS.items():
            assert said in _answered(session, jobs[name], answer)
        assert "at /dev/pts True" in _answered(session, shell.id, "/srv/front; exit\n")
        session.job(loop.id).signal("INT")
        _await(session.job(loop.id), b"interrupted")
        inside = session.exec("tmux send-keys C-c; tmux wait-for done; cat /tmp/pane", timeout=60)
        assert inside.text.splitlines()[-1] == "at /dev/pts True"
        asked = session.exec("fg %1", timeout=60)
        assert asked.waiting is not None
        assert session.answer("typed\n").text.endswith("got typed\n")


def _begun(session: Session, name: str, code: str) -> str:
    """Start a program, and wait until it says that it is up; return its job."""
    job = session.detach(f"cat > /srv/{name}.py <<'END'\n{code}\nEND\npython3 /srv/{name}.py")
    _await(job, b"up")
    return job.id


def test_a_terminal_both_of_whose_ends_its_maker_keeps(hf: Holdfast) -> None:
    """It is that of its session in the copy, of the processes that were born with it as well."""
    parent = hf.new("kept")
    job = _begun(parent, "keeps", KEEPS)
    copy = parent.snapshot().restore("copy")
    assert copy.verification is not None
    assert copy.verification.deviations == []
    for session in (copy, parent):
        assert session.exec("touch /srv/go").ok
        assert _last_line(session, job) == r"b'mine True\r\n' 0"


def test_pending_terminal_data_stays_in_order(hf: Holdfast) -> None:
    """Unread output, more than CRIU keeps; input that no program asked for yet, echoed once."""
    parent = hf.new("queues")
    jobs = {}
    for name, code in (("full", FULL), ("beyond", BEYOND), ("ahead", AHEAD)):
        jobs[name] = _begun(parent, name, code)
    there = int(parent.exec("cat /srv/there").text)
    assert there > CRIU_KEEPS
    copy = parent.snapshot().restore("copy")
    for session in (copy, parent):
        assert session.exec("touch /srv/go").ok
        assert _last_line(session, jobs["beyond"]) == f"True {there}"
        assert _last_line(session, jobs["full"]) == "all 100000"
        lines = r"[b'one\\n', b'two\\n', b'thee\\n']"
        shown = f'b"one\\r\\ntwo\\r\\nthr\\x08 \\x08ee\\r\\n{lines}\\r\\n"'
        assert _last_line(session, jobs["ahead"]) == shown


def test_obstacles_can_be_left_out(hf: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy has a descriptor at end-of-file in its place, also in a set of epoll; the parent keeps it."""
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
        with pytest.raises(LiveUnsupported) as refused:
            parent.snapshot()
        names = [found["drop"] for found in refused.value.findings]
        copy = parent.snapshot(force_drop=names).restore("copy")
        there = copy.cell(
            "names = [os.readlink(f'/proc/self/fd/{fd}') for fd in (file.fileno(), shared)]\n"
            "try: outside.send(b'x')\n"
            "except OSError as error: print(type(error).__name__, *names)\n"
            "print(len(watched.poll(30)))"
        )
        here = parent.cell("print(outside.send(b'x'), os.readlink(f'/proc/self/fd/{shared}'))")
    assert there.stdout == "BrokenPipeError /dev/null /dev/null\n1\n"
    assert here.stdout == "1 /srv/file\n"
