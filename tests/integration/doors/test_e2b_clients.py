"""Unmodified clients of E2B, of three versions and in two languages, against one server with real sessions.

Each script checks what it does itself, and says at its end how often.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import SUITES
from tests.integration.doors.tls_front import DOMAIN, tls_front
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast

SCRIPTS = Path(__file__).parent / "e2b_clients"
LEAST = {
    "basics.mjs": {"newest": 24},
    "code_async.py": {"newest": 58},
    "code_sync.py": {"newest": 60},
    "control_async.py": {"oldest": 21, "pinned": 21, "newest": 24},
    "control_sync.py": {"oldest": 50, "pinned": 53, "newest": 56},
    "filesystem_async.py": {"oldest": 34, "pinned": 35, "newest": 36},
    "filesystem_sync.py": {"oldest": 76, "pinned": 76, "newest": 80},
    "processes_async.py": {"oldest": 32, "pinned": 33, "newest": 34},
    "processes_sync.py": {"oldest": 58, "pinned": 60, "newest": 63},
}
"""Checks of each script by the version of its client: one that checks less must not pass."""
ENDS = {"oldest": (0,), "pinned": (0,), "newest": (0, -signal.SIGABRT)}
"""The newest client's own HTTP library aborts now and then, after the script's last line, as Python ends."""
BY_DOMAIN = [(f"code_{kind}.py", which) for kind in ("sync", "async") for which in ("oldest", "pinned")]
"""Earlier versions take no address for code: they know a domain alone."""
IN_BRIEF = {
    *(("basics.mjs", "newest"), ("code_sync.py", "newest"), ("control_async.py", "pinned")),
    *(("filesystem_sync.py", "newest"), ("processes_async.py", "oldest")),
}
"""Each subject, each version and both languages once."""
RUNS = [
    pytest.param(script, which, marks=[pytest.mark.brief] * ((script, which) in IN_BRIEF))
    for script, versions in LEAST.items()
    for which in versions
]
SECONDS = 240


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found
        assert shared_hf.sessions() == []  # the scripts have removed what they made


def test_every_script_is_run() -> None:
    assert {path.name for path in SCRIPTS.iterdir() if path.suffix in (".py", ".mjs")} == set(LEAST)


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize(("script", "which"), RUNS)
def test_clients_keep_their_promises(server: Served, script: str, which: str, tmp_path: Path) -> None:
    place = SCRIPTS / script
    runs = SUITES / f"e2b-{which}" / "bin" / "python"
    if script.endswith(".mjs"):
        # Modules are looked for beside the script.
        (tmp_path / "node_modules").symlink_to(SUITES / "node_modules")
        place, runs = Path(shutil.copy(place, tmp_path)), SUITES / "bin" / "node"
    addresses = {"E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url}
    assert run(runs, place, server, addresses, which) >= LEAST[script][which]


@pytest.fixture(scope="module")
def named(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    names = ("--host-name", DOMAIN, "--host-name", f"api.{DOMAIN}")
    with serving(make_cli(shared_home), shared_home, *names) as found:
        yield found


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize(("script", "which"), BY_DOMAIN)
def test_clients_that_know_a_domain(named: Served, script: str, which: str, tmp_path: Path) -> None:
    """They use names below it, and TLS, which something before the server ends."""
    with tls_front(named.port, tmp_path) as addresses:
        runs = SUITES / f"e2b-{which}" / "bin" / "python"
        least = LEAST[script].get(which, LEAST[script]["newest"])
        assert run(runs, SCRIPTS / script, named, addresses, which) >= least


def run(program: Path, script: Path, server: Served, addresses: dict[str, str], which: str) -> int:
    """Run a script with the client of a version; return how many checks it has made."""
    assert program.exists(), "the clients are not installed: `make test-doors` does it"
    key = f"e2b_{server.token}"  # some clients accept no other form
    environment = {name: text for name, text in os.environ.items() if not name.startswith("E2B_")}
    done = subprocess.run(
        [str(program), str(script)],
        cwd=script.parent,
        env=environment | addresses | {"E2B_API_KEY": key, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in ENDS[which], (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    count = re.fullmatch(r"ok: (\d+)", done.stdout.splitlines()[-1])
    assert count, done.stdout[-2000:]
    return int(count[1])
