"""A restore makes connections one after the other, with pauses on a busy machine; no bytes move in
between."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import inner_rules, stepping, stepping_arena
from tests.stepping import Stepper

from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).parents[1] / "inside" / "full_streams.py"
FOLDER = "/dev/shm/streams"
COUNT = 4
LATE = 500
"""Milliseconds between the making of an end that had bytes to read and its getting them."""
# So a writer may not forget what its reader has.
NO_ACKNOWLEDGEMENTS = "meta iif 1 meta l4proto tcp tcp flags == ack meta length < 100 drop"


def test_an_end_that_is_filled_late_gets_no_byte_twice(hf: Holdfast, cli: Any, tmp_path: Path) -> None:
    """Its peer was complete before, and has bytes to send that the late end has in its queue."""
    session = hf.new("full")
    session.exec(f"mkdir {FOLDER}; cat > streams.py <<'END'\n{PROGRAM.read_text()}\nEND")
    session.exec(f"setsid python3 streams.py {FOLDER} > {FOLDER}/log 2>&1 < /dev/null &")
    session.exec(f"until [ -e {FOLDER}/connected ]; do sleep 0.05; done", timeout=60)
    inner_rules.add(session, NO_ACKNOWLEDGEMENTS)
    session.exec(
        f"touch {FOLDER}/fill; until [ $(ls {FOLDER}/full-* | wc -l) = {COUNT} ]; do sleep 0.05; done",
        timeout=60,
    )
    taken = session.snapshot()

    stepper = Stepper(stepping.compiled(tmp_path, "stepper"), stepping_arena.checkpointer(hf), late=LATE)
    command = cli.start("restore", taken.id, "--name", "copy", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found = stepper.run(command, lambda _: False)
    _, complaint = command.communicate()

    assert command.returncode == 0, complaint
    assert found.calls["task"] > 0
    copy = hf.session("copy")
    copy.exec(
        f"touch {FOLDER}/go; until [ $(ls {FOLDER}/said-* | wc -l) = {COUNT} ]; do sleep 0.05; done",
        timeout=120,
    )
    said = {number: copy.exec(f"cat {FOLDER}/said-{number}").text for number in range(COUNT)}
    assert said == dict.fromkeys(range(COUNT), "right")
