"""Captures that programs of a session ask for: each returns twice, in the session and in every copy."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from holdfast.errors import SessionBusy
from holdfast.runtime.api.capture_requests import Served
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.snapshots.failure import Failure

PROGRAM = """
import os, sys, holdfast_session as hs
name, secret = sys.argv[1], os.urandom(4).hex()
print(name, "asks", secret, flush=True)
failed = {"reason": "failed", "where": name + ".py:7", "message": "no\\x1b[2J"}
try:
    done = hs.capture(reason=name, failure=failed)
except hs.CaptureFailed as error:
    print(name, type(error).__name__, error.code, error, flush=True)
else:
    print(name, done.kind, done.snapshot, done.reference or "-", done.own, secret, flush=True)
"""


@pytest.fixture(scope="module")
def asking(shared_hf: Holdfast) -> Session:
    session = shared_hf.new("asking")
    assert session.exec(f"cat > /srv/program.py <<'END'\n{PROGRAM}END").ok
    return session


def last(text: str, name: str) -> list[str]:
    """Return the words a program printed last."""
    return [line.split() for line in text.splitlines() if line.startswith(f"{name} ")][-1][1:]


def test_requests_without_a_server_are_refused(asking: Session) -> None:
    """Immediately, to programs of every language, with advice."""
    done = asking.exec("python3 /srv/program.py one; holdfast-capture; echo code $?", timeout=120)
    assert last(done.text, "one")[0] == "CaptureUnavailable"
    assert "holdfast serve-captures" in done.text
    assert last(done.text, "code") == ["69"]


def test_two_at_the_same_time_and_their_copies(asking: Session, shared_hf: Holdfast) -> None:
    """Each gets a snapshot of its own; in a copy one learns that it asked, the other that it is there by
    chance.
    """
    told: list[Served] = []
    with asking.serve_captures(reference=lambda taken: f"reg/{taken.id}", on_captured=told.append) as serving:
        with pytest.raises(SessionBusy), asking.serve_captures():
            pass
        jobs = [asking.detach(f"python3 /srv/program.py {name}") for name in ("one", "two")]
        for job in jobs:
            assert job.wait().exit_code == 0
    assert (serving.error, told) == (None, serving.served)
    texts = {name: job.wait().text for name, job in zip(("one", "two"), jobs, strict=True)}
    assert len({served.snapshot.id for served in told if served.snapshot}) == 2
    for served in told:
        taken, name = served.snapshot, str(served.asked.reason)
        assert taken is not None
        secret = last(texts[name], name)[-1]
        assert last(texts[name], name) == ["resumed", taken.id, f"reg/{taken.id}", "True", secret]
        assert taken.failure == Failure.parse(
            {"reason": "failed", "where": f"{name}.py:7", "message": "no[2J", "command": served.asked.command}
        )
    first = told[0].snapshot
    assert first is not None
    copy = first.restore("copy")
    for name, job in zip(("one", "two"), jobs, strict=True):
        said = last(copy.job(job.id).wait().text, name)
        own = name == told[0].asked.reason
        secret = last(texts[name], name)[-1]
        if not own and said[0] == "CaptureUnavailable":
            continue  # it asked only when the first was captured already
        assert said == ["restored", first.id, "-", str(own), secret]
    copy.remove()


def test_an_impossible_capture_is_reported(asking: Session) -> None:
    """The program gets the reason, and continues; also when the limit of captures is reached."""
    with asking.serve_captures(limit=2) as serving:
        for code in ("0", "1", "0", "1"):
            label = "" if len(serving.served) > 1 else "--label taken"
            done = asking.exec(
                f"holdfast-capture {label} --failed x.c:3 --reason why; echo code $?", timeout=240
            )
            assert last(done.text, "code") == [code]
    assert [bool(served.snapshot) for served in serving.served] == [True, False, True, False]
    first, second = (str(served.error) for served in serving.served if served.error)
    assert "label" in first
    assert "2 snapshots" in second
    assert {served.asked.failure.where for served in serving.served} == {"x.c:3"}


def test_a_command_serves_until_it_is_interrupted(asking: Session, shared_cli: Any) -> None:
    """It prints each capture as a line for programs; afterwards nothing serves."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with shared_cli.start("serve-captures", "asking", "--json", **pipes) as serving:
        assert b"can be captured" in serving.stderr.readline()
        done = asking.exec("holdfast-capture --json --reason why", timeout=240)
        said, line = json.loads(done.text), json.loads(serving.stdout.readline())
        assert (said["kind"], said["snapshot"]) == ("resumed", line["snapshot"])
        assert (line["reason"], line["failure"]["reason"], line["error"]) == ("why", "asked", None)
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 130
    assert asking.exec("holdfast-capture 2>/dev/null", timeout=120).exit_code == 69
