"""The server for programs against schemathesis, which reads the document and calls all that it describes.

It sends allowed and forbidden requests, and follows from one answer to the next request. The document has
no examples, so the example phase, one of four, has nothing to do. HOLDFAST_FUZZ_SEED repeats a run; without
it each run makes other requests, but for the brief one.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.conftest import SUITES
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.runtime.access import teams
from holdfast.runtime.access.access_keys import AccessKeys
from holdfast.runtime.access.audit_trail import AuditTrail
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

HERE = Path(__file__).parent
SUITE = SUITES / "bin" / "schemathesis"
LEAST_OPERATIONS = 118
"""Those that there were when this was written: a suite that finds nothing to call must not pass."""
REFUSED = {
    "POST /v1/sessions/{session}/task/release",  # no step is claimed
    "POST /v1/keys",  # its scopes and its session must exist
    # These end, replace or copy what the others are tested with: the suite names what does not exist.
    "DELETE /v1/keys/{key}",
    "DELETE /v1/sessions/{session}",
    "DELETE /v1/snapshots/{snapshot}",
    "POST /v1/sessions/{session}/fork",
    "POST /v1/sessions/{session}/resume",
    "POST /v1/sessions/{session}/rewind",
    "POST /v1/sessions/{session}/snapshots",
    "POST /v1/sessions/{session}/suspend",
    "POST /v1/sessions/{session}/task/checkpoint",
    "POST /v1/sessions/{session}/template",
    "POST /v1/snapshots/{snapshot}/fork",
    "POST /v1/snapshots/{snapshot}/restore",
    "POST /v1/snapshots/{snapshot}/redo",
    "POST /v1/snapshots/{snapshot}/retry",
    # Nothing listens at the ports that the suite names.
    "GET /v1/sessions/{session}/ports/{port}/wait",
    # The kernel that runs cells cannot also be one that waits for a line.
    "POST /v1/sessions/{session}/cells/{cell_id}/answer",
    # Notices go to services on the internet, of which the suite does not know any.
    "POST /v1/notices",
    "POST /v1/notices/{subscription}/try",
    "DELETE /v1/notices/{subscription}",
    # The main kernel cannot be closed, and of others there is one only if the suite has happened to open it.
    "DELETE /v1/sessions/{session}/kernels/{kernel}",
}
"""Operations that never do what they are asked to; all others must, at least once."""
AUTHORIZATION = "ignored_auth,object_level_authorization"
PLAN = "Calls\n- Make them all :: true\n"
SECONDS = 600

SEED = os.environ.get("HOLDFAST_FUZZ_SEED")
# Of requests that are not valid it is the same whether the session was restored.
NEW = ["--max-examples", "6", "--seed", SEED or str(random.SystemRandom().getrandbits(32))]
RESTORED = ["--max-examples", "3", "--mode", "positive", "--seed", SEED or "1"]


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize(
    ("restored", "options", "least"),
    [
        pytest.param(False, NEW, 3000, id="new"),
        pytest.param(True, RESTORED, 600, id="restored", marks=pytest.mark.brief),
    ],
)
def test_generated_requests_find_no_fault(
    hf: Holdfast, home: Home, cli: Cli, tmp_path: Path, restored: bool, options: list[str], least: int
) -> None:
    session = hf.new("suite")
    known, task = prepared(session), of_the_task(session)
    snapshot = session.snapshot("point")
    if restored:
        session.remove()
        session = snapshot.restore("suite")
    with serving(cli, home) as server:
        print("HOLDFAST_FUZZ_SEED", *options[-1:])  # noqa: T201 - to repeat it
        server.call("GET", "/openapi.json")  # it is made once, and the suite waits ten seconds for it
        report = reported(server, known, task, tmp_path, options)
        log = (home.root / "server.log").read_text()
    assert (report["failures"], report["errors"]) == ([], [])
    assert report["complete"]
    operations = report["operations"]
    assert operations["tested"] == operations["total"] >= LEAST_OPERATIONS
    assert report["test_cases"]["generated"] >= least
    # Of new sessions there are no valid requests, and of ports where nothing listens none that is answered.
    assert len(report["valid_rates"]) >= operations["total"] - 2
    assert never_done(report) <= REFUSED
    assert "Traceback" not in log
    # The shell may wait for the end of what was typed; a program needs none.
    assert session.run(["echo", "as before"]).stdout == b"as before\n"


@pytest.mark.timeout(SECONDS + 60)
def test_generated_requests_pass_no_bound_of_keys_and_teams(
    home: Home, cli: Cli, tmp_path: Path, clear: Callable[[Holdfast], None]
) -> None:
    """No operation is done without a key, or with a false one; what one team reads, the other does not get.

    The suite repeats each request that was answered without a credential, with a false one, and with the key
    of the other team.
    """
    found = {name: teams.create(home, name).home for name in ("red", "blue")}
    keys = {name: AccessKeys(each.root).create("ci", ["admin"])[1] for name, each in found.items()}
    with Holdfast(found["red"]) as red, Holdfast(found["blue"]) as blue:
        try:
            blue.new("other")
            session = red.new("suite")
            known, task = prepared(session), of_the_task(session)
            session.snapshot("point")
            with serving(cli, home, "--audit") as server:
                config = _peers(tmp_path, keys)
                report = reported(server, known, task, tmp_path, RESTORED, config, AUTHORIZATION)
                strangers = (home.root / "server.log").read_text().count('"status": 401')
        finally:
            clear(red)
            clear(blue)
    assert (report["failures"], report["errors"]) == ([], [])
    done = set(report["valid_rates"]) - never_done(report)
    assert len(done) >= LEAST_OPERATIONS - len(REFUSED) - 5
    assert strangers >= 2 * len(done)
    rows = AuditTrail(found["blue"].root).rows()
    crossed = {row.path for row in rows if "{session}" in row.path or "{snapshot}" in row.path}
    assert len(crossed) > 10
    assert {row.status for row in rows if row.path in crossed} <= {404}


def _peers(folder: Path, keys: dict[str, str]) -> Path:
    """Return a configuration for requests with the first key, whose answers the others must not get."""
    entries = [
        {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {key}"}]}
        for name, key in keys.items()
    ]
    (folder / "keys.json").write_text(json.dumps({"auth": entries}))
    lines = (HERE / "schemathesis.toml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("headers = { Authorization")]
    assert len(kept) == len(lines) - 1
    names = json.dumps(list(keys))
    told = [
        "[auth.wfc]",
        f'path = "{folder / "keys.json"}"',
        f'user = "{next(iter(keys))}"',
        f"peers = {names}",
    ]
    made = folder / "schemathesis.toml"
    made.write_text("\n".join([*kept, *told, ""]))
    return made


def prepared(session: Session) -> dict[str, str]:
    """Let a session have one of each thing that requests can name."""
    session.files.write("/workspace/known.txt", b"known\n")
    session.shells.open("spare")
    session.shells.open("asking")
    session.exec("while read -p '? ' line; do :; done", shell="asking", patience=0.0)
    for name in ("suite-job", "spare"):
        session.detach("sleep infinity", name=name)
    session.task.set(goal="Be called")
    session.task.plan(PLAN)
    session.task.decide("Call everything", why="Nothing else finds all")
    session.task.block("Nothing was called", needs="a call")
    for name in ("known-artifact", "spare-artifact"):
        session.task.artifact(name, "known.txt")
    return {
        "shell": "main",
        "kernel": "main",
        "job": "suite-job",
        "command_id": session.exec("echo known").command_id,
        "cell_id": session.cell("1 + 1").cell_id,
        "program": session.programs.start(["cat"], input=True).id,
        "spare_program": session.programs.start(["cat"], input=True).id,
    }


def of_the_task(session: Session) -> dict[str, str]:
    """Return the names that requests about the task can use."""
    started = session.journal(kinds=["command_started"])[-1]
    return {
        "step": "1.1",
        "entry": f"#{started.seq}",
        "plan": PLAN,
        "record": session.task.export(),
        "file": "/workspace/known.txt",
        "artifact": "known-artifact",
        "spare_artifact": "spare-artifact",
    }


def reported(
    server: Served,
    known: dict[str, str],
    task: dict[str, str],
    folder: Path,
    options: list[str],
    config: Path = HERE / "schemathesis.toml",
    checks: str = "all",
    code: int = 0,
) -> Any:
    """Run the suite, which ends with this code, and return its report."""
    assert SUITE.exists(), "the suites are not installed: `make test-doors` does it"
    report, document = folder / "report.json", folder / "openapi.json"
    document.write_bytes(server.client.get("/openapi.json").content)
    command = [str(SUITE), "--config-file", str(config), "--no-color", "run"]
    command += ["--checks", checks, "--phases", "examples,coverage,fuzzing,stateful", *options]
    command += ["--report", "json", "--report-json-path", str(report), str(document)]
    environment = os.environ | {
        "HOLDFAST_SERVED": server.url,
        "HOLDFAST_SERVED_TOKEN": server.token,
        "HOLDFAST_SPARE_PROGRAM": known["spare_program"],
        "HOLDFAST_KNOWN": json.dumps(known),
        "HOLDFAST_TASK": json.dumps(task),
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == code, done.stdout[-20_000:] + done.stderr[-2000:]
    return json.loads(report.read_text())


def never_done(report: Any) -> set[str]:
    """Return the operations that were refused each time."""
    rates = report["valid_rates"].items()
    return {name for name, phases in rates if not any(each["accepted"] for each in phases.values())}
