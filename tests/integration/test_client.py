"""The library over a URL, blocking and async: the same results, errors and guarantees as in process."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from bench.server_load import load_run
from bench.server_load.load_clients import MIX
from bench.server_load.load_run import Load
from bench.server_load.loaded_server import served
from tests.integration.conftest import Cli
from tests.integration.served import Over, Served, serving

from holdfast import AsyncHoldfast, Holdfast, Patience, RemoteHoldfast, RemoteSession, Session
from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.errors import (
    CommandNotFound,
    InvalidArgument,
    ServerDenied,
    ServerUnavailable,
    SessionBusy,
    SessionExists,
    SessionFileNotFound,
    SessionNotFound,
)
from holdfast.runtime.operations.step import Step

TICKS = "for i in $(seq 40); do echo tick $i; sleep 0.05; done"
MEET = """
mkdir -p /tmp/met && touch /tmp/met/$$
for _ in $(seq 600); do test "$(ls /tmp/met | wc -l)" -lt 20 || exit 0; sleep 0.1; done
exit 1
"""
"""Ends well once twenty run it at the same time."""
TICKED = "".join(f"tick {i}\n" for i in range(1, 41)).encode()


@pytest.fixture
def session(remote: RemoteHoldfast) -> RemoteSession:
    return remote.session("shared")


def test_a_url_in_place_of_a_home(server: Served, shared: Session) -> None:
    with Holdfast(server.url, token=server.token) as controller:
        assert isinstance(controller, RemoteHoldfast)
        found = controller.session("shared")
        assert (found.id, found.name, found.state) == (shared.id, "shared", "running")
        assert found.created_at == shared.created_at
        assert [each.name for each in controller.sessions()] == ["shared"]
    with pytest.raises(InvalidArgument, match="for the URL of a server"):
        Holdfast(token="x" * 20)


def test_labels(
    remote: RemoteHoldfast, session: RemoteSession, shared: Session, shared_hf: Holdfast, shared_cli: Cli
) -> None:
    """In process, over a URL and by the command line: the same sessions are found by the same labels."""
    assert shared.set_labels({"team": "a", "ci/run": "7"}).labels == {"team": "a", "ci/run": "7"}
    for asked, there in (
        (["team=a"], True),
        (["team", "ci/run=7"], True),
        (["team=b"], False),
        (["x"], False),
    ):
        names = ["shared"] if there else []
        assert [each.name for each in shared_hf.sessions(labels=asked)] == names
        assert [each.name for each in remote.sessions(labels=asked)] == names
        words = [word for label in asked for word in ("--label", label)]
        told = shared_cli("ls", *words, "--json")
        assert [each["name"] for each in json.loads(told.out)] == names
    assert "LABELS" in shared_cli("ls").out
    assert "team=a, ci/run=7" in shared_cli("ls").out
    for wrong in ("a b", "=x", "a=\x1b[2J"):
        for handle in (shared_hf, remote):
            with pytest.raises(InvalidArgument, match="label"):
                handle.sessions(labels=[wrong])
        assert shared_cli("ls", "--label", wrong).code == 1
    with pytest.raises(InvalidArgument, match="label"):
        session.set_labels(["team"])
    assert session.refresh().labels == {"team": "a", "ci/run": "7"}
    assert session.set_labels([]).labels == {}
    assert "LABELS" not in shared_cli("ls").out


@pytest.mark.parametrize(
    "command",
    [
        "echo out; echo err >&2; (exit 3)",
        "printf 'h\\xc3\\xa9\\xff\\x00'",
        "kill -9 $BASHPID",
        "echo 'open",
        ")",
    ],
)
def test_results_of_commands_equal_results_in_process(
    session: RemoteSession, shared: Session, command: str
) -> None:
    here, there = shared.exec(f"({command})"), session.exec(f"({command})")
    same: dict[str, Any] = {"command_id": "", "duration": 0.0, "start_offset": 0, "end_offset": 0}
    same |= {"news": ()}  # which of the two has those depends on the moment
    assert replace(there, **same) == replace(here, **same)
    assert there.end_offset - there.start_offset >= len(there.output)


def test_results_of_cells_equal_results_in_process(session: RemoteSession, shared: Session) -> None:
    code = "import sys; print('é'); print('e', file=sys.stderr); 6 * 7"
    here, there = shared.cell(code), session.cell(code)
    same: dict[str, Any] = {"cell_id": "", "duration": 0.0, "seq": 0, "execution_count": None, "outputs": ()}
    assert replace(there, **same) == replace(here, **same)
    assert (there.text, there.outputs[0].data) == ("42", here.outputs[0].data)
    failed = session.cell("1 / 0")
    assert failed.error
    assert (failed.status, failed.error.ename) == ("error", "ZeroDivisionError")
    opened = session.kernels.open("beside", cwd="/tmp")
    assert opened.cwd == "/tmp"
    assert session.cell("import os; os.getcwd()", kernel="beside").text == "'/tmp'"
    assert [each.name for each in session.kernels.list()] == ["main", "beside"]
    session.kernels.close("beside")
    asking = session.cell("input('who? ')")
    assert asking.waiting
    assert asking.waiting.prompt == "who? "
    assert session.kernel.answer(asking, "ada").text == "'ada'"


def test_results_of_programs_equal_results_in_process(session: RemoteSession, shared: Session) -> None:
    argv, data = ["sh", "-c", "cat; echo $MODE >&2; exit 4"], bytes(range(256))
    here, there = (each.run(argv, input=data, env={"MODE": "x"}) for each in (shared, session))
    assert (there.stdout, there.stderr, there.exit_code) == (here.stdout, here.stderr, 4)
    assert there.info.argv == here.info.argv
    assert session.run(["sleep", "60"], timeout=0.3).timed_out
    program = session.programs.start(["cat"], input=True)
    program.write("hello")
    program.close_input()
    assert program.wait().stdout == b"hello"


def test_output_is_passed_on_as_it_comes(session: RemoteSession) -> None:
    texts: list[str] = []
    offsets: list[int] = []
    ids: list[str] = []
    result = session.exec(TICKS, on_output=texts.append, on_offset=offsets.append, on_start=ids.append)
    assert "".join(texts).encode() == TICKED == result.output
    assert len(texts) > 3
    assert offsets == sorted(offsets)
    assert ids == [result.command_id]
    again = session.join(result.command_id, start=offsets[2])
    assert "".join(texts).encode().endswith(again.output)


def test_large_output_has_no_gap(session: RemoteSession) -> None:
    sizes: list[int] = []
    result = session.exec(
        "head -c 6000000 /dev/zero | tr '\\0' x; echo", on_bytes=lambda data: sizes.append(len(data))
    )
    assert sum(sizes) == 6_000_001
    assert (result.ok, len(result.output) + result.dropped, result.lost) == (True, 6_000_001, 0)


def test_waiting_commands_are_answered(session: RemoteSession) -> None:
    asked = session.exec("read -p 'name? ' name; echo hi $name")
    assert asked.waiting
    assert (asked.running, asked.waiting.detail, asked.waiting.prompt) == (True, "line", "name? ")
    with pytest.raises(SessionBusy):
        session.exec("true")
    assert session.answer("ada\n").text.endswith("hi ada\n")
    session.exec("sleep 600", patience=1)
    ended = session.interrupt()
    assert ended
    assert ended.exit_code == 130


def test_another_thread_ends_the_waiting(session: RemoteSession) -> None:
    patience = Patience()
    left = session.exec("sleep 2; echo late", patience=patience, on_start=lambda _: patience.end())
    assert left.running
    assert session.join(left.command_id).text == "late\n"


def test_files(session: RemoteSession, shared: Session) -> None:
    data = bytes(range(256)) * 20_000
    session.files.make_folder("/tmp/client/deep", parents=True)
    assert session.files.write_parts(
        "/tmp/client/big", iter([data[:70_000], data[70_000:]]), mode=0o600
    ) == len(data)
    assert shared.files.read("/tmp/client/big") == data == b"".join(session.files.parts("/tmp/client/big"))
    assert session.files.read("/tmp/client/big", 1000, 5) == data[1000:1005]
    assert session.files.read("/tmp/client/big", len(data)) == b""
    assert session.files.stat("/tmp/client/big") == shared.files.stat("/tmp/client/big")
    assert session.files.list("/tmp/client") == shared.files.list("/tmp/client")
    session.files.move("/tmp/client/big", "/tmp/client/deep/b")
    whole = io.BytesIO()
    session.files.write_tar("/tmp/client", whole)
    whole.seek(0)
    with tarfile.open(fileobj=whole) as tar:
        assert "deep/b" in tar.getnames()
    whole.seek(0)
    assert session.files.read_tar(whole, "/tmp/unpacked").files == 1
    session.files.remove("/tmp/client", recursive=True)
    with pytest.raises(SessionFileNotFound, match="no such file"):
        session.files.stat("/tmp/client")
    with pytest.raises(SessionFileNotFound, match="no such file"):
        session.files.read("/tmp/client")


def test_shells_terminals_and_jobs(session: RemoteSession, shared: Session) -> None:
    opened = session.shells.open("beside", rows=30, cols=90)
    assert (opened.rows, opened.cols, opened.pid) == (30, 90, shared.shell("beside").pid)
    assert polling.until(lambda: session.shell("beside") == shared.shell("beside"), 60)
    assert session.exec("echo $COLUMNS", shell="beside").text == "90\n"
    terminal = session.terminal_of("beside")
    terminal.send("echo typed")
    terminal.send_keys("Enter")
    assert polling.until(lambda: "\ntyped" in terminal.screen().text, 60)
    terminal.take(60)
    assert terminal.lease().holder
    terminal.give_back()
    session.shells.close("beside")
    assert [each.name for each in session.shells.list()] == ["main"]
    job = session.detach("echo begun; read line; echo got $line; exit 5", name="job")
    assert job.wait().waiting
    job.resize(33, 77)
    assert (job.info().rows, job.info().cols) == (33, 77)
    job.send("it\n")
    ended = job.wait()
    assert (ended.exit_code, ended.text.splitlines()[-1]) == (5, "got it")
    assert session.job(job.id).info().exit_code == 5
    assert [each.id for each in session.jobs()][-1] == job.id
    written = shared.job(job.id).output()
    assert [job.output(), job.output(5), job.output(-7), job.output(10**6)] == [
        written,
        shared.job(job.id).output(5),
        shared.job(job.id).output(-7),
        b"",
    ]


def test_the_output_of_a_job_as_it_comes(session: RemoteSession) -> None:
    """The output so far is returned while the job continues; a follower receives the rest."""
    job = session.detach("for n in 1 2 3; do echo $n; done; read line; echo got $line; sleep 600")
    assert job.wait().waiting
    assert job.output().split()[:3] == [b"1", b"2", b"3"]
    heard: list[bytes] = []
    following = threading.Thread(
        target=job.follow, kwargs={"on_bytes": heard.append, "offset": 2}, daemon=True
    )
    following.start()
    job.send("it\n")
    assert polling.until(lambda: b"got it" in b"".join(heard), 60)
    assert b"got it" in job.output()
    job.signal("KILL")
    following.join(60)
    assert b"".join(heard) == job.output(2)


def test_a_life_of_a_session(server: Served) -> None:
    """From its start to its removal; the server's steps are reported on the way."""
    steps: list[Step | None] = []
    with RemoteHoldfast(server.url, token=server.token, on_step=steps.append) as remote:
        _live(remote)
    said = {step.text for step in steps if step is not None}
    assert "creating the container of life" in said
    assert any(text.startswith("freezing life with ") for text in said)
    assert steps[-1] is None


def _live(remote: RemoteHoldfast) -> None:
    with pytest.raises(InvalidArgument, match="cannot use label 'a b'"):
        remote.new("life", labels=["a b=c"])
    with remote.new("life", remove=True, env={"MODE": "test"}, labels=["team=a", "run=7"]) as work:
        with pytest.raises(SessionExists):
            remote.new("life")
        work.exec("cd /tmp; state=kept")
        taken = work.snapshot("point", reason="to look")
        assert (taken.label, taken.kind, taken.reason, taken.session_id) == (
            "point",
            "live",
            "to look",
            work.id,
        )
        work.exec("state=lost")
        back = work.rewind(taken, discard=True)
        assert (back.snapshot.id, back.kept, back.left_behind) == (taken.id, None, 1)
        assert work.exec("echo $state $MODE $PWD").text == "kept test /tmp\n"
        with remote.snapshot("point").restore("copy") as copy:
            assert copy.exec("echo $state").text == "kept\n"
            assert copy.parent_snapshot_id == taken.id
        remote.remove_session("copy")
        twins = remote.fork("life", 2, "twin")
        assert [each.exec("echo $state").text for each in twins] == ["kept\n"] * 2
        for each in twins:
            each.remove()
        assert work.suspend().state == "suspended"
        assert work.resume().state == "running"
        assert work.refresh().labels == {"team": "a", "run": "7"}
        assert [each.name for each in remote.sessions(labels={"team": "a"})] == ["life"]
        assert work.policy(every=5).every == 5
        assert "woken" in {each.kind for each in work.events()}
        assert taken.pin().pinned
        for snapshot in remote.snapshots():
            snapshot.remove()
    with pytest.raises(SessionNotFound):
        remote.session("life")


def test_a_snapshot_in_the_middle_is_not_seen(session: RemoteSession, remote: RemoteHoldfast) -> None:
    shown: list[bytes] = []
    taking = threading.Timer(0.5, lambda: shown and session.snapshot("middle"))
    taking.start()
    result = session.exec(TICKS, on_bytes=shown.append)
    taking.join()
    assert b"".join(shown) == TICKED
    copy = remote.snapshot("middle").restore("middle-copy")
    try:
        joined = copy.join(result.command_id)
        assert (joined.output, joined.exit_code) == (TICKED, 0)
    finally:
        copy.remove()
        remote.remove_snapshot("middle")


def test_a_server_that_is_replaced_is_not_seen(
    shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home
) -> None:
    cli, results = make_cli(shared_home), []
    with serving(cli, shared_home) as first:
        port = str(first.port)
        client = RemoteHoldfast(first.url, token=first.token)
        begun = threading.Event()

        def work() -> None:
            found = client.session("shared")
            results.append(found.exec(TICKS, on_start=lambda _: begun.set()))

        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(30)
    with serving(cli, shared_home, "--listen", port):
        thread.join(60)
        assert [(each.output, each.exit_code) for each in results] == [(TICKED, 0)]
    with pytest.raises(ServerUnavailable, match="cannot reach the server") as raised:
        client.session("shared")
    assert raised.value.hint
    client.close()


def test_a_server_that_is_killed_loses_and_doubles_nothing(
    shared: Session, shared_home: Home, tmp_path: Path
) -> None:
    """For clients of each kind; `python -m bench.server_load` has many of them, for longer."""
    load = Load(clients=len(MIX), seconds=8, kills=1, pace=0.5)
    with served(shared_home.root) as server:
        found = asyncio.run(load_run.run(server, [shared.name], load, tmp_path, lambda _: None))
    assert (found.compared.faults, found.errors, len(found.outages)) == ([], [], 1)
    assert {act.kind for act in found.acts if act.outcome == "done"} == {kind.kind for kind, _ in MIX}


def test_errors(server: Served, session: RemoteSession) -> None:
    with pytest.raises(CommandNotFound):
        session.join("0" * 12)
    with RemoteHoldfast(server.url, token="x" * 30) as stranger, pytest.raises(ServerDenied):
        stranger.sessions()
    with pytest.raises(InvalidArgument, match="not the URL"):
        RemoteHoldfast("http://me@host")


def test_callbacks_can_be_coroutines_where_they_can_be_awaited(
    server: Served, shared: Session, session: RemoteSession
) -> None:
    """Async callers can pass coroutines; blocking callers are refused immediately."""
    seen: list[object] = []

    async def note(*told: object) -> None:
        await asyncio.sleep(0)
        seen.extend(told)

    async def line(prompt: str, password: bool) -> str:
        await asyncio.sleep(0)
        return f"{prompt}{password}"

    async def steps() -> None:
        async with AsyncHoldfast(server.url, token=server.token) as hf:
            there = await hf.session(shared.name)
            await there.exec("echo 1; echo 2", on_output=note)
            assert "".join(map(str, seen)) == "1\n2\n"
            seen.clear()
            await there.run(["echo", "3"], on_stdout=note)
            assert seen == [b"3\n"]
            cell = await there.cell("print(input('a?'), input('b?'))", on_input=line, on_event=note)
            assert cell.stdout == "a?False b?False\n"

    asyncio.run(steps())
    for wrong in (
        lambda: session.exec("echo 1", on_output=note),
        lambda: session.cell("input()", on_input=cast("Any", line)),
    ):
        with pytest.raises(InvalidArgument, match="cannot use a coroutine function as a callback"):
            wrong()
    session.kernel.interrupt()


def test_async_calls_at_once(server: Served, shared: Session) -> None:
    async def main() -> None:
        async with AsyncHoldfast(server.url, token=server.token) as controller:
            session = await controller.session("shared")
            met = await asyncio.gather(*(session.run(["sh", "-c", MEET]) for _ in range(20)))
            assert [each.exit_code for each in met] == [0] * 20
            cell, command = await asyncio.gather(session.cell("2 + 2"), session.exec("echo both"))
            assert (cell.text, command.text) == ("4", "both\n")
            await session.files.write("/tmp/async", b"abc" * 1000)
            assert b"".join([part async for part in session.files.parts("/tmp/async")]) == b"abc" * 1000

    asyncio.run(main())


def test_async_in_process(shared: Session, shared_home: Home) -> None:
    async def main() -> None:
        async with AsyncHoldfast(shared_home, actor="agent:here") as controller:
            assert [each.id for each in await controller.sessions()] == [shared.id]
            session = await controller.session("shared")
            ran = await asyncio.gather(session.exec("echo one"), session.run(["echo", "two"]))
            assert (ran[0].text, ran[1].stdout) == ("one\n", b"two\n")

    asyncio.run(main())
    assert polling.until(lambda: "holdfast-server" not in {each.name for each in threading.enumerate()}, 60)


def test_a_cancelled_call_leaves_the_followed_command(server: Served, shared: Session) -> None:
    async def main() -> None:
        async with AsyncHoldfast(server.url, token=server.token) as controller:
            session = await controller.session("shared")
            begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            call = asyncio.create_task(session.exec("sleep 1; echo done", on_start=begun.set_result))
            command = await begun
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await session.join(command)).text == "done\n"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await session.exec("sleep 30")
            ended = await session.interrupt()
            assert ended
            assert ended.exit_code == 130

    asyncio.run(main())
    assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 0, 60)


@pytest.fixture
def over(server: Served, tmp_path: Path) -> Over:
    return Over(server, tmp_path / "other")


@pytest.mark.thorough
def test_the_command_line_over_a_url(over: Over, shared: Session, shared_hf: Holdfast) -> None:
    assert over("exec", "shared", "echo out; cd /tmp; pwd") == "out\n/tmp\n"
    assert over("exec", "shared", "(exit 3)", code=3) == ""
    assert over("exec", "shared", "--", "printf", "%s", "a b") == "a b"
    assert json.loads(over("exec", "shared", "cd /workspace; echo hi", "--json"))["output"] == "hi\n"
    assert over("cell", "shared", "print(input('who? ')); 6 * 7", given="ada\n") == "who? ada\n42\n"
    assert over("run", "shared", "-i", "--", "tr", "a-z", "A-Z", given="hello") == "HELLO"
    assert "shared" in over("ls")
    listed = json.loads(over("ls", "--json"))
    assert [each["id"] for each in listed] == [shared.id]
    assert over("new", "made") == "made\n"
    assert over("snapshot", "made", "--label", "over") == "over\n"
    assert "over" in over("snapshots")
    assert json.loads(over("snapshots", "--json"))[0]["frozen_seconds"] > 0
    assert over("restore", "over", "--name", "again") == "again\n"
    assert over("fork", "over", "--name", "twin", "-n", "2") == "twin-1\ntwin-2\n"
    over("suspend", "made")
    over("resume", "made")
    over("rewind", "made", "over")
    assert "echo" in over("screen", "shared")
    over("send", "shared", "echo sent", "--enter")
    assert polling.until(lambda: "\nsent" in over("screen", "shared"), 60)
    job = over("exec", "--detach", "shared", "echo begun; exit 4").strip()
    over("wait", "shared", job, code=4)
    assert job in over("jobs", "shared")
    assert over("output", "shared", job) == "begun\n"
    over("rm", "made", "again", "twin-1", "twin-2")
    for snapshot in shared_hf.snapshots():
        over("rmi", snapshot.id)
    assert [each.name for each in shared_hf.sessions()] == ["shared"]


def test_unsupported_requests_are_one_line(over: Over) -> None:
    for words in (
        ("fits", "point"),
        ("journal", "shared", "--ipynb", "-"),
        ("gc",),
        ("doctor",),
        ("doctor", "--security"),
        ("ci", "run", "--", "true"),
    ):
        told = over(*words, code=1)
        assert "over a URL" in told.splitlines()[0], (words, told)
    assert "no such name" in over("exec", "nobody", "true", code=1)
