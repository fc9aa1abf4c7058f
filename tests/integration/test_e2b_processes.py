"""Processes of sandboxes by E2B's wire: started, followed, given input, ended; in captures and copies."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.process_wire import ProcessWire, b64, framed
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

PTY: dict[str, Any] = {
    "process": {"cmd": "/bin/bash", "args": ["-i", "-l"]},
    "pty": {"size": {"cols": 90, "rows": 30}},
}
STREAM = {"content-type": "application/connect+json"}


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def wire(server: Served, shared: Session) -> Iterator[ProcessWire]:
    found = ProcessWire(server, shared.id)
    yield found
    found.client.close()


def running(session: Session, pid: int) -> bool:
    """Return whether a process of the session runs."""
    return session.programs.run(["test", "-d", f"/proc/{pid}"]).ok


def test_a_process_has_two_streams_a_pid_and_an_end(wire: ProcessWire) -> None:
    """And anyone who connects later has the same again, from its beginning."""
    script = "printf 'out\\xff'; echo err >&2; echo $A $B; pwd; exit 3"
    words = {"envs": {"A": "1", "B": "x y"}, "cwd": "/tmp"}
    found = wire.run(script, words=words)
    assert found.written == {"stdout": b"out\xff1 x y\n/tmp\n", "stderr": b"err\n", "pty": b""}
    assert found.end == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    assert found.error is None
    with wire.stream("Connect", {"process": {"pid": found.pid}}) as again:
        assert (again.pid, again.all().written, again.end) == (found.pid, found.written, found.end)
    assert wire.run("true").end == {"exitCode": 0, "exited": True, "status": "exit status 0"}


def test_running_programs_are_listed_and_end_with_their_children(wire: ProcessWire, shared: Session) -> None:
    with wire.bash("sleep 1000 & setsid sleep 2000 & echo $! & echo here; wait", tag="some job") as found:
        found.until("stdout", b"here\n")
        (listed,) = wire.ask("List", {})["processes"]
        assert (listed["pid"], listed["tag"]) == (found.pid, "some job")
        assert listed["config"]["cmd"] == "/bin/bash"
        assert listed["config"]["args"][:2] == ["-l", "-c"]
        with wire.stream("Connect", {"process": {"tag": "some job"}}) as other:
            other.until("stdout", b"here\n")
            assert other.pid == found.pid
            assert wire.kill(found.pid) == {}
            killed = {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}
            assert other.all().end == found.all().end == killed
    assert wire.pids() == []
    assert not shared.programs.run(["pgrep", "-x", "sleep"]).ok
    assert wire.kill(found.pid, 404)["code"] == "not_found"
    with wire.bash("sleep 1000") as found:
        wire.kill(found.pid, name="SIGNAL_SIGTERM")
        assert found.all().status == "signal: terminated"


def test_a_stream_in_which_nothing_happens_has_signs_of_life(wire: ProcessWire) -> None:
    """As often as the client wants."""
    with wire.bash("sleep 2.5", headers={"keepalive-ping-interval": "1"}) as found:
        assert found.all().keepalives >= 1
        assert found.exit_code == 0


def test_a_client_that_leaves_ends_nothing(wire: ProcessWire, shared: Session) -> None:
    """Not by leaving early in the time that it gave, either."""
    with wire.bash("echo begun; until [ -e /tmp/go ]; do sleep 0.05; done; echo end", 30) as found:
        found.until("stdout", b"begun\n")
    shared.files.write("/tmp/go", b"")
    with wire.stream("Connect", {"process": {"pid": found.pid}}) as again:
        assert again.all().written["stdout"] == b"begun\nend\n"


def test_a_timed_out_process_is_killed_with_its_children(wire: ProcessWire, shared: Session) -> None:
    """The time of one who connects ends the stream only."""
    with wire.bash("sleep 1000 & echo $!; wait", 3) as found:
        child = int(found.until("stdout", b"\n"))
        with wire.stream("Connect", {"process": {"pid": found.pid}}, 0.2) as other:
            assert other.all().trouble == "deadline_exceeded"
            assert other.end is None
        assert wire.pids() == [found.pid]
        assert found.all().trouble == "deadline_exceeded"
    polling.until(lambda: wire.pids() == [], 60)
    assert not running(shared, child)
    # A client whose own clock ran out first has not left by choice.
    with wire.bash("sleep 1000", 1) as found:
        time.sleep(0.8)
    polling.until(lambda: wire.pids() == [], 60)


def test_input_is_taken_in_order_and_ends(wire: ProcessWire) -> None:
    """Also from several concurrent clients, whose pieces are neither mixed nor lost."""
    with wire.bash("wc -l; echo end", stdin=True) as found:
        wire.give(found.pid, "é".encode()[:1])
        wire.give(found.pid, "é".encode()[1:] + b"\n")
        pieces = [f"{n:08d}\n".encode() * 2000 for n in range(12)]
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda piece: wire.give(found.pid, piece), pieces))
        assert wire.ask("CloseStdin", {"process": {"pid": found.pid}}) == {}
        assert found.all().written["stdout"] == b"24001\nend\n"
    with wire.bash("cat", stdin=True, tag="cat") as found:
        start = {"start": {"process": {"tag": "cat"}}}
        parts = [{"data": {"input": {"stdin": b64(part)}}} for part in (b"a", b"b" * 100_000, b"c\n")]
        whole = framed(start, parts[0], {"keepalive": {}}, *parts[1:])
        cut = [whole[:3], whole[3:50], whole[50:5000], whole[5000:]]
        answer = wire.client.post(
            "/process.Process/StreamInput",
            content=iter(cut),
            headers=STREAM,
        )
        assert (answer.status_code, answer.content) == (200, b"\0\0\0\0\2{}\2\0\0\0\2{}")
        wire.ask("CloseStdin", {"process": {"tag": "cat"}})
        assert found.all().written["stdout"] == b"a" + b"b" * 100_000 + b"c\n"


def test_unread_input_is_reported_and_does_not_delay_others(wire: ProcessWire, server: Served) -> None:
    with wire.bash("sleep 1000", stdin=True) as found, ThreadPoolExecutor(8) as pool:
        bodies = [b"x" * 300_000] * 8
        headers = {"connect-timeout-ms": "1500"}
        waiting = [pool.submit(wire.give, found.pid, body, 504, **headers) for body in bodies]
        while server.metric('holdfast_calls{kind="waiting"}') < 2:
            time.sleep(0.05)
        assert wire.run("echo well").written["stdout"] == b"well\n"
        told = {each.result()["code"] for each in waiting}
        assert told == {"deadline_exceeded"}
        wire.kill(found.pid)
        found.all()
        words = {"cmd": "/bin/bash", "args": ["-c", "stty raw -echo; echo ready; sleep 1000"]}
        with wire.stream("Start", {"process": words, "pty": {}}) as found:
            found.until("pty", b"ready")
            told = wire.give(found.pid, b"x" * 100_000, 504, "pty", **headers)
            assert "does not read" in told["message"]
            wire.kill(found.pid)
            found.all()


def test_a_client_that_leaves_in_the_middle_of_its_input_holds_nobody_up(
    wire: ProcessWire, server: Served
) -> None:
    """Neither with one piece nor with a stream of them, without any limit of time."""
    with wire.bash("sleep 1000", stdin=True) as found:
        big = {"process": {"pid": found.pid}, "input": {"stdin": b64(b"x" * 300_000)}}
        stream = framed({"start": {"process": {"pid": found.pid}}}, {"data": {"input": big["input"]}})

        def parts() -> Iterator[bytes]:
            yield stream
            time.sleep(0.3)  # so that its piece waits
            raise ConnectionResetError

        for _ in range(3):
            with pytest.raises(httpx.ReadTimeout):
                wire.client.post("/process.Process/SendInput", json=big, timeout=0.3)
            with pytest.raises(ConnectionResetError):
                wire.client.post("/process.Process/StreamInput", content=parts(), headers=STREAM)
        # This one's call itself is the only one that waits.
        polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 1, 60)
        wire.kill(found.pid)
        found.all()


def test_input_that_cannot_be_given_is_refused(wire: ProcessWire) -> None:
    with wire.bash("sleep 1000") as found:
        pid = found.pid
        assert "input is closed" in wire.give(pid, b"x", 400)["message"]
        assert "no terminal" in wire.give(pid, b"x", 400, "pty")["message"]
        assert (
            "no terminal" in wire.ask("Update", {"process": {"pid": pid}, "pty": PTY["pty"]}, 400)["message"]
        )
        assert wire.ask("Update", {"process": {"pid": pid}}, 400)["code"] == "invalid_argument"
        told = wire.ask("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGHUP"}, 400)
        assert "use SIGNAL_SIGTERM" in told["message"]
        wire.kill(pid)
        found.all()
    assert wire.give(pid, b"x", 404)["code"] == "not_found"
    assert wire.ask("CloseStdin", {"process": {"pid": pid}}, 404)["code"] == "not_found"


def test_large_output_is_exact(wire: ProcessWire) -> None:
    """Five million bytes on each stream, of all values."""
    script = (
        "import os, threading\n"
        "data = bytes(range(256)) * 19532\n"
        "def put(fd):\n"
        "    left = data\n"
        "    while left: left = left[os.write(fd, left):]\n"
        "threads = [threading.Thread(target=put, args=(fd,)) for fd in (1, 2)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]\n"
    )
    words = {"cmd": "python3", "args": ["-c", script]}
    with wire.stream("Start", {"process": words}) as found:
        found.all()
    digest = hashlib.sha256(bytes(range(256)) * 19532).digest()
    assert {hashlib.sha256(found.written[name]).digest() for name in ("stdout", "stderr")} == {digest}


def test_a_terminal_is_typed_into_resized_and_ended(wire: ProcessWire) -> None:
    """It has the wanted size and kind, and its output is as the terminal has it."""
    envs = {"TERM": "vt100", "WORD": "kept"}
    body = {**PTY, "process": {**PTY["process"], "envs": envs, "cwd": "/tmp"}, "tag": "terminal"}
    with wire.stream("Start", body) as found:
        (listed,) = wire.ask("List", {})["processes"]
        assert (listed["pid"], listed["tag"]) == (found.pid, "terminal")
        assert listed["config"] == {"cmd": "/bin/bash", "args": ["-i", "-l"], "envs": {}, "cwd": "/tmp"}
        wire.give(found.pid, b"stty size; echo $TERM-$WORD-$((40 + 2)); tty\n", kind="pty")
        seen = found.until("pty", b"/dev/pts/")
        assert b"30 90\r\n" in seen
        assert b"vt100-kept-42\r\n" in seen
        size = {"process": {"tag": "terminal"}, "pty": {"size": {"cols": 132, "rows": 50}}}
        assert wire.ask("Update", size) == {}
        wire.give(found.pid, b"stty size\n", kind="pty")
        found.until("pty", b"50 132\r\n")
        assert "has a terminal" in wire.give(found.pid, b"x", 400)["message"]
        assert "Ctrl-D" in wire.ask("CloseStdin", {"process": {"pid": found.pid}}, 400)["message"]
        start = {"start": {"process": {"pid": found.pid}}}
        typed = {"data": {"input": {"pty": b64(b"exit 4\r")}}}
        answer = wire.client.post(
            "/process.Process/StreamInput",
            content=framed(start, typed),
            headers=STREAM,
        )
        assert answer.status_code == 200
        assert found.all().exit_code == 4
    with wire.stream("Connect", {"process": {"pid": found.pid}}) as again:
        assert (again.all().written["pty"], again.end) == (found.written["pty"], found.end)
    with wire.stream("Start", PTY) as found:
        wire.kill(found.pid)
        assert found.all().status == "signal: killed"


def test_a_terminal_is_not_held_up_by_a_person_in_the_shell(wire: ProcessWire, shared: Session) -> None:
    shared.terminal.take()
    try:
        with wire.stream("Start", PTY) as found:
            wire.give(found.pid, b"exit 0\r", kind="pty")
            assert found.all().exit_code == 0
    finally:
        shared.terminal.give_back()


def test_users(wire: ProcessWire) -> None:
    """The user of the header; in a session that no client made, `user` is the session's own one."""

    def who(name: str) -> str:
        found = wire.run("id -un", headers={"authorization": f"Basic {b64(name.encode() + b':')}"})
        return found.written["stdout"].decode().strip()

    assert [who(name) for name in ("root", "nobody", "user", "")] == ["root", "nobody", "root", "root"]
    header = {"authorization": f"Basic {b64(b'nobody:')}"}
    with wire.stream("Start", PTY, headers=header) as found:
        wire.give(found.pid, b"id -un; exit\n", kind="pty")
        assert b"nobody\r\n" in found.all().written["pty"]
    told = wire.refused(
        "Start", framed({"process": {"cmd": "id"}}), authorization=f"Basic {b64(b'nobody-here:')}"
    )
    assert told == "invalid_argument: cannot run as nobody-here: no such user"
    for odd in (b"../x", b"a\0b", b"4294967295", b"\xc2\xb2"):
        told = wire.refused(
            "Start", framed({"process": {"cmd": "id"}}), authorization=f"Basic {b64(odd + b':')}"
        )
        assert "no such user" in told


@pytest.mark.thorough
def test_a_capture_in_the_middle_is_not_noticed_and_copies_have_the_same_processes(
    wire: ProcessWire, server: Served, shared: Session, shared_hf: Holdfast
) -> None:
    """All output arrives once; a copy has the pids, tags, input and terminals, and continues on its own."""
    ticking = "for n in $(seq 150); do echo $n; echo e$n >&2; sleep 0.02; done"
    expected = "".join(f"{n}\n" for n in range(1, 151)).encode()
    with (
        wire.bash(ticking, 60) as ticks,
        wire.bash("read line; echo got $line", stdin=True, tag="asks") as asks,
        wire.stream("Start", {**PTY, "tag": "screen"}) as screen,
    ):
        wire.give(screen.pid, b"here=$((40 + 2))\n", kind="pty")
        ticks.until("stdout", b"20\n")
        taken = shared.snapshot("middle")
        between = ticks.all()
        assert (between.written["stdout"], between.error) == (expected, None)
        assert between.written["stderr"] == b"".join(b"e%d\n" % n for n in range(1, 151))
        assert between.exit_code == 0
        copy = taken.restore("copy")
        with pytest.raises(AssertionError, match="401"):
            ProcessWire(server, copy.id, token_of=shared.id).ask("List", {})
        there = ProcessWire(server, copy.id)
        listed = {each.get("tag", ""): each["pid"] for each in there.ask("List", {})["processes"]}
        assert (listed["asks"], listed["screen"]) == (asks.pid, screen.pid)
        with there.stream("Connect", {"process": {"pid": ticks.pid}}) as again:
            assert again.all().written["stdout"] == expected
        with there.stream("Connect", {"process": {"tag": "asks"}}) as again:
            there.give(asks.pid, b"there\n")
            assert again.all().written["stdout"] == b"got there\n"
        with there.stream("Connect", {"process": {"tag": "screen"}}) as again:
            there.ask("Update", {"process": {"pid": screen.pid}, "pty": {"size": {"cols": 77, "rows": 22}}})
            there.give(screen.pid, b"stty size; echo is-$here; exit 5\n", kind="pty")
            assert b"22 77\r\nis-42\r\n" in again.all().written["pty"]
            assert again.exit_code == 5
        there.client.close()
        copy.remove()
        taken.remove()
        wire.give(asks.pid, b"here\n")
        assert asks.all().written["stdout"] == b"got here\n"
        wire.give(screen.pid, b"echo is-$here; exit\n", kind="pty")
        assert b"is-42\r\n" in screen.all().written["pty"]


def test_requests_of_an_unexpected_form_are_refused_in_one_line(wire: ProcessWire) -> None:
    process = {"process": {"cmd": "true"}}
    cases: list[tuple[bytes, str]] = [
        (b"", "0 messages"),
        (framed(process, process), "2 messages"),
        (framed(process)[:-1], "missing"),
        (b"\1" + framed(process)[1:], "compressed"),
        (b"\0\xff\xff\xff\xff", "16 MiB"),
        (b"\0\0\0\0\3[1]", "not a JSON object"),
        (framed({}), "process"),
        (framed({"process": {"cmd": ""}}), "cmd"),
        (framed({"process": {"cmd": "no-such-program"}}), "no such program"),
        (framed({"process": {"cmd": "true", "cwd": "/no/such"}}), "no such directory"),
        (framed({"process": {"cmd": "a\0b"}}), "NUL"),
        (framed({"process": {"cmd": "\ud800"}}), "unicode"),
        (framed({"process": {"cmd": "true", "envs": {"a=b": "c"}}}), "an invalid name"),
        (framed({"process": {"cmd": "true", "args": ["x" * (2 << 20)]}}), "more than"),
        (framed({**process, "tag": "two\nlines"}), "one line"),
        (framed({**process, "tag": "x" * 65}), "tag"),
        (framed({**process, "pty": {"size": {"cols": 0, "rows": 0}}}), "size"),
        (framed({"process": {"cmd": "a\0b"}, "pty": {}}), "NUL"),
        (framed({"process": {"cmd": "true", "cwd": "/no/such"}, "pty": {}}), "no directory"),
        (framed({"process": {"cmd": "true", "envs": {"A": "x" * (2 << 20)}}, "pty": {}}), "limit"),
    ]
    for content, told in cases:
        assert told in wire.refused("Start", content), content[:200]
    assert "not a number" in wire.refused("Start", framed(process), **{"connect-timeout-ms": "soon"})
    assert "not_found" in wire.refused("Connect", framed({"process": {"pid": 999999}}))
    assert "not_found" in wire.refused("Connect", framed({"process": {"tag": "none"}}))
    stream = framed({"data": {"input": {"stdin": "eA=="}}})
    assert "does not begin" in wire.refused("StreamInput", stream)
    assert "does not name a process" in wire.refused("StreamInput", b"")
    assert "not_found" in wire.refused("StreamInput", framed({"start": {"process": {"pid": 1}}}))
    bodies: list[Any] = [
        [],
        {},
        {"process": {}},
        {"process": {"pid": "x"}},
        {"process": {"pid": 1, "tag": "x"}},
    ]
    for body in bodies:
        assert wire.ask("CloseStdin", body, 400)["code"] == "invalid_argument"
    assert wire.ask("SendInput", {"process": {"pid": 1}, "input": {"stdin": "%"}}, 400)
    assert wire.ask("GetResult", {}, 501)["code"] == "unimplemented"
    assert wire.pids() == []


def test_a_flood_that_a_client_does_not_read_stays_in_the_session(
    wire: ProcessWire, server: Served, shared: Session
) -> None:
    """Without bound, with control characters in every name: the server's memory and its other answers."""
    before = server.resident()
    hostile = "exec -a $'x\\e]0;bad\\a\\n' bash -c 'yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    with wire.bash(hostile) as found, wire.stream("Start", PTY) as screen:
        wire.give(screen.pid, b"exec yes\n", kind="pty")
        until = time.monotonic() + 3
        while time.monotonic() < until:
            assert wire.run("echo well").written["stdout"] == b"well\n"
        assert server.resident() - before < 96 << 20
        assert len(wire.pids()) == 2
        found.until("stdout", b"aaaa")
    for pid in wire.pids():
        wire.kill(pid)
    polling.until(lambda: wire.pids() == [], 60)


def test_a_process_that_goes_on_in_the_background_is_not_waited_for(wire: ProcessWire) -> None:
    """The end of a process is the end of its stream, although what it left behind holds its pipes."""
    found = wire.run("setsid sleep 1000 & echo done")
    assert (found.written["stdout"], found.exit_code) == (b"done\n", 0)
    wire.run("pkill -x sleep")


def test_a_removed_sandbox_is_reported_in_words_that_clients_know(
    server: Served, shared_hf: Holdfast, shared: Session
) -> None:
    """502 and `was not found`; a stream under way is cut, upon which clients ask whether the sandbox runs."""
    made = shared_hf.new("brief")
    wire = ProcessWire(server, made.id)
    ended: list[Any] = []

    def follow() -> None:
        with wire.bash("echo here; sleep 1000") as found:
            found.until("stdout", b"here\n")
            ended.append(None)
            with suppress(httpx.RemoteProtocolError):
                ended[0] = found.all()
            ended.append("cut")

    thread = threading.Thread(target=follow)
    thread.start()
    polling.until(lambda: bool(ended), 60)
    made.remove()
    thread.join(30)
    assert ended == [None, "cut"]
    told = wire.ask("List", {}, 502)
    assert (told["code"], "was not found" in told["message"]) == (502, True)
    wire.client.close()
    with httpx.Client(base_url=server.url, trust_env=False) as stranger:
        answer = stranger.post("/process.Process/List", json={}, headers={"e2b-sandbox-id": shared.id})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_the_journal_names_no_actor_that_a_sandbox_token_chose(wire: ProcessWire, shared: Session) -> None:
    """Those who run a sandbox's programs have one name there; only the server's own token chooses it."""
    assert wire.run("echo forged", headers={"holdfast-actor": "person:ada"}).exit_code == 0
    entries = [each.as_dict() for each in shared.journal(grep="echo forged")]
    assert entries
    assert {each["actor"] for each in entries} == {"agent:e2b"}
