"""The wire of SWE-ReX, spoken without its package: shells, programs and files of a session, and attacks."""

from __future__ import annotations

import io
import json
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.patience import Patience


class RuntimeWire:
    """A client of one session's runtime."""

    def __init__(self, server: Served, session: str, key: str | None = None) -> None:
        self.client = httpx.Client(
            base_url=f"{server.url}/swerex/{session}",
            headers={"x-api-key": server.token if key is None else key},
            timeout=120,
            trust_env=False,
        )

    def ask(self, path: str, /, **body: Any) -> Any:
        """Return the answer to a request, which must succeed."""
        answer = self._post(path, body)
        assert answer.status_code == 200, (answer.status_code, answer.text[:2000])
        return answer.json()

    def fails(self, path: str, /, **body: Any) -> tuple[str, str]:
        """Return the class and message of the error that a request is answered with."""
        return failure(self._post(path, body))

    def _post(self, path: str, body: Any) -> httpx.Response:
        # In ASCII, as the client sends it: with halves of characters as well.
        return self.client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})

    @contextmanager
    def leaving(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Iterator[None]:
        """Send a request, and leave at the end of the block without its answer."""
        url = self.client.base_url
        connection = HTTPConnection(url.host, url.port or 0, timeout=60)
        given = {"content-type": "application/json", "x-api-key": self.client.headers["x-api-key"]}
        try:
            connection.request("POST", f"{url.path}{path}", json.dumps(body), given | (headers or {}))
            yield
        finally:
            connection.close()

    def run(self, command: str, **more: Any) -> Any:
        return self.ask("run_in_session", **action(command, **more))

    def run_fails(self, command: str, **more: Any) -> tuple[str, str]:
        return self.fails("run_in_session", **action(command, **more))

    def interrupt(self, timeout: float = 60, **more: Any) -> Any:
        return self.ask("run_in_session", action_type="bash_interrupt", timeout=timeout, **more)

    def upload(self, content: bytes, path: str, *, packed: bool = False) -> httpx.Response:
        return self.client.post(
            "upload", files={"file": content}, data={"target_path": path, "unzip": str(packed).lower()}
        )


def action(command: str, **more: Any) -> dict[str, Any]:
    return {"action_type": "bash", "command": command, "timeout": 30, **more}


def failure(answer: httpx.Response) -> tuple[str, str]:
    assert answer.status_code == 511, (answer.status_code, answer.text[:2000])
    told = answer.json()["swerexception"]
    assert set(told) == {"message", "class_path", "traceback", "extra_info"}
    return told["class_path"].rpartition(".")[2], told["message"]


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


Runtimes = Callable[..., RuntimeWire]


@pytest.fixture
def runtime(server: Served) -> Iterator[Runtimes]:
    """Return a function that makes a client for the runtime of a session."""
    with ExitStack() as left:

        def made(session: str, key: str | None = None) -> RuntimeWire:
            found = RuntimeWire(server, session, key)
            left.callback(found.client.close)
            return found

        yield made


@pytest.fixture
def wire(runtime: Runtimes, shared: Session) -> Iterator[RuntimeWire]:
    """A runtime with the shell `default`."""
    found = runtime(shared.name)
    found.ask("create_session")
    yield found
    found.ask("close")


def test_a_runtime_is_alive_as_long_as_its_session_runs(runtime: Runtimes, shared: Session) -> None:
    for name in (shared.name, shared.id):
        assert runtime(name).client.get("is_alive").json() == {"is_alive": True, "message": ""}
    told = runtime("nothing").client.get("is_alive").json()
    assert not told["is_alive"]
    assert "nothing" in told["message"]
    assert runtime("nothing").fails("execute", command="ls")[0] == "DeploymentNotStartedError"
    for key in ("", "wrong"):
        answer = runtime(shared.name, key).client.get("is_alive")
        assert answer.status_code == 401
        assert answer.json()["detail"].startswith("cannot answer: send the server's token")
    assert runtime(shared.name).client.get("nothing").status_code == 404


def test_shells_are_opened_and_closed(wire: RuntimeWire, shared: Session) -> None:
    assert wire.fails("create_session")[0] == "SessionExistsError"
    shared.files.write("/tmp/startup", "echo sourced; PS1='other> '; X=7\n")
    made = wire.ask("create_session", session="second", startup_source=["/tmp/startup"], startup_timeout=60)
    assert made == {"output": "sourced\n", "session_type": "bash"}
    assert wire.run("echo $X; cd /usr", session="second")["output"] == "7\n"
    assert wire.run("pwd; echo $X")["output"] != "/usr\n7\n"
    assert [each.name for each in shared.shells.list()] == ["main", "default", "second"]
    wire.ask("close_session", session="second")
    assert wire.fails("close_session", session="second")[0] == "SessionDoesNotExistError"
    assert wire.run_fails("ls", session="second")[0] == "SessionDoesNotExistError"
    assert wire.fails("create_session", session="no name")[0] == "ValueError"
    assert wire.fails("close_session", session="main")[0] == "ValueError"


def test_a_shell_whose_startup_hangs_is_not_kept(wire: RuntimeWire, shared: Session) -> None:
    shared.files.write("/tmp/hangs", "sleep 1000\n")
    kind, message = wire.fails(
        "create_session", session="slow", startup_source=["/tmp/hangs"], startup_timeout=0.3
    )
    assert (kind, "0.3 s" in message) == ("CommandTimeoutError", True)
    assert "slow" not in [each.name for each in shared.shells.list()]


def test_commands_have_an_output_and_an_exit_code(wire: RuntimeWire) -> None:
    assert wire.run("echo 'a\n b'; printf x") == {
        "output": "a\n b\nx",
        "exit_code": 0,
        "failure_reason": "",
        "expect_string": "SHELLPS1PREFIX",
        "session_type": "bash",
    }
    assert wire.run("printf '\\e[31mred\\e[0m\\xff'")["output"] == "red\\xff"
    assert wire.run("(exit 3)", check="silent")["exit_code"] == 3
    assert wire.run("(exit 3)", check="ignore")["exit_code"] is None
    kind, message = wire.run_fails("echo why; false", error_msg="no luck")
    assert kind == "NonZeroExitCodeError"
    assert message.startswith("no luck: Command 'echo why; false' failed with exit code 1.")
    assert "why" in message
    for empty in ("", " \n\n", "# comment", "\n # comment\n"):
        assert wire.run(empty)["output"] == ""
    assert wire.run("cat <<'E'\n$x\nE\necho 2")["output"] == "$x\n2\n"


def test_a_command_that_bash_cannot_parse_is_not_run(wire: RuntimeWire) -> None:
    answer = wire.client.post("run_in_session", json=action("echo begun > /tmp/begun\n(a"))
    assert failure(answer)[0] == "BashIncorrectSyntaxError"
    assert set(answer.json()["swerexception"]["extra_info"]) == {"bash_stdout", "bash_stderr"}
    assert wire.run("test -e /tmp/begun", check="silent")["exit_code"] == 1


def test_a_command_whose_time_is_over_continues_until_it_is_interrupted(wire: RuntimeWire) -> None:
    kind, message = wire.run_fails("echo begun; sleep 1000", timeout=0.3)
    assert kind == "CommandTimeoutError"
    assert "timeout after 0.3 s; it continues" in message
    assert wire.run_fails("echo other", timeout=0.3)[0] == "CommandTimeoutError"
    assert wire.interrupt()["exit_code"] == 0
    assert wire.run("echo again")["output"] == "again\n"
    assert wire.interrupt()["output"] == ""
    assert wire.run("echo again")["output"] == "again\n"


def test_a_command_that_asks_does_not_wait_without_end(wire: RuntimeWire) -> None:
    kind, message = wire.run_fails("read -sp 'Password: ' secret", timeout=None)
    assert kind == "CommandTimeoutError"
    assert "waits for a password ('Password: ')" in message
    wire.interrupt()
    kind, message = wire.run_fails("read -p 'Name? ' name", timeout=3)
    assert "timeout after 3 s" in message
    assert "waits for a line ('Name? ')" in message
    wire.run("holdfast", is_interactive_command=True)
    assert wire.run("echo $name")["output"] == "holdfast\n"


def test_a_program_that_obeys_no_interrupt_is_killed(wire: RuntimeWire) -> None:
    command = "trap '' INT; echo ready; exec sleep 1000"
    wire.run(f'bash -c "{command}"', check="ignore", expect=["ready"])
    assert wire.interrupt(timeout=0.2)["exit_code"] == 0
    told = wire.run("echo asdf")["output"]
    assert told.startswith("asdf\n[1]+  Killed")
    assert wire.run("jobs")["output"] == ""


def test_a_program_is_driven_line_by_line(wire: RuntimeWire) -> None:
    prompt = {"is_interactive_command": True, "expect": [">>> "]}
    seen = wire.run("python3 -q", **prompt)
    assert (seen["expect_string"], seen["exit_code"]) == (">>> ", 0)
    seen = wire.run("print('hello ' + 'world')", **prompt)
    assert (seen["output"], seen["expect_string"]) == ("hello world", ">>> ")
    kind, message = wire.run_fails("1 + 1", is_interactive_command=True, expect=["NEVER"], timeout=1)
    assert (kind, "NEVER" in message) == ("CommandTimeoutError", False)
    assert "2" in wire.run("3", **prompt)["output"]
    assert wire.run("quit()", is_interactive_quit=True)["expect_string"] == "SHELLPS1PREFIX"
    assert wire.run("echo back")["output"] == "back\n"


def test_output_between_two_lines_is_not_lost(wire: RuntimeWire) -> None:
    """Nor is output that was already passed on found again."""
    script = "echo one; read x; echo two; echo three; read y; echo four; read z; read z"
    line = {"is_interactive_command": True}
    assert wire.run(f"bash -c '{script}'", expect=["on[e]"], **line)["output"] == ""
    assert wire.run("go", expect=["tw?o"], **line)["output"] == ""
    assert wire.run("more", expect=["four"], **line)["output"] == "three\nmore"
    kind, message = wire.run_fails("last", expect=["two"], timeout=0.5, **line)
    assert (kind, "timeout after 0.5 s" in message) == ("CommandTimeoutError", True)


def test_expected_output_ends_a_command(wire: RuntimeWire) -> None:
    server = "python3 -um http.server 8123"
    seen = wire.run(server, check="ignore", expect=["Serving HTTP"])
    assert (seen["output"], seen["exit_code"], seen["expect_string"]) == ("", None, "Serving HTTP")
    assert wire.interrupt(expect=["Keyboard"])["expect_string"] == "Keyboard"
    assert wire.run("echo free")["output"] == "free\n"
    assert wire.run_fails(server, expect=["Serving HTTP"])[0] == "NoExitCodeError"
    wire.interrupt()
    seen = wire.run("echo one; echo two; (exit 4)", check="silent", expect=["one\n"])
    assert (seen["output"], seen["exit_code"], seen["expect_string"]) == ("two\n", 4, "one\n")
    assert wire.run_fails("ls", expect=["(a+)+$"])[0] == "ValueError"


def test_of_much_output_the_end_is_returned(wire: RuntimeWire) -> None:
    """The result counts the missing bytes; an expected text is found however much precedes it."""
    flood = "head -c 5000000 /dev/zero | tr '\\0' x"
    seen = wire.run(f"{flood}; echo done", expect=["never", "y*z"])
    assert seen["output"].endswith("xxdone\n")
    assert len(seen["output"]) + int(seen["failure_reason"].split()[0]) == 5_000_005
    seen = wire.run(f"{flood}; echo the end", check="ignore", expect=["the e.d"])
    assert (seen["expect_string"], seen["output"][-2:]) == ("the e.d", "xx")
    assert len(wire.run(f"{flood}")["output"]) == 5_000_000


def test_programs_run_beside_the_shells(wire: RuntimeWire) -> None:
    told = wire.ask("execute", command=["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert told == {"stdout": "out\n", "stderr": "err\n", "exit_code": 3}
    told = wire.ask("execute", command="echo $X; pwd", shell=True, env={"X": "x y"}, cwd="/usr")
    assert told["stdout"] == "x y\n/usr\n"
    told = wire.ask("execute", command="echo out; echo err >&2", shell=True, merge_output_streams=True)
    assert (told["stdout"], told["stderr"]) == ("out\nerr\n", "")
    assert wire.ask("execute", command="kill -9 $$", shell=True)["exit_code"] == -9
    assert wire.ask("execute", command="", shell=True, check=True)["exit_code"] == 0
    assert wire.fails("execute", command="exit 2", shell=True, check=True)[0] == "NonZeroExitCodeError"
    assert wire.fails("execute", command="none-such --at-all")[0] == "FileNotFoundError"
    assert wire.fails("execute", command=["ls"], cwd="/none-such")[0] == "FileNotFoundError"
    assert wire.fails("execute", command=[])[0] == "ValueError"
    told = wire.fails("execute", command="head -c 40000000 /dev/zero", shell=True)
    assert (told[0], "16 MiB" in told[1]) == ("SwerexException", True)


def test_a_program_whose_time_is_over_is_ended_with_all_it_started(
    wire: RuntimeWire, shared: Session
) -> None:
    command = "sleep 4321 & sleep 4321"
    assert wire.fails("execute", command=command, shell=True, timeout=0.3)[0] == "CommandTimeoutError"
    polling.until(lambda: shared.programs.run(["pgrep", "-fx", "sleep 4321"]).exit_code == 1, 60)


def test_a_client_that_leaves_ends_its_program(wire: RuntimeWire, shared: Session) -> None:
    runs = ["pgrep", "-fx", "sleep 4322"]
    with wire.leaving("execute", {"command": ["sleep", "4322"]}):
        polling.until(lambda: shared.programs.run(runs).ok, 60)
    polling.until(lambda: shared.programs.run(runs).exit_code == 1, 60)


def test_files_are_read_and_written(wire: RuntimeWire, shared: Session) -> None:
    wire.ask("write_file", path="/tmp/new/folder/a", content="ä\n")
    assert shared.files.read("/tmp/new/folder/a") == "ä\n".encode()
    assert wire.ask("read_file", path="/tmp/new/folder/a")["content"] == "ä\n"
    shared.files.write("/tmp/latin", b"\xe4\r\n")
    assert wire.ask("read_file", path="/tmp/latin", encoding="latin-1")["content"] == "ä\n"
    assert wire.ask("read_file", path="/tmp/latin", errors="surrogateescape")["content"] == "\udce4\n"
    wire.ask("write_file", path="/tmp/same", content="\udce4\n")
    assert shared.files.read("/tmp/same") == b"\xe4\n"
    assert wire.fails("read_file", path="/tmp/latin")[0] == "ValueError"
    assert wire.fails("write_file", path="/tmp/none", content="\ud800")[0] == "ValueError"
    assert wire.fails("read_file", path="missing")[0] == "FileNotFoundError"
    assert wire.fails("read_file", path="/tmp")[0] == "OSError"
    assert wire.fails("write_file", path="/tmp/latin/a", content="")[0] == "OSError"
    shared.programs.run(["truncate", "-s", "100M", "/tmp/large"])
    assert wire.fails("read_file", path="/tmp/large")[0] == "ValueError"
    shared.programs.run(["mkfifo", "/tmp/pipe"])
    assert wire.fails("read_file", path="/tmp/pipe")[0] == "OSError"


def packed(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = (stat.S_IFREG | 0o4755) << 16
            archive.writestr(member, content)
        archive.writestr(zipfile.ZipInfo("empty/"), b"")
    return stream.getvalue()


def test_files_and_folders_are_uploaded(wire: RuntimeWire, shared: Session) -> None:
    large = b"0123456789abcdef" * (1 << 17)
    assert wire.upload(large, "/tmp/up/here/large").json() == {}
    assert shared.files.read("/tmp/up/here/large") == large
    archive = packed(**{"a": large, "folder/b c": b"b", "folder/ü": b""})
    assert wire.upload(archive, "/tmp/up/tree/", packed=True).json() == {}
    assert shared.files.read("/tmp/up/tree/a") == large
    assert [each.name for each in shared.files.list("/tmp/up/tree/folder")] == ["b c", "ü"]
    assert shared.files.stat("/tmp/up/tree/empty").kind == "folder"
    assert shared.files.stat("/tmp/up/tree/a").mode & 0o7777 == 0o755
    assert failure(wire.upload(b"x", "/tmp/up/tree"))[0] == "OSError"


def test_hostile_uploads_write_nothing(wire: RuntimeWire, shared: Session) -> None:
    place = "/tmp/hostile/to"
    for content in (
        b"",
        b"PK\x03\x04",
        packed(**{"../out": b"x"}),
        packed(**{"/tmp/hostile/out": b"x"}),
        packed(a=b"x")[:-30],
    ):
        assert failure(wire.upload(content, place, packed=True))[0] == "ValueError"
    assert failure(wire.upload(b"x", "/tmp/nul\0"))[0] == "ValueError"
    assert failure(wire.client.post("upload", files={"file": b"x"}))[0] == "ValueError"
    assert failure(wire.client.post("upload", data={"target_path": "/tmp/x", "file": "x"}))[0] == "ValueError"
    assert failure(wire.client.post("upload", content=b"x"))[0] == "ValueError"
    broken = {"content-type": "multipart/form-data; boundary=b"}
    assert failure(wire.client.post("upload", content=b"--b\r\nx", headers=broken))[0] == "ValueError"
    assert not shared.programs.run(["ls", "/tmp/hostile"]).ok


def test_a_link_in_the_session_leads_an_upload_nowhere_else(wire: RuntimeWire, shared: Session) -> None:
    """The session's own links are the session's affair; their targets on the host are not reached."""
    shared.programs.run(["sh", "-c", "ln -s / /tmp/root; ln -s /proc/1/root /tmp/first"])
    assert wire.upload(packed(a=b"x"), "/tmp/root/tmp/linked", packed=True).json() == {}
    assert shared.files.read("/tmp/linked/a") == b"x"
    assert wire.upload(packed(a=b"x"), "/tmp/first/tmp/linked-too", packed=True).status_code in (200, 511)
    assert not Path("/tmp/linked").exists()
    assert not Path("/tmp/linked-too").exists()


def test_requests_of_an_unexpected_form_are_refused(wire: RuntimeWire) -> None:
    for body in ({}, {"action_type": "other"}, action("x" * (9 << 20)), action("ls", timeout=-1)):
        kind, message = wire.fails("run_in_session", **body)
        assert (kind, message.startswith("cannot read the request")) == ("ValueError", True)
    for content in (b"", b"[", b"[" * 100_000, b"\xff"):
        answer = wire.client.post(
            "run_in_session", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400 or failure(answer)[0] == "ValueError"
    assert wire.client.post("write_file", content=b"x" * (17 << 20)).status_code == 413


def test_the_same_request_runs_once(wire: RuntimeWire, shared: Session) -> None:
    same, command = {"x-request-id": "0d1c"}, action("echo x >> /tmp/once; sleep 2")
    with wire.leaving("run_in_session", command, same):
        polling.until(lambda: shared.programs.run(["test", "-s", "/tmp/once"]).ok, 60)
    for _ in range(2):
        answer = wire.client.post("run_in_session", json=command, headers=same)
        assert answer.json()["exit_code"] == 0
    assert wire.run("cat /tmp/once")["output"] == "x\n"


def test_a_holder_of_a_shell_is_not_disturbed(wire: RuntimeWire, shared_home: Home, shared: Session) -> None:
    with Holdfast(shared_home, actor="person:alice") as other:
        terminal = other.session(shared.name).terminal_of("default")
        terminal.take(600)
        kind, message = wire.run_fails("echo typed")
        assert kind == "SwerexException"
        assert "alice" in message
        terminal.give_back()
        assert wire.run("echo typed")["output"] == "typed\n"
        with ThreadPoolExecutor(1) as pool:
            link = terminal.link(patience=(patience := Patience()))
            attached = pool.submit(link.run)
            try:
                polling.until(lambda: bool(terminal.lease().attached), 60)
                assert "alice" in wire.fails("close_session")[1]
                wire.ask("close")
                assert "default" in [each.name for each in shared.shells.list()]
            finally:
                patience.end()
            attached.result()
        polling.until(lambda: not terminal.lease().attached, 60)


def test_a_command_continues_through_a_capture(wire: RuntimeWire, shared: Session) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(wire.run, "for i in $(seq 40); do echo $i; sleep 0.1; done")
        polling.until(lambda: shared.terminal_of("default").info().command_id is not None, 60)
        taken = shared.snapshot()
        assert running.result()["output"] == "".join(f"{number}\n" for number in range(1, 41))
    taken.remove()


def test_a_copy_has_the_shells_and_the_program_that_is_driven(
    runtime: Runtimes, wire: RuntimeWire, shared: Session
) -> None:
    wire.run("cd /usr; X=7")
    wire.ask("create_session", session="python")
    prompt = {"session": "python", "is_interactive_command": True, "expect": [">>> "]}
    wire.run("python3 -q", **prompt)
    wire.run("number = 41", **prompt)
    taken = shared.snapshot()
    copy = taken.restore()
    there = runtime(copy.name)
    assert there.run("echo $X; pwd")["output"] == "7\n/usr\n"
    assert there.run("number + 1", **prompt)["output"] == "42"
    assert there.fails("create_session")[0] == "SessionExistsError"
    there.ask("close")
    assert [each.name for each in copy.shells.list()] == ["main"]
    assert wire.run("number + 2", **prompt)["output"] == "43"
    copy.remove()
    assert not there.client.get("is_alive").json()["is_alive"]
    taken.remove()


def test_a_suspended_session_is_not_alive(runtime: Runtimes, shared_hf: Holdfast) -> None:
    """It is not resumed by a client that only looks."""
    made = shared_hf.new("asleep")
    there = runtime("asleep")
    there.ask("create_session")
    there.run("X=7")
    made.suspend()
    told = there.client.get("is_alive").json()
    assert told == {
        "is_alive": False,
        "message": "cannot reach session asleep: it is suspended: `holdfast resume asleep`",
    }
    assert "suspended" in there.run_fails("echo $X")[1]
    shared_hf.session("asleep").resume()
    assert there.run("echo $X")["output"] == "7\n"
    shared_hf.session("asleep").remove()
    for each in shared_hf.snapshots():
        each.remove()


def test_many_that_wait_disturb_no_one(wire: RuntimeWire) -> None:
    stopped = threading.Event()

    def wait() -> None:
        with suppress(httpx.HTTPError):
            while not stopped.is_set():
                wire.client.post("execute", json={"command": ["sleep", "1"]})

    with ThreadPoolExecutor(16) as pool:
        for _ in range(16):
            pool.submit(wait)
        for _ in range(20):
            assert wire.client.get("is_alive").json()["is_alive"]
            assert wire.run("echo here")["output"] == "here\n"
        stopped.set()
