"""The task of a session: it is verified there, travels with snapshots, and brings a dead session back."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.served import serving

from holdfast.base.home import Home
from holdfast.errors import ArtifactNotFound, InvalidArgument, SessionBusy, SessionError, SessionFileError
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.task import kept_task, step_rules, task_changes, task_form

PLAN = "Prepare\n- Look\n- Write it :: grep -q ready answer\nChange\n- Ask :: read -p 'Sure? ' x\n"


@pytest.fixture
def work(shared_hf: Holdfast) -> Iterator[Session]:
    """A session with a task; a new one, because its record is examined."""
    session = shared_hf.new("work")
    session.task.set(goal="Port the store")
    session.task.plan(PLAN)
    yield session
    session.remove()
    for each in shared_hf.artifacts.list():
        shared_hf.artifacts.remove(each.name, each.session_id)


@pytest.fixture
def other_image(shared_hf: Holdfast) -> Iterator[str]:
    """An image that `new` did not use."""
    base = build.ensure(shared_hf.engine.images, "session")
    recipe = io.BytesIO(f"FROM {base}\nRUN echo another image > /made-of\n".encode())
    image, _ = shared_hf.engine.client.images.build(fileobj=recipe, tag="holdfast-test/task:1", rm=True)
    yield str(image.tags[0])
    shared_hf.engine.client.images.remove(image.tags[0], force=True)


def test_a_step_is_done_when_its_verification_passes_in_the_session(work: Session) -> None:
    """A failure is an attempt with its kind; evidence is the entry of the command in the journal."""
    work.exec("cd /srv; keep=1")
    failed = work.task.done("1.2")
    assert (failed.done, failed.failure and failed.failure.failure_type) == (False, "file_not_found")
    assert work.exec("echo ready > answer; cd /srv").ok
    passed = work.task.done("1.2")
    assert passed.done

    asks = work.task.done("2.1")
    assert asks.failure is not None
    assert asks.failure.failure_type == "waiting_for_input"
    assert work.exec("echo $keep $PWD").text == "1 /srv\n", "the verification does not touch the shell"

    record = work.task.record()
    assert record is not None
    step = dict(record.steps())["1.2"]
    assert (step.status, step.evidence, step.tries) == ("done", passed.entry, 2)
    started = {f"#{entry.seq}": entry for entry in work.journal(kinds=["command_started"])}
    assert "grep -q ready answer" in started[str(passed.entry)].details["command"]
    audit = [(entry.actor, entry.details["what"]) for entry in work.journal(kinds=["task_changed"])]
    assert ("agent", f"step 1.2 done ({passed.entry})") in audit
    assert len(audit) == record.revision


def test_a_report_must_be_written_by_the_verification_and_have_no_failures(work: Session) -> None:
    """An earlier report does not count, nor exit code 0 with failures; existing files can be anything."""
    case = '<testsuite><testcase classname="a" name="b">%s</testcase></testsuite>'
    write = "cp /tmp/next /tmp/report.xml; true"
    work.task.step("1.2", verify=write)
    work.files.write("/tmp/report.xml", case % "")

    def kind(path: str = "/tmp/report.xml") -> str | None:
        verdict = work.task.done("1.2", junit=path)
        assert verdict.done == (verdict.failure is None)
        return verdict.failure.failure_type if verdict.failure is not None else None

    assert kind() == "report_missing"
    work.files.write("/tmp/next", case % '<failure message="1 != 2"/>')
    assert kind() == "tests_failed"
    record = work.task.record()
    assert record is not None
    attempt = dict(record.steps())["1.2"].attempts[-1]
    assert (attempt.exit_code, attempt.failure_detail) == (0, "1 of 1 failed, first a::b: 1 != 2")
    work.files.write("/tmp/next", case % "")
    assert kind("/tmp/nothing.xml") == "report_missing"
    assert kind() is None
    work.task.step("1.2", verify="rm -f /tmp/report.xml; mkfifo /tmp/report.xml")
    assert kind() == "report_missing", "what it became meanwhile is not opened"
    for path in ("/tmp", "/dev/zero"):
        with pytest.raises(InvalidArgument, match="cannot read a test report at"):
            work.task.done("1.2", junit=path)
    with pytest.raises(InvalidArgument, match="none of its commands writes one"):
        work.task.done("1.1", junit="/tmp/report.xml")


def test_a_command_that_was_run_is_an_attempt(work: Session) -> None:
    """By its journal entry; killed for lack of memory or not is known from the session's events."""
    work.exec("echo fine")
    work.exec("nosuchprogram")
    work.exec("(ulimit -v 40000; exec python3 -c 'x = bytearray(1 << 30)')")
    first, second, third = (f"#{entry.seq}" for entry in work.journal(kinds=["command_started"]))
    assert work.task.attempt("1.1", first).failure is None
    kinds = [work.task.attempt("1.1", entry).failure for entry in (second, third)]
    assert kinds[0] is not None
    assert kinds[0].failure_type == "command_not_found"
    assert kinds[1] is not None
    record = work.task.record()
    assert record is not None
    made = dict(record.steps())["1.1"].attempts
    assert [(each.entry, each.outcome, each.exit_code) for each in made[:2]] == [
        (first, "passed", 0),
        (second, "failed", 127),
    ]
    work.exec("sleep 1000", patience=0)
    running = f"#{work.journal(kinds=['command_started'])[-1].seq}"
    with pytest.raises(InvalidArgument, match="still runs"):
        work.task.attempt("1.1", running)
    for nonsense in ("#1", "x", "#0", "#99999", "#" + "9" * 40):
        with pytest.raises(InvalidArgument, match="no command started at"):
            work.task.attempt("1.1", nonsense)


def test_the_record_is_in_the_snapshot_and_comes_back_with_it(work: Session, shared_hf: Holdfast) -> None:
    """With restores, forks and rewinds; also if the snapshot reuses an earlier one's content."""
    work.task.decide("SQLite", "no server")
    snapshot = work.task.checkpoint(resume_at="step 1.2")
    at_checkpoint = work.task.record()
    assert at_checkpoint is not None
    assert at_checkpoint.checkpoint is not None
    assert at_checkpoint.checkpoint.snapshot == snapshot.name
    work.task.decide("WAL", "readers")
    later = work.snapshot("later")

    made = [snapshot.restore("copy"), *later.fork(1, "fork")]
    assert made[0].task.record() == at_checkpoint
    assert made[1].task.record() == work.task.record()
    made[0].task.note("only here")
    assert work.task.record() != made[0].task.record()

    work.rewind(snapshot)
    assert work.task.record() == at_checkpoint
    assert {each.session: each.checkpoint for each in shared_hf.board()} == {
        "work": snapshot.name,
        "copy": snapshot.name,
        "fork": snapshot.name,
    }
    for each in made:
        each.remove()
    work.task.note("so that the revision is that of an earlier checkpoint")
    work.task.checkpoint(kind="filesystem")
    work.rewind(snapshot)
    work.task.note("again")
    assert work.task.checkpoint(kind="filesystem").name not in (snapshot.name, "later")
    work.rewind(later)
    assert "WAL" in work.task.export()


def test_a_dead_session_continues_at_its_checkpoint(work: Session, shared_hf: Holdfast) -> None:
    """A process that knows only the name gets the record, and the changes since."""
    work.exec("echo ready > answer; state=kept")
    work.task.done("1.2")
    work.task.checkpoint("safe")
    work.exec("echo later > /srv/later", key="later-1")
    work.task.decide("PostgreSQL", "it is there")
    ran = "`echo later > /srv/later`: exit 0, sent with key later-1 by agent"
    assert ran in work.task.handoff()
    shared_hf.engine.kill_remove(work.row.container_id or "")

    stranger = Holdfast(shared_hf.home).session("work")
    assert "The session is dead: `holdfast task resume work` brings it back." in stranger.task.handoff()
    found = stranger.task.resume()
    assert found.how == "rewound"
    assert found.record.finished == (1, 3)
    assert found.undone == ("decision 'PostgreSQL'",)
    assert "Undone by going back: decision 'PostgreSQL'" in found.handoff("work")
    assert found.record.notes[-1].text.endswith("still in the journal: decision 'PostgreSQL'")
    assert found.ran == (), "what ran after the checkpoint is undone, and its key is free"
    assert found.drift is not None
    assert stranger.exec("echo $state; cat answer; ls /srv/later").text.startswith("kept\nready\nls: cannot")

    stranger.exec("rm answer")
    again = stranger.task.resume()
    assert again.how == "running"
    assert again.drift is not None
    assert [(change.path, change.change) for change in again.drift.files] == [
        ("/workspace/answer", "deleted")
    ]


def test_a_dead_session_whose_checkpoint_was_never_taken(work: Session, shared_hf: Holdfast) -> None:
    """The controller can die between the record and the snapshot: the last snapshot counts then."""
    work.exec("state=first")
    first = work.snapshot("first", "filesystem")
    kept_task.change(
        shared_hf.context,
        work.id,
        partial(task_changes.checkpoint, snapshot="never-taken", resume_at="step 9.9"),
    )
    shared_hf.engine.kill_remove(work.row.container_id or "")
    found = work.task.resume()
    assert found.how == "rewound"
    assert found.record.resume_at is None
    assert work.refresh().parent_snapshot_id == first.id


def test_a_dead_session_without_any_snapshot_keeps_its_record(work: Session, shared_hf: Holdfast) -> None:
    shared_hf.engine.kill_remove(work.row.container_id or "")
    assert "none of its snapshots is left: `holdfast task show` has its record" in work.task.handoff()
    with pytest.raises(SessionError, match="it is dead and was never captured"):
        work.task.resume()
    other = shared_hf.new("other")
    assert other.task.import_(work.task.export()).phases == work.task.import_(work.task.export()).phases
    other.remove()


@pytest.mark.thorough
def test_a_record_continues_in_another_session_of_another_image(
    work: Session, shared_hf: Holdfast, other_image: str
) -> None:
    """Its checkpoint is not one of that session, which returns to its own snapshot when it dies.

    That is older than the record, which is kept all the same.
    """
    work.exec("echo ready > answer")
    work.task.done("1.2")
    work.task.decide("SQLite", "no server")
    work.task.checkpoint("of-the-first", resume_at="step 1.1", kind="filesystem")
    exported = work.task.export()

    other = shared_hf.new("other", image=other_image)
    other.exec("echo own > state")
    own = other.snapshot("own", "filesystem")
    before = other.task.import_(exported)
    assert before.checkpoint is not None
    assert "SQLite (no server)" in other.task.handoff()
    shared_hf.engine.kill_remove(other.row.container_id or "")
    found = Holdfast(shared_hf.home).session("other").task.resume()
    assert found.how == "rewound"
    assert (found.record.phases, found.record.decisions) == (before.phases, before.decisions)
    assert found.drift is not None
    assert other.exec("cat state /made-of").text == "own\nanother image\n"
    assert other.refresh().parent_snapshot_id == own.id

    failed = other.task.done("1.2")
    assert failed.failure is not None, "it is verified where it continues"
    assert other.exec("echo ready > answer").ok
    assert other.task.done("1.2").done
    assert other.task.done("1.1").done
    other.remove()


def test_two_at_work_claim_their_steps_and_each_done_leaves_a_checkpoint(
    work: Session, shared_hf: Holdfast
) -> None:
    """One is refused what the other has claimed; the policy takes the checkpoint; the report has it all."""
    begin = datetime.now(UTC)
    other = Holdfast(shared_hf.home.root, actor="agent:other/b2").session(work.name).task
    task = work.task
    task.set(goal="Count", profiles={"exists": "test -e total"}, checkpoint="step", back_end="sqlite")
    task.plan("Count\n- Write it :: @exists\n- Read it")
    work.exec("touch total")
    other.claim("1.2")
    task.note("Which one?", "question", step="1.1")
    with pytest.raises(InvalidArgument, match="is open"):
        task.done("1.1")
    task.answer(1, "the first")
    with pytest.raises(InvalidArgument, match="agent:other/b2 has been at it"):
        task.done("1.2")
    verdict = task.done("1.1")
    assert verdict.done, verdict.output
    assert verdict.checkpoint is not None
    kept = shared_hf.snapshot(verdict.checkpoint)
    record = task_form.load(shared_hf.store.snapshot(kept.id).details.task)
    made = step_rules.find_step(record, "1.1").attempts[0]
    assert (made.profile, made.back_end, made.outcome) == ("exists", "sqlite", "passed")
    (standing,) = [each for each in shared_hf.board() if each.session_id == work.id]
    assert (standing.phase, standing.step, standing.claimed_by) == ("Count", "1.2 Read it", "agent:other/b2")
    assert [(each.title, each.done, each.steps) for each in standing.phases] == [("Count", 1, 2)]
    first = standing.phases[0].each[0]
    assert (first.status, first.verify, first.last_profile, first.last_back_end) == (
        "done",
        "@exists",
        "exists",
        "sqlite",
    )
    (mine,) = [each for each in shared_hf.report(begin).sessions if each.session_id == work.id]
    assert [(each.number, each.evidence, each.profile) for each in mine.steps if each.status == "done"] == [
        ("1.1", verdict.entry, "exists")
    ]
    assert mine.checkpoints == (verdict.checkpoint,)


def test_blocked_work_is_suspended_and_wakes_when_unblocked(work: Session) -> None:
    work.exec("state=kept")
    work.task.block("no key", "a key", step="2.1", suspend=True)
    assert work.refresh().state == "suspended"
    handed = work.task.handoff(200)
    assert "BLOCKED: no key. Needs: a key" in handed
    assert "`holdfast task unblock work && holdfast task resume work`" in handed
    work.task.unblock()
    assert work.refresh().state == "running"
    assert work.exec("echo $state").text == "kept\n"
    record = work.task.record()
    assert record is not None
    assert record.state == "active"


def test_a_checkpoint_that_cannot_be_taken_leaves_the_record(work: Session) -> None:
    taken = work.task.checkpoint("taken", resume_at="here")
    with pytest.raises(InvalidArgument, match="the label is taken"):
        work.task.checkpoint("taken", resume_at="there")
    record = work.task.record()
    assert record is not None
    assert (record.resume_at, record.checkpoint and record.checkpoint.snapshot) == ("here", taken.name)


@pytest.mark.thorough
def test_an_artifact_is_kept_beyond_its_session(
    work: Session, shared_hf: Holdfast, shared_home: Home, tmp_path: Path
) -> None:
    """With the command that made it, and the first checkpoint that has it; fetched by name afterwards."""
    work.exec("echo before")
    work.exec("printf abc > made")
    entry = f"#{work.journal(kinds=['command_started'])[-1].seq}"
    record = work.task.artifact("result", "/workspace/made")
    (made,) = record.artifacts
    assert made.digest == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (made.bytes, made.entry, made.snapshot) == (3, entry, None)
    taken = work.task.checkpoint(kind="filesystem")
    record = work.task.record() or record
    assert record.artifacts[0].snapshot == taken.name
    assert work.task.import_(work.task.export()).artifacts == record.artifacts

    other = taken.restore("other")
    other.exec("printf other > made")
    other.task.artifact("result", "made")
    cli = Cli(shared_home)
    assert "several sessions have one" in cli("artifact", "get", "result", "-").err
    other.remove()
    shared_hf.remove_snapshot(taken.name)
    assert cli("artifact", "get", "result", "-", "--session", "work").out == "abc"
    saved = cli("artifact", "get", "result", str(tmp_path), "--session", "other")
    assert (saved.code, (tmp_path / "result").read_text()) == (0, "other")
    rows = cli("artifact", "ls", "--json").json
    assert [(row["session"], row["snapshot"], row["entry"]) for row in rows] == [
        ("work", taken.name, entry),
        ("other", None, rows[1]["entry"]),
    ]
    assert cli("artifact", "rm", "result", "--session", "other").out == "result\n"
    assert cli("artifact", "rm", "result").out == "result\n"
    gone = cli("artifact", "get", "result")
    assert (gone.code, gone.err.splitlines()[0]) == (1, "holdfast: cannot find artifact 'result'")
    assert not list((shared_home.root / "artifacts" / "content").iterdir())


def test_files_are_artifacts_by_rule_and_others_are_orphans(work: Session, shared_hf: Holdfast) -> None:
    """A checkpoint registers them; git and the record account for the rest."""
    work.exec("git init -q . && mkdir dist && printf src > tracked.py && git add tracked.py")
    work.exec("sleep 0.1; printf wheel > dist/a.whl; printf left > left.over; printf noted > noted.txt")
    work.exec("mkfifo dist/fifo.whl; ln -s /etc/shadow dist/link.whl; mkdir dist/folder.whl")
    work.task.set(artifacts="dist/*.whl")
    work.task.note("noted.txt is for the next one")
    work.task.checkpoint(kind="filesystem")
    record = work.task.record()
    assert record is not None
    assert [(each.name, each.bytes) for each in record.artifacts] == [("dist/a.whl", 5)]
    command = next(
        e for e in work.journal(kinds=["command_started"]) if f"#{e.seq}" == record.artifacts[0].entry
    )
    assert "printf wheel" in command.details["command"]
    assert [each.path for each in work.task.orphans() if "/workspace/" in each.path] == [
        "/workspace/dist/fifo.whl",
        "/workspace/dist/link.whl",
        "/workspace/left.over",
    ]
    assert work.task.collect_artifacts() == [], "it is as it was"
    work.exec("printf newer > dist/a.whl")
    assert work.task.collect_artifacts() == ["dist/a.whl"]
    assert b"".join(shared_hf.artifacts.parts("dist/a.whl")) == b"newer"
    with pytest.raises(InvalidArgument, match="cannot use the pattern"):
        work.task.set(artifacts="../x")


def test_only_plain_files_are_artifacts(work: Session, shared_home: Home) -> None:
    """Nothing hangs, and the record stays as it was."""
    work.exec("mkfifo pipe; ln -s pipe to-pipe; mkdir folder; truncate -s 2G huge; ln -s nothing broken")
    before = work.task.record()
    for path in ("pipe", "to-pipe", "folder", "huge", "/dev/zero", "broken", "missing", "a\0b"):
        with pytest.raises((InvalidArgument, SessionFileError)):
            work.task.artifact("x", path)
    assert work.task.record() == before
    assert not list((shared_home.root / "artifacts").glob("*/*"))


def test_a_file_that_changes_all_the_time_is_refused(work: Session, shared_home: Home) -> None:
    """The part that was read is removed; `gc` removes the leftovers of a killed process."""
    work.exec("truncate -s 9M log; while :; do printf x >> log; done &")
    assert work.exec("until [ $(stat -c %s log) -gt 9437184 ]; do sleep 0.01; done", timeout=60).ok
    with pytest.raises(InvalidArgument, match="changes while it is read"):
        work.task.artifact("log", "log")
    work.exec("kill %1; wait")
    assert not list((shared_home.root / "artifacts").glob("*/*"))
    (shared_home.root / "artifacts" / "content" / ("0" * 64)).write_bytes(b"left")
    found = [row for row in Cli(shared_home)("gc", "--json").json if row["kind"] == "artifact"]
    assert [(row["name"], row["why"]) for row in found] == [("0" * 12, "no artifact refers to it")]
    assert not list((shared_home.root / "artifacts").glob("*/*"))


def test_a_busy_shell_is_reported_and_nothing_is_recorded(work: Session) -> None:
    job = work.exec("sleep 1000", patience=0)
    assert job.running
    before = work.task.record()
    with pytest.raises(SessionBusy):
        work.task.done("1.2")
    assert work.task.record() == before


def test_a_verification_waits_for_the_shells_command(work: Session) -> None:
    """For as long as the caller allows."""
    assert work.exec("until [ -e answer ]; do sleep 0.05; done", patience=0).running
    with ThreadPoolExecutor() as pool:
        verdict = pool.submit(work.task.done, "1.2", busy_wait=120)
        work.files.write("answer", "ready")
        assert verdict.result(timeout=180).done


@pytest.mark.thorough
def test_a_task_over_a_url(work: Session, shared_hf: Holdfast, shared_home: Home, tmp_path: Path) -> None:
    """The calls and values that the library has in process."""
    with (
        serving(Cli(shared_home), shared_home) as server,
        RemoteHoldfast(server.url, token=server.token, actor="person:ann") as remote,
    ):
        there = remote.session("work")
        assert there.task.record() == work.task.record()
        with pytest.raises(InvalidArgument, match=r"cannot find step 7[.]1"):
            there.task.step("7.1", status="active")
        failed = there.task.done("1.2")
        assert failed.failure is not None
        assert (failed.done, failed.failure.failure_type) == (False, "file_not_found")
        work.exec("echo ready > answer")
        there.task.claim("1.2")
        there.task.note("Which?", "question", step="1.2")
        there.task.answer(1, "that")
        there.task.alternative("LMDB", "no SQL")
        there.task.set(checkpoint="2h", profiles={"quick": "true"})
        there.task.step("2.1", back_end="sqlite")
        with pytest.raises(InvalidArgument, match="person:ann has been at it"):
            work.task.done("1.2")
        passed = there.task.done("1.2", busy_wait=1)
        assert passed.done
        assert passed.checkpoint is not None
        assert remote.board() == shared_hf.board()
        assert remote.report(datetime(2020, 1, 1, tzinfo=UTC)) == shared_hf.report(
            datetime(2020, 1, 1, tzinfo=UTC)
        )
        there.task.block("no key", "a key")
        assert there.task.unblock("ada sent one").notes[-1].text == "unblocked: no key; ada sent one"
        assert there.task.attempt("1.1", str(failed.entry)).failure == failed.failure
        there.task.decide("SQLite", "no server")
        there.task.note("Which?", "question")
        there.task.drop("question", 1)
        there.task.read_again("/srv/a", "why")
        there.task.artifact("answer", "/workspace/answer", entry=passed.entry)
        assert remote.artifacts.list() == shared_hf.artifacts.list()
        assert remote.artifacts.find("answer", "work").entry == passed.entry
        assert remote.artifacts.save("answer", tmp_path) == tmp_path / "answer"
        assert (tmp_path / "answer").read_text() == "ready\n"
        with pytest.raises(ArtifactNotFound, match="cannot find artifact 'no'"):
            remote.artifacts.save("no", tmp_path)
        there.task.set(artifacts="*.url")
        work.exec("echo url > a.url; echo left > orphan")
        assert there.task.collect_artifacts() == ["a.url"]
        assert there.task.orphans() == work.task.orphans()
        assert "/workspace/orphan" in [each.path for each in there.task.orphans()]
        taken = there.task.checkpoint("over-a-url", resume_at="step 2.1")
        assert taken.name == "over-a-url"
        there.task.block("no key", "a key", step="2.1", suspend=True)
        assert there.refresh().state == "suspended"
        there.task.unblock()
        assert work.refresh().state == "running"
        record = there.task.set(retry_limit=3)
        assert record == work.task.record()
        assert record.by == "person:ann"
        assert there.task.export() == work.task.export()
        assert there.task.import_(there.task.export()).phases == record.phases
        assert "SQLite" in there.task.handoff(500)
        back = there.task.resume()
        assert (back.how, back.drift is not None) == ("running", True)
        assert remote.board() == shared_hf.board()
        for name in ("answer", "a.url"):
            assert remote.artifacts.remove(name).snapshot == "over-a-url"
        assert shared_hf.artifacts.list() == []
        assert there.task.plan(PLAN) == work.task.record()


def test_the_command_line_hands_a_task_over(work: Session, shared_home: Home) -> None:
    """One process records, a second one reads; nonsense is refused in one line."""
    cli = Cli(shared_home)
    assert cli("task", "decide", "work", "SQLite", "--why", "no server").code == 0
    assert cli("--as", "person:ann", "task", "done", "work", "1.1").out == "1.1 done\n"
    failed = cli("task", "done", "work", "1.2")
    assert failed.code == 1
    assert "step 1.2 is not done: file_not_found" in failed.err
    assert cli("checkpoint", "work", "--label", "by-hand").out == "by-hand\n"
    shown = cli("task", "show", "work").out
    assert "- [x] 1.1 Look" in shown
    assert "SQLite" in cli("handoff", "work", "--budget", "400").out
    too_small = cli("handoff", "work", "--budget", "5")
    assert (too_small.code, too_small.err.splitlines()[0][:30]) == (1, "holdfast: cannot hand over in ")
    (row,) = json.loads(cli("board", "--json").out)
    assert (row["session"], row["done"], row["steps"], row["by"]) == ("work", 1, 3, row["by"])

    same = cli("task", "import", "work", "-", stdin=shown)
    assert same.code == 0, same.err
    broken = cli("task", "import", "work", "-", stdin=shown.replace("## Risks\n", ""))
    assert broken.code == 1
    assert "section 'Risks' is missing" in broken.err
    newer = cli("task", "import", "work", "-", stdin='{"format": 99}')
    assert "a newer version wrote it" in newer.err
    assert cli("task", "show", "work").out.splitlines()[0] == "# Task: Port the store"
    resumed = cli("task", "resume", "work", "--json")
    assert json.loads(resumed.out)["session"] == "running"


@pytest.mark.thorough
def test_repositories_that_were_moved_from_outside_are_named_when_the_task_resumes(
    work: Session, shared_home: Home
) -> None:
    """Branch, commit, and how many files were changed; read without running Git or anything of its hooks."""
    cli = Cli(shared_home)
    named = "git -c user.name=a -c user.email=a@b"
    assert work.exec(
        "mkdir -p /tmp/code/app && cd /tmp/code/app && git init -q -b main && echo 1 > f && echo 1 > g && "
        f"git add . && {named} commit -qm one && cd /tmp/code"
    ).ok
    work.exec("cd app; git config core.fsmonitor 'touch /tmp/ran; false'; cd ..")
    work.task.checkpoint(kind="filesystem")
    work.exec("mkdir -p /tmp/other && cd /tmp/other && git init -q")
    assert work.task.resume().repositories == (), "what is around the shell now is no change"
    work.exec("cd /tmp/code")
    assert work.exec(f"cd app && git switch -qc topic && echo 22 > f && {named} commit -qam two; cd ..").ok
    work.exec("rm -f /tmp/ran app/g; ln -s /dev/zero app/loop; mkdir -p bad/.git; mkfifo bad/.git/HEAD")
    (moved,) = work.task.resume().repositories
    assert moved.before is not None
    assert moved.now is not None
    assert (moved.path, moved.before.branch, moved.now.branch) == ("/tmp/code/app", "main", "topic")
    assert moved.before.commit != moved.now.commit
    assert (moved.before.dirty, moved.now.dirty) == (0, 1)
    assert not work.exec("test -e /tmp/ran").ok, "nothing of the repository's was run"
    assert "git /tmp/code/app: main" in work.task.handoff()
    assert "git /tmp/code/app: main" in cli("task", "resume", "work").out
    told = json.loads(cli("task", "resume", "work", "--json").out)
    assert told["git"][0]["now"]["branch"] == "topic"
