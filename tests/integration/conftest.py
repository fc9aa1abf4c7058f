"""A home of its own on the real engine, which must be as empty after a test as before it."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import packing
from tests.integration import both_doors
from tests.machines import fixtures as machines
from tests.machines import login, torn_ssh
from tests.machines.moves import There
from tests.machines.second import Machine
from tests.stepping_arena import Arena

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.runtime.storage import packing_request
from holdfast.snapshots import service
from holdfast.snapshots.bundle.keys import Keys

if TYPE_CHECKING:
    from tests.integration.served import Served

# A second machine and registries: started when first used, shared by all tests.
second, door, warm = machines.second, machines.door, machines.warm
registry, password_registry = machines.registry, machines.password_registry
token_registry, token_server = machines.token_registry, machines.token_server


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark everything in this folder as needing the engine."""
    item.add_marker(pytest.mark.engine)


@dataclass(frozen=True)
class Done:
    """The outcome of one run of the command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


class Started(subprocess.Popen[bytes]):
    """A process that does not outlive a test that failed, which `with Popen` waits for instead."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


class Cli:
    """The command `holdfast` as a process of its own, in one home."""

    def __init__(self, home: Home) -> None:
        self.environment = {**os.environ, "HOLDFAST_HOME": str(home.root)}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "holdfast", *arguments]

    def start(self, *arguments: str, **options: Any) -> Started:
        return Started(self.command(*arguments), env=self.environment, **options)

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment | environment,
            input=stdin.encode(),
            capture_output=True,
            timeout=240,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode())


def left_behind(home: Home) -> list[str]:
    """Containers, images and folders that belong to the home."""
    engine = Engine.connect()
    try:
        found = [f"container {item}" for item in engine.containers(holdfast_home=home.digest)]
        found += [f"image {item.id}" for item in engine.images.listed(holdfast_home=home.digest)]
    finally:
        engine.close()
    for folder in (home.run, home.staging, home.snapshots, home.root / "chunks" / "packs"):
        found += [str(path) for path in folder.glob("*")]
    return found


def clear_home(controller: Holdfast) -> None:
    """Remove every session and snapshot, and the checkpointer, which would end later on its own."""
    for session in controller.sessions():
        session.remove()
    for snapshot in reversed(controller.snapshots()):
        snapshot.remove()
    assert packing.settled(controller.home), packing_request.trouble(controller.home)
    service.stop(controller.engine, controller.home)


@pytest.fixture(scope="session")
def clear() -> Callable[[Holdfast], None]:
    """Return a function that clears a home made by the test itself."""
    return clear_home


@pytest.fixture(scope="session")
def remains() -> Callable[[Home], list[str]]:
    """Return the remains of a home that the test made."""
    return left_behind


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path / "home").create()
    monkeypatch.setenv("HOLDFAST_HOME", str(made.root))
    return made


@pytest.fixture
def hf(home: Home) -> Iterator[Holdfast]:
    """A controller of a new home; removes whatever a test makes and asserts that nothing is left."""
    with Holdfast(home) as controller:
        yield controller
        clear_home(controller)
    assert left_behind(home) == []


@pytest.fixture
def provided(hf: Holdfast) -> Iterator[Callable[[str], str]]:
    """Take names of images that go at the end."""
    names: list[str] = []

    def take(name: str) -> str:
        names.append(name)
        return name

    yield take
    for name in names:
        hf.engine.images.remove(name)


@pytest.fixture
def cli(home: Home) -> Cli:
    return Cli(home)


@pytest.fixture(scope="session")
def make_cli() -> Callable[[Home], Cli]:
    """Return a function that makes a command line for a home made by the test itself."""
    return Cli


class Witnesses:
    """Programs in a session that notice if a copy of it is not of one instant: see tests/inside/witness."""

    ALL = ("counter", "twins", "blocks", "database", "files")

    def install(self, hf: Holdfast, session: Session) -> None:
        """Put the programs into the session: /srv/witness."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in sorted((Path(__file__).parents[1] / "inside" / "witness").glob("*.[pc]*")):
                archive.add(path, f"witness/{path.name}")
        hf.engine.client.api.put_archive(str(session.row.container_id), "/srv", packed.getvalue())

    def start(self, hf: Holdfast, session: Session, *kinds: str) -> None:
        """Start them as jobs of the session's shell, and wait until each has compared all its data."""
        self.install(hf, session)
        session.exec("export PYTHONPATH=/srv PYTHONDONTWRITEBYTECODE=1", timeout=60)
        for kind in kinds or self.ALL:
            session.exec(f"python3 -m witness {kind} /srv/work 2>/srv/{kind}.err &", timeout=60)
        count = len(kinds or self.ALL)
        session.exec(f"until [ $(ls /dev/shm/witness-* | wc -l) = {count} ]; do :; done", timeout=60)
        assert self.wrong(session) == {}

    def ask(self, session: Session, rounds: int = 2) -> dict[str, Any]:
        """Return each program's report after this many more comparisons."""
        said = session.exec(f"python3 -m witness ask {rounds}", timeout=240)
        assert said.exit_code == 0, said.text
        # The shell may have printed something about its jobs around it.
        found, _ = json.JSONDecoder().raw_decode(said.text, said.text.index("{"))
        return dict(found)

    def wrong(self, session: Session, rounds: int = 2) -> dict[str, str]:
        """Return the first complaint of each program that has one."""
        said = self.ask(session, rounds)
        assert said
        return {kind: each["first"] for kind, each in said.items() if each["wrong"]}


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Print a figure of a long test, whatever is captured."""
    reporter: Any = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    capture: Any = pytestconfig.pluginmanager.get_plugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    return line


@pytest.fixture(scope="session")
def witnesses() -> Witnesses:
    return Witnesses()


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("shared") / "home").create()


@pytest.fixture(scope="module")
def shared_hf(shared_home: Home) -> Iterator[Holdfast]:
    """Like `hf`, for the tests of a module."""
    with Holdfast(shared_home) as controller:
        yield controller
        clear_home(controller)
    assert left_behind(shared_home) == []


@pytest.fixture(scope="module")
def shared(shared_hf: Holdfast) -> Session:
    """One session for the tests of a module that leave it as it was."""
    return shared_hf.new("shared")


@pytest.fixture(scope="module", params=both_doors.BRIEF)
def work(request: pytest.FixtureRequest, shared: Session, shared_home: Home) -> Iterator[Session]:
    """The shared session, in process and over a URL: a test's findings must be equal."""
    if request.param == both_doors.HERE:
        yield shared
        return
    with both_doors.opened(request.param, shared_home) as controller:
        yield controller.session(shared.id)


@pytest.fixture(scope="module")
def server(shared: Session, shared_home: Home) -> Iterator[Served]:
    """A server of the home that holds the shared session."""
    from tests.integration.served import serving  # which needs `Cli` of this module

    with serving(Cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def remote(server: Served) -> Iterator[RemoteHoldfast]:
    """A client of that server, over its URL."""
    with RemoteHoldfast(server.url, token=server.token) as controller:
        yield controller


@pytest.fixture(scope="module")
def arena(
    request: pytest.FixtureRequest,
    shared_hf: Holdfast,
    shared_home: Home,
    tmp_path_factory: pytest.TempPathFactory,
) -> Arena:
    """An arena for the tests of a module that hold system calls; the module's SEED selects the calls."""
    return Arena(shared_hf, Cli(shared_home), tmp_path_factory.mktemp("arena"), request.module.SEED)


@pytest.fixture
def shared_cli(shared: Session, shared_home: Home) -> Cli:
    return Cli(shared_home)


class Probes:
    """Small programs in `probes` that each prepare something, are captured, and check it when asked."""

    FOLDER = Path(__file__).parent / "probes"
    PATIENCE = 120.0

    def __init__(self, session: Session) -> None:
        """Build them in the session."""
        sources = [*self.FOLDER.glob("*.c"), *self.FOLDER.glob("*.h")]
        texts = [f"cat > /srv/src/{path.name} <<'THE-END'\n{path.read_text()}\nTHE-END\n" for path in sources]
        assert session.exec("mkdir -p /srv/src\n" + "".join(texts)).ok
        made = session.exec(
            "mkdir -m 777 /srv/probes /srv/files; gcc -o /srv/probe /srv/src/*.c -lpthread && /srv/probe",
            timeout=self.PATIENCE,
        )
        assert made.ok, made.text
        self.names = made.text.split()
        self.running: list[str] = []

    def start(self, session: Session, *names: str) -> None:
        """Start some, and wait until they are ready."""
        self.running = list(names)
        started = session.exec(
            f"for name in {' '.join(names)}; do setsid /srv/probe $name </dev/null >/dev/null 2>&1 & done"
        )
        assert started.ok
        assert {name: said for name, said in self._said(session, "").items() if said != "ready"} == {}

    def failures(self, session: Session) -> dict[str, str]:
        """Ask all, and return the failures."""
        asked = session.exec(
            f'for name in {" ".join(self.running)}; do pkill -USR1 -o -xf "/srv/probe $name"; done'
        )
        assert asked.ok, asked.text
        return {name: said for name, said in self._said(session, "ready").items() if said != "PASS"}

    def _said(self, session: Session, before: str) -> dict[str, str]:
        """Return each program's report once all reports differ from `before`."""
        deadline = time.monotonic() + self.PATIENCE
        command = (
            f"cd /srv/probes; for name in {' '.join(self.running)}; do echo $name: $(cat $name); done 2>&1"
        )
        while True:
            lines = session.exec(command, timeout=self.PATIENCE).text.splitlines()
            said = {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}
            said = {name: text for name, text in said.items() if name in self.running}
            if before not in said.values() or time.monotonic() > deadline:
                return said
            time.sleep(0.05)


@pytest.fixture(scope="session")
def probes() -> Callable[[Session], Probes]:
    """Builds the probes in a session."""
    return Probes


@pytest.fixture
def there(
    second: Machine,
    hf: Holdfast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clear: Callable[[Holdfast], None],
    warm: Any,
) -> Iterator[There]:
    """The machine, which trusts the key of this one; it is as empty afterwards as before."""
    warm.into(hf.home)
    key = Keys(hf.home).sending()[0].public
    assert second.cli("key", "trust", key).returncode == 0
    command = [sys.executable, torn_ssh.__file__, str(tmp_path), str(login.past_ssh(second, tmp_path))]
    monkeypatch.setenv("HOLDFAST_SSH", shlex.join(command))
    yield There(second, tmp_path)
    assert second.cli("key", "rm", key).returncode == 0
    warm.of(hf.home)
    with second.holdfast() as holdfast:
        clear(holdfast)
