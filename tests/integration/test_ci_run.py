"""Jobs of a CI system: their output, their exit codes, and the captures of failed ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.base import own_folders
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.transfer import transfer_options
from holdfast.snapshots.bundle.keys import Keys

PATIENCE = 120.0
SCRIPT = str(Path(__file__).parents[2] / "docs" / "recipes" / "any-ci.sh")
SECRET = "correct-horse-battery"


@pytest.fixture
def jobs(request: pytest.FixtureRequest, shared_hf: Holdfast, shared_home: Home) -> Iterator[Any]:
    """The command line of the home without a CI system's variables. No job leaves a session behind."""
    cli = request.getfixturevalue("make_cli")(shared_home)
    for name in [name for name in cli.environment if name.startswith(("GITHUB_", "CI_", "BUILD_URL"))]:
        del cli.environment[name]
    yield cli
    assert [session.name for session in shared_hf.sessions()] == []
    for snapshot in reversed(shared_hf.snapshots()):
        snapshot.remove()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A small project under git."""
    root = tmp_path / "project"
    (root / "tests").mkdir(parents=True)
    (root / ".gitignore").write_text("*.log\n")
    (root / "tests" / "data.txt").write_text("kept\n")
    (root / "skip.log").write_text("ignored\n")
    (root / "link").symlink_to("tests/data.txt")
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], check=True)
    (root / "untracked").write_text("new\n")
    return root


def ran(jobs: Any, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a job to its end."""
    return subprocess.run(
        jobs.command("ci", "run", *words),
        env=jobs.environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def only(hf: Holdfast) -> Snapshot:
    (found,) = hf.snapshots()
    return found


def until(fits: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not fits():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_failing_command_is_captured_with_its_server(
    jobs: Any, shared_hf: Holdfast, repo: Path, tmp_path: Path
) -> None:
    """Its output byte for byte and its exit code; the processes it left running continue in the copy.

    The checkout is there as git has it. The value of a secret is in no text: not in the stream, the summary,
    the record, the journal, the options of the session, the files.
    """
    summary, github = tmp_path / "summary.md", tmp_path / "github.md"
    script = (
        "python3 -m http.server 8123 >/dev/null 2>&1 & until curl -s localhost:8123 >/dev/null; do :; done; "
        r'pwd; id -u; git status --short --porcelain; ls -1 ..; cat ../link; printf "a\r\n\000\377b\n"; '
        'echo "$MY_TOKEN"; echo "FAILED tests/a.py::b - boo"; exit 3'
    )
    jobs.environment |= {"MY_TOKEN": SECRET, "GITHUB_STEP_SUMMARY": str(github)}
    options = ["--summary", str(summary), "--env", "MY_TOKEN", "--user", "nobody"]
    done = ran(jobs, *options, "--checkout", str(repo / "tests"), "--", "bash", "-c", script)
    assert done.returncode == 3, done.stderr.decode()
    assert done.stdout == (
        b"/workspace/tests\n65534\n?? untracked\nlink\ntests\nuntracked\nkept\na\r\n\0\377b\n***\n"
        b"FAILED tests/a.py::b - boo\n"
    )
    taken = only(shared_hf)
    failure = taken.failure
    assert failure is not None
    assert (failure.reason, failure.exit_code, failure.where) == ("failed", 3, "tests/a.py::b")
    assert "http.server" in failure.pulse
    assert ":8123 listening" in failure.pulse
    assert f"thaw it: holdfast thaw {taken.name}" in done.stderr.decode()
    told = summary.read_text()
    assert f"holdfast thaw {taken.name}" in told
    assert github.read_text() == told

    copy = taken.restore("copy")
    try:
        assert "200 OK" in copy.exec("curl -sI localhost:8123/", timeout=60).text
        known = [told, done.stderr.decode(), json.dumps(taken.row.details), json.dumps(copy.row.options)]
        known += [str(entry) for entry in copy.journal(all_timelines=True)]
        assert not [text for text in known if SECRET in text]
        assert copy.exec('echo "${MY_TOKEN-none}"').text == "none\n"
        searched = copy.exec(
            f"grep -rls {SECRET[:8]}{'[-]'}horse /var/lib/holdfast /workspace /run /tmp /etc"
        )
        assert searched.text == ""
    finally:
        copy.remove()


def test_a_job_with_a_read_only_root(jobs: Any, shared_hf: Holdfast, repo: Path) -> None:
    """The checkout arrives and can be written to; files of the image cannot, here and in the copy."""
    script = "cat link && touch here /opt/new/in && ! touch /usr/there && exit 4"
    options = ["--read-only", "--writable", "/opt/new", "--checkout", str(repo)]
    done = ran(jobs, *options, "--", "bash", "-c", script)
    assert done.returncode == 4, done.stderr.decode()
    assert done.stdout == b"kept\ntouch: cannot touch '/usr/there': Read-only file system\n"
    copy = only(shared_hf).restore("copy")
    try:
        assert copy.exec("ls here /opt/new/in && ! touch /usr/there").exit_code == 0
    finally:
        copy.remove()


def test_a_token_that_no_variable_holds_is_in_no_text(jobs: Any, shared_hf: Holdfast, tmp_path: Path) -> None:
    """A token the job made itself: recognized by its form, in the stream, the summary, the record
    and JSON.
    """
    token, half = SECRETS["npm token"][0], len(SECRETS["npm token"][0]) // 2
    summary = tmp_path / "summary.md"
    script = f"printf '%s' {token[:half]}; sleep 0.2; echo {token[half:]}; false"

    done = jobs("ci", "run", "--no-checkout", "--summary", str(summary), "--json", "--", "bash", "-c", script)

    assert done.code == 1
    assert "[scrubbed: npm token]" in done.err
    failure = only(shared_hf).failure
    assert failure is not None
    assert "[scrubbed: npm token]" in failure.tail
    for text in (done.out, done.err, summary.read_text(), json.dumps(failure.as_details())):
        assert token not in text


@pytest.mark.thorough
def test_an_unanswered_question_is_thawed_as_a_question(jobs: Any, shared_hf: Holdfast) -> None:
    """Exit code 75 immediately; thawed on a terminal, it shows the question, and the program takes the
    answer.

    Without a terminal, thaw describes the capture: its size, the failure, and the way in.
    """
    done = jobs(
        *["ci", "run", "--no-checkout", "--answer-after", "1s", "--json", "--setup", "word=kept", "--"],
        *["bash", "-c", 'read -s -p "Password: " word; echo "got $word"'],
    )
    assert done.code == 75, done.err
    told = done.json
    assert (told["exit_code"], told["failure"]["reason"]) == (75, "hang")
    assert "waits for a password ('Password: ')" in told["failure"]["message"]
    assert "Password: " in done.err
    (kept,) = told["captured"]
    snapshot = kept["thaw"].split()[-1]
    try:
        terminal = pexpect.spawn(
            sys.executable,
            ["-m", "holdfast", "thaw", snapshot, "--name", "there"],
            env=jobs.environment,
            dimensions=(30, 100),
            timeout=PATIENCE,
        )
        terminal.expect("no deviations")
        terminal.expect("waits for a password")
        terminal.expect("C-] leaves")
        terminal.expect("Password:")
        terminal.send("swordfish\r")
        terminal.expect("got swordfish")
        terminal.send("echo $word\r")
        terminal.expect(r"\bkept")
        terminal.send("\x1d")
        terminal.expect(pexpect.EOF)

        for_programs = jobs("thaw", snapshot, "--json", "--as", "files", "--name", "files")
        assert for_programs.code == 0, for_programs.err
        found = for_programs.json
        assert (found["name"], found["rung"], found["failure"]["reason"]) == ("files", "files", "hang")
        assert found["snapshot"]["id"] == snapshot
        assert found["attach"] == ["holdfast attach files"]
        assert "the processes and their memory" in found["lost"]
        refused = jobs("thaw", snapshot, "--as", "files", "--require", "live")
        assert refused.code == 1
        assert "cannot require live" in refused.err
    finally:
        for session in shared_hf.sessions():
            session.remove()


def test_a_failing_test_is_captured_where_it_fails(jobs: Any, shared_hf: Holdfast) -> None:
    """A capture the command requested is kept, reported, and sufficient: the end of the job is not captured.

    The program continues, and knows the name of its snapshot; secrets are in no record.
    """
    jobs.environment |= {"CI_JOB_URL": "https://ci/7", "MY_TOKEN": SECRET}
    script = (
        'holdfast-capture --failed tests/a.py::b --reason "boo $MY_TOKEN"; '
        "code=$?; echo code $code; exit $((code + 1))"
    )
    done = jobs("ci", "run", "--no-checkout", "--json", "--env", "MY_TOKEN", "--", "bash", "-c", script)
    assert done.code == 1, done.err
    (kept,) = done.json["captured"]
    taken = only(shared_hf)
    assert kept["thaw"] == f"holdfast thaw {taken.name}"
    assert f"resumed {taken.id} {taken.name}" in done.err
    failure = taken.failure
    assert failure is not None
    assert (failure.where, failure.message, failure.job) == ("tests/a.py::b", "boo ***", "https://ci/7")
    copy = taken.restore("copy")
    try:
        until(lambda: "code 10" in copy.terminal.screen().text, "the copy does not go on")
    finally:
        copy.remove()


def test_a_job_that_hangs_is_captured(jobs: Any, shared_hf: Holdfast) -> None:
    """Exit code 124, and the program is in the snapshot. A capture that is too large is reported, not kept.

    The files are kept instead, if the job asked for that.
    """
    hangs = ["--", "bash", "-c", "touch made; sleep 98765"]
    done = jobs("ci", "run", "--no-checkout", "--timeout", "3s", *hangs)
    assert done.code == 124, done.err
    failure = only(shared_hf).failure
    assert failure is not None
    assert failure.reason == "timeout"
    assert "sleep 98765" in failure.pulse
    only(shared_hf).remove()

    limits = ["--size-limit", "1m", "--fallback", "files", "--hang-after", "1s"]
    done = jobs("ci", "run", "--no-checkout", "--json", *limits, *hangs)
    assert done.code == 124, done.err
    assert "the limit is 1 MiB" in done.json["not_captured"]
    assert "it made no progress" in done.json["failure"]["message"]
    kept = only(shared_hf)
    assert (kept.kind, kept.failure and kept.failure.reason) == ("filesystem", "hang")


def test_a_job_that_succeeds_leaves_nothing(
    jobs: Any, shared_hf: Holdfast, repo: Path, tmp_path: Path
) -> None:
    """No snapshot, no session, no summary, by the script for any CI system. A setup can also fail a job."""
    (tmp_path / "holdfast").write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    (tmp_path / "holdfast").chmod(0o755)
    out = tmp_path / "out"
    settings = {"HOLDFAST_SETUP": "cd tests; made=1", "HOLDFAST_OUT": str(out), "HOLDFAST_ENV": "WORD"}
    done = subprocess.run(
        [SCRIPT, "bash", "-c", 'pwd; cat data.txt; echo "$WORD"'],
        cwd=repo,
        env={**jobs.environment, **settings, "PATH": f"{tmp_path}:{os.environ['PATH']}", "WORD": "a b"},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"/workspace/tests\nkept\na b\n")
    (key,) = Keys(shared_hf.home).known()  # made before the job, in a home that had none
    setup = "holdfast: setup: cd tests; made=1\n"
    assert done.stderr.decode() in (setup, f"holdfast: {transfer_options.made_key(key.public)}\n{setup}")
    assert shared_hf.snapshots() == []
    assert not list(out.glob(f"*{own_folders.BUNDLE}"))
    assert {path.name for path in out.iterdir()} == {own_folders.TAG, ".gitignore"}, "marked as ours"

    summary = out / "summary.md"
    arguments = ["ci", "run", "--no-checkout", "--summary", str(summary), "--capture-limit", "1"]
    done = jobs(*arguments, "--setup", "sh -c 'kill -9 $$'", "--", "echo", "no")
    assert (done.code, "no" in done.out) == (137, False)
    assert "setup" in summary.read_text()


def test_a_job_that_is_stopped_leaves_nothing(jobs: Any, shared_hf: Holdfast, tmp_path: Path) -> None:
    """After Ctrl-C the exit code is 130; after kill -9 the next command of the home removes the session.

    If the session itself is ended, the job has failed, and the summary says that nothing could be kept.
    """
    summary = tmp_path / "summary.md"
    job = ["ci", "run", "--no-checkout", "--summary", str(summary), "--memory", "512m"]
    running = [jobs.start(*job, "--", "bash", "-c", "echo up; exec sleep 600", **pipes()) for _ in range(3)]
    for each in running:
        assert each.stdout.readline() == b"up\n"
    running[0].send_signal(signal.SIGINT)
    running[1].kill()
    said = [each.communicate(timeout=PATIENCE) for each in running[:2]]
    assert [each.returncode for each in running[:2]] == [130, -9], said
    assert not summary.exists()
    assert len(shared_hf.sessions()) == 2
    (left,) = jobs("ls", "--json").json
    until(lambda: len(shared_hf.sessions()) == 1, "the session of the killed job stays")
    shared_hf.engine.kill_remove(str(shared_hf.session(left["id"]).row.container_id))
    said = [running[2].communicate(timeout=PATIENCE)]
    assert running[2].returncode == 1, said
    assert "**Not captured alive:**" in summary.read_text()
    assert shared_hf.sessions() == []


def pipes() -> dict[str, Any]:
    return {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
