"""pytest --holdfast in a session: a failure is captured there, and can be inspected in copies."""

from __future__ import annotations

import io
import re
import tarfile
from importlib import metadata

import pytest

from holdfast.runtime.api.capture_requests import Served
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc.results import ExecResult

PACKAGES = "pytest pluggy iniconfig packaging pygments pytest-xdist execnet typing_extensions"
PYTHON = "/opt/python/lib/python3.13/site-packages"
TESTS = """
import http.server, sqlite3, threading, urllib.request
import pytest

@pytest.fixture
def server():
    found = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found.server_port
    found.shutdown()

@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "db") as found:
        found.execute("create table t (n)")
        found.execute("insert into t values (42)")
        yield found

def test_passes(): pass

@pytest.mark.parametrize("n", [1, 2])
def test_server(n, server, database):
    file = open("notes", "w+")
    file.write("note 42")
    print("printed")
    assert n == 1

def test_after(server): pass
"""


@pytest.fixture(scope="module")
def testing(shared_hf: Holdfast) -> Session:
    """A session with pytest and tests."""
    session = shared_hf.new("testing")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in PACKAGES.split():
            for file in metadata.files(name) or ():
                path = file.locate()
                if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():  # type: ignore[attr-defined]
                    archive.add(str(path), str(file))
    shared_hf.engine.client.api.put_archive(str(session.row.container_id), PYTHON, packed.getvalue())
    made = session.exec(
        f"mkdir /workspace/project; cd /workspace/project; cat > test_a.py <<'END'\n{TESTS}END\n"
        "touch pytest.ini"
    )
    assert made.ok
    return session


def ran(session: Session, *options: str) -> tuple[str, dict[str, Served]]:
    """Run the tests with captures served; return their output and the captures, by test."""
    with session.serve_captures(reference=lambda taken: f"reg/{taken.id}:x") as serving:
        done = session.exec(
            f"python -m pytest --holdfast --color=no --junitxml=/tmp/j.xml {' '.join(options)}", timeout=600
        )
    assert done.exit_code == 1, done.text
    assert serving.error is None
    return done.text, {str(served.asked.failure.where): served for served in serving.served}


def properties(session: Session) -> list[str]:
    said = session.exec("cat /tmp/j.xml", timeout=60).text
    return re.findall(r'<property name="holdfast-snapshot" value="([^"]*)"', said)


class Debugger:
    """The debugger of a copy, which waits at its terminal."""

    def __init__(self, served: Served, name: str) -> None:
        assert served.snapshot is not None
        self.copy = served.snapshot.restore(name)
        self._waits(self.copy.join(str(self.copy.shell().command_id)))

    def __call__(self, line: str) -> str:
        return self._waits(self.copy.answer(line + "\n"))

    @staticmethod
    def _waits(said: ExecResult) -> str:
        assert said.waiting is not None, said.text
        assert (said.waiting.detail, said.waiting.prompt) == ("repl", "(Pdb) ")
        return said.text.replace("\r", "").removesuffix("(Pdb) ").strip()


def test_a_run_continues_and_its_copies_are_paused(testing: Session) -> None:
    """The reference is in all reports; a copy has locals, files, database, server and an open terminal."""
    said, found = ran(testing)
    assert [*found] == ["test_a.py::test_server[2]"]
    references = [f"reg/{served.snapshot.id}:x" for served in found.values() if served.snapshot]
    assert properties(testing) == references
    for test, reference in zip(found, references, strict=True):
        assert f"{test}  holdfast thaw {reference}" in said
    assert "1 failed, 3 passed" in said
    message = found["test_a.py::test_server[2]"].asked.failure.message
    assert re.match(r"test_a.py:\d+: AssertionError: ", message)
    server = Debugger(found["test_a.py::test_server[2]"], "server")
    assert "printed" in server.copy.terminal.screen().text
    assert "-> assert n == 1" in server.copy.terminal.screen().text
    assert server("p n, database.execute('select n from t').fetchall()").endswith("(2, [(42,)])")
    assert server("file.flush(), file.seek(0)[1:]; p file.read()") != ""
    asked = server('p urllib.request.urlopen(f"http://127.0.0.1:{server}/notes").status')
    assert asked.endswith("200")
    server.copy.answer("q\n")
    assert server.copy.exec("cat notes", timeout=60).text.strip() == "note 42"
    server.copy.remove()


@pytest.mark.thorough
def test_with_several_processes(testing: Session) -> None:
    """With xdist the worker that failed has the terminal of a copy, and the others are paused there."""
    _, found = ran(testing, "-n", "2", "-k", "test_server")
    (served,) = found.values()
    assert served.snapshot is not None
    assert properties(testing) == [f"reg/{served.snapshot.id}:x"]
    assert served.asked.failure.command.startswith("pytest --holdfast")
    worker = Debugger(served, "worker")
    assert worker("p n, database.execute('select n from t').fetchall()").endswith("(2, [(42,)])")
    states = [process.state for process in worker.copy.pulse().processes if "exec(eval(" in process.command]
    assert sorted(states) == ["sleeping", "stopped"]
    worker.copy.answer("c\n")
    assert "1 failed, 1 passed" in worker.copy.terminal.screen().text
    worker.copy.remove()
