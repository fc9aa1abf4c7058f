"""A supervisor that is killed in a session is started again, and finds shells, kernels and jobs as they were.

The end is by a signal or for lack of memory, in a session, in its copies, and after a suspension.
"""

from __future__ import annotations

from typing import Any

from holdfast import Holdfast, Session

KILL = "pkill -9 -x holdfast"
GREEDY = """
import os, sys
open(f"/proc/{sys.argv[1]}/oom_score_adj", "w").write("1000")
open("/proc/self/oom_score_adj", "w").write("100")
held = []
while True:
    held.append(bytearray(os.urandom(1 << 20)))
"""
"""A program that has the supervisor killed for memory before itself, and itself before shell and kernel."""


def _restarts(session: Session) -> list[dict[str, Any]]:
    return [dict(event.data) for event in session.events(kinds=["restarted"])]


def _kept(session: Session) -> tuple[str, str | None]:
    """Return the values that the shell and the kernel remember."""
    return session.exec("echo $KEEP").text.strip(), session.cell("x + 1").text


def test_shells_kernels_and_jobs_survive_the_kill_of_a_supervisor(hf: Holdfast) -> None:
    """In the session, in a copy, after a suspension; jobs and commands that run end with their own codes."""
    session = hf.new("accident")
    session.exec("KEEP=1")
    session.cell("x = 41")
    shell = session.exec("echo $$").text
    job = session.detach("echo one; until [ -e /workspace/go ]; do sleep 0.1; done; echo two; exit 5")

    hit = session.exec(f"echo first; {KILL}; echo second; (exit 7)")
    assert (hit.text, hit.exit_code) == ("first\nsecond\n", 7)
    (told,) = [event for event in hit.news if event.kind == "restarted"]
    assert "ended by SIGKILL and was started again: shell main" in told.text
    assert "kernel main" in told.text
    assert session.exec("echo $$").text == shell
    assert _kept(session) == ("1", "42")

    copy = session.snapshot("after").restore("copy")
    assert _kept(copy) == ("1", "42")
    copy.exec(KILL)
    copy.exec("touch go")
    assert _kept(copy) == ("1", "42")
    assert copy.job(job.id).wait().exit_code == 5
    assert copy.exec("echo $$").text == shell
    again = copy.snapshot("again").restore("third")
    assert _kept(again) == ("1", "42")

    session.suspend()
    session.resume()
    session.exec(KILL)
    assert _kept(session) == ("1", "42")
    session.exec("touch go")
    ended = session.job(job.id).wait()
    assert (ended.text, ended.exit_code) == ("one\ntwo\n", 5)
    assert [len(_restarts(each)) for each in (session, copy, again)] == [2, 2, 2]


def test_a_supervisor_killed_for_memory_is_followed_by_another(hf: Holdfast) -> None:
    """A program that eats all has it killed: the next result names the cause, and the session continues."""
    session = hf.new("greedy", memory="256m")
    session.exec("KEEP=1")
    session.files.write("greedy.py", GREEDY)
    ended = session.exec("python3 greedy.py $(pgrep -x holdfast)", timeout=120)
    assert ended.exit_code == 128 + 9
    (told,) = [event for event in (*ended.news, *session.exec("true").news) if event.kind == "restarted"]
    assert "supervisor was killed: out of memory" in told.text
    assert session.exec("echo $KEEP").text == "1\n"
