"""The activity of a kernel, and the questions of its cells."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.guest.harness import PATIENCE, Guest


def _until(guest: Guest, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while True:
        state: dict[str, Any] = guest.ask("hello")[0].head["kernels"][0]["observed"]
        if wanted(state):
            return state
        assert time.monotonic() < deadline, state


def test_a_question_of_a_cell_is_the_kernels_state(guest: Guest) -> None:
    """With its prompt, until it is answered."""
    with guest.cell("name = input('name? ')") as connection:
        connection.until("input_request")
        state = _until(guest, lambda found: found["state"] == "waiting")
        guest.ask("input", b"Ada")
        connection.until("finished")

    assert (state["detail"], state["prompt"]) == ("line", "name? ")
    assert _until(guest, lambda found: found["state"] == "idle")["pid"] == state["pid"]


def test_a_hidden_question_is_for_a_password(guest: Guest) -> None:
    """As getpass asks."""
    with guest.cell("import getpass; getpass.getpass('code: ')") as connection:
        connection.until("input_request")
        state = _until(guest, lambda found: found["state"] == "waiting")
        guest.ask("input", b"x")
        connection.until("finished")

    assert (state["detail"], state["prompt"]) == ("password", "code: ")


def test_the_prompt_of_a_debugger_is_that_of_a_repl(guest: Guest) -> None:
    """A cell can stop in pdb."""
    with guest.cell("import pdb; pdb.set_trace()") as connection:
        connection.until("input_request")
        state = _until(guest, lambda found: found["state"] == "waiting")
        guest.ask("kernel_interrupt")
        guest.ask("kernel_restart")
        connection.until("finished")

    assert state["detail"] == "repl"


@pytest.mark.parametrize(
    ("code", "detail"), [("import time; time.sleep(600)", "sleep"), ("while True: pass", "cpu")]
)
def test_a_running_cell_sleeps_or_computes(guest: Guest, code: str, detail: str) -> None:
    """Depending on what its main thread does."""
    with guest.cell(f"print('on', flush=True)\n{code}") as connection:
        connection.until("stream")  # an interrupt before the code runs would be lost
        _until(guest, lambda found: (found["state"], found["detail"]) == ("running", detail))
        guest.ask("kernel_interrupt")
        connection.until("finished")
