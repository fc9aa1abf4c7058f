"""The pytest plugin in runs of pytest on this host, with a simulated session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pexpect
import pytest

import holdfast_pytest_option
from holdfast.runtime.pytest_plugin import holdfast_pytest

SESSION = """
import json, os
class CaptureFailed(RuntimeError): pass
class CaptureUnavailable(CaptureFailed): pass
class Captured:
    own = True
    def __init__(self, kind, number):
        self.kind, self.snapshot, self.reference = kind, "5a5a", f"reg/x:{number}"
def identity(): return {}
def capture(**told):
    said = os.environ["SAYS"]
    with open("asked", "a") as file: file.write(json.dumps(told) + "\\n")
    with open("asked") as file: number = len(file.readlines())
    if said == "unavailable": raise CaptureUnavailable("cannot: nobody")
    if said == "failed" and number == 1: raise CaptureFailed("cannot: a GPU")
    return Captured("restored" if said == "restored" else "resumed", number)
"""
TESTS = """
import contextlib, doctest, unittest
import anyio, pytest

@pytest.fixture
def up():
    things = ["up"]
    yield things
    things.clear()

@pytest.fixture
def broken(up):
    half = 1
    raise ValueError("half way")

def helper():
    __tracebackhide__ = True
    raise KeyError("helped")

@pytest.mark.parametrize("n", [1, 2])
def test_param(n, up):
    print("printed")
    secret = n * 21
    assert n == 1, "not one"
def test_setup(broken): pass
def test_helped(): helper()
async def _work():
    inner = 3
    raise OSError("awaited")
@pytest.mark.asyncio
async def test_async(up): await _work()
@pytest.mark.anyio
async def test_any(up): await _work()
@pytest.fixture
def anyio_backend(): return "asyncio"

class TestOld(unittest.TestCase):
    def setUp(self): self.thing = "up"
    def tearDown(self): self.thing = "down"
    def test_old(self): self.assertEqual(self.thing, "else")
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    def test_skips(self): self.skipTest("no")
    @pytest.mark.xfail
    def test_marked(self): self.fail()
class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_new(self): await _work()

def test_passes(): pass
def test_skips(): pytest.skip("no")
def test_gives_up(): pytest.xfail("no")
@pytest.mark.xfail
def test_xfail(): assert 0
"""
FAILING = {
    "test_a.py::test_param[2]": "test_a.py:24: AssertionError: not one",
    "test_a.py::test_setup": "test_a.py:14: ValueError: half way",
    "test_a.py::test_helped": "test_a.py:26: KeyError: 'helped'",
    "test_a.py::test_async": "test_a.py:29: OSError: awaited",
    "test_a.py::test_any": "test_a.py:29: OSError: awaited",
    "test_a.py::TestOld::test_old": "test_a.py:40: AssertionError: 'up' != 'else'",
    "test_a.py::TestAsync::test_new": "test_a.py:29: OSError: awaited",
}


class Run:
    """A folder with tests, in which pytest is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "test_a.py").write_text(TESTS)
        (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
        (folder / "modules").mkdir()
        (folder / "modules" / "holdfast_session.py").write_text(SESSION)

    def environment(self, says: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV"))}
        return {**kept, "SAYS": says, "PYTHONPATH": "modules", "TERM": "dumb", "TMPDIR": str(self.folder)}

    def __call__(self, *arguments: str, says: str = "resumed") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.folder,
            env=self.environment(says),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert not list(self.folder.glob("holdfast-pytest-*"))
        return done.stdout + done.stderr

    def spawn(self, *arguments: str) -> pexpect.spawn[str]:
        found: pexpect.spawn[str] = pexpect.spawn(
            sys.executable,
            ["-m", "pytest", "-p", "no:cacheprovider", "--holdfast", *arguments],
            cwd=self.folder,
            env=self.environment("restored"),
            encoding="utf-8",
            timeout=120,
            echo=False,
        )
        return found

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        path = self.folder / "asked"
        lines = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return {line["failure"]["where"]: line["failure"] for line in lines}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def first_lines(run: Run) -> dict[str, str]:
    return {test: told["message"].splitlines()[0] for test, told in run.asked.items()}


def properties(run: Run, name: str) -> list[str]:
    found = re.findall(f'<property name="{name}" value="([^"]*)"', (run.folder / "j.xml").read_text())
    return sorted(found)


def test_failures_are_captured(run: Run) -> None:
    """All kinds of failures, once, where they failed; nothing else. The host's refusals are reported."""
    said = run("--holdfast", "--holdfast-max=20", "--junitxml=j.xml", says="failed")
    assert first_lines(run) == FAILING
    one = run.asked["test_a.py::test_param[2]"]
    assert (one["reason"], one["debugger"]["program"], one["tail"]) == ("exception", "pdb", "printed\n")
    assert one["command"].startswith("pytest -p no:cacheprovider --holdfast --holdfast-max=20")
    assert properties(run, "holdfast-snapshot") == [f"reg/x:{number}" for number in range(2, 8)]
    assert properties(run, "holdfast-not-captured") == ["cannot: a GPU"]
    assert "test_a.py::test_param[2]  not captured: cannot: a GPU\n" in said
    for test in [*FAILING][1:]:
        assert re.search(rf"^{re.escape(test)}  holdfast thaw reg/x:\d$", said, re.MULTILINE), said
    assert "6 failed, 2 passed, 2 skipped, 4 xfailed, 1 error" in said


def test_several_processes_share_the_limit(run: Run) -> None:
    """With xdist the reports of all have their references, and the processes share the limit."""
    said = run("--holdfast", "--junitxml=j.xml", "-n", "2")
    assert len(run.asked) == 5
    assert run.asked.items() <= {test: run.asked.get(test) for test in FAILING}.items()
    assert first_lines(run).items() <= FAILING.items()
    assert all(told["command"].endswith("-n 2") for told in run.asked.values())
    assert properties(run, "holdfast-snapshot") == [f"reg/x:{number}" for number in range(1, 6)]
    assert said.count("  holdfast thaw reg/x:") == 5
    assert said.count("not captured: --holdfast-max=5 is reached") == 2


def test_runs_that_cannot_capture(run: Run) -> None:
    """A missing server is asked once. Outside of a session, and with --pdb, one line says what to do."""
    said = run("--holdfast", "-k", "test_param or test_helped", says="unavailable")
    assert len(run.asked) == 1
    assert "not captured: cannot: nobody" in said
    assert "2 failed" in said
    assert "use one" in run("--holdfast", "--pdb")
    (run.folder / "modules" / "holdfast_session.py").write_text("raise ImportError")
    said = run("--holdfast")
    assert "ERROR: --holdfast only captures tests in a Holdfast session" in said
    assert "holdfast ci run -- pytest --holdfast" in said


def ask(child: pexpect.spawn[str], line: str, prompt: str = "(Pdb) ") -> str:
    child.sendline(line)
    child.expect_exact(prompt)
    return str(child.before).strip()


def test_a_debugger_waits_in_a_copy(run: Run) -> None:
    """The user's, at the failing frame, with fixtures up and output free; then the run continues, or ends."""
    (run.folder / "modules" / "mine.py").write_text(
        "import pdb\nclass Mine(pdb.Pdb):\n    def __init__(self):\n        super().__init__()\n"
        "        self.prompt = 'mine> '\n"
    )
    child = run.spawn("--pdbcls=mine:Mine", "-k", "test_param or test_helped or test_old or test_passes")
    child.expect_exact("mine> ")
    assert "printed" in str(child.before)
    assert "test_a.py(24)test_param()" in str(child.before)
    assert ask(child, "p secret, up", "mine> ") == "(42, ['up'])"
    assert ask(child, "c", "mine> ").rstrip().endswith("-> def test_helped(): helper()")
    assert "TestOld" in ask(child, "c", "mine> ")
    assert ask(child, "p self.thing", "mine> ") == "'up'"
    child.sendline("q")
    child.expect_exact("Quitting debugger")
    child.expect(pexpect.EOF)
    assert child.wait() == 2
    assert {told["debugger"]["program"] for told in run.asked.values()} == {"mine:Mine"}


BUSY = """
import os, time
def test_fails():
    while not os.path.exists("begun"): time.sleep(0.01)
    secret = 42
    assert 0
def test_busy():
    open("begun", "w").close()
    while True: time.sleep(0.01)
"""


def test_a_worker_has_the_terminal_to_itself(run: Run) -> None:
    """With xdist it opens on the terminal, Ctrl-C is its own, the others are stopped until it is left."""
    (run.folder / "test_a.py").write_text(BUSY)
    child = run.spawn("-n", "2")
    child.expect_exact("(Pdb) ")
    assert ask(child, "p secret").endswith("42")
    child.sendintr()
    child.expect_exact("(Pdb) ")
    ask(child, "import pathlib, glob; folder = pathlib.Path(glob.glob('holdfast-pytest-*')[0])")
    ask(child, "pids = [path.name.split('.')[0] for path in folder.glob('*.worker')]")
    states = ask(child, "p sorted(open(f'/proc/{pid}/stat').read().split()[2] for pid in pids)")
    assert states == "['R', 'T']"
    child.sendline("q")
    child.expect_exact("KeyboardInterrupt")
    child.expect(pexpect.EOF)
    assert child.wait() == 2


def test_without_its_option_the_plugin_is_not_loaded(tmp_path: Path) -> None:
    """A run of pytest pays for two options, where the package happens to be installed."""
    loaded = "[name for name in sys.modules if name.startswith('holdfast')]"
    (tmp_path / "test_a.py").write_text(
        f"import sys\ndef test_a(): assert {loaded} == ['holdfast_pytest_option']\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "test_a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


class Options:
    """Collects the arguments for pytest's parser."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def getgroup(self, name: str, about: str) -> Options:
        self.told.setdefault("about", (name, about))
        return self

    def addoption(self, name: str, **how: Any) -> None:
        self.told[name] = how


def test_the_options_are_the_same_in_a_session() -> None:
    """There the plugin is one file that brings its own."""
    mine, theirs = Options(), Options()
    holdfast_pytest_option.pytest_addoption(cast("pytest.Parser", mine))
    holdfast_pytest.pytest_addoption(cast("pytest.Parser", theirs))

    assert mine.told == theirs.told
    assert list(mine.told) == ["about", "--holdfast", "--holdfast-max"]
