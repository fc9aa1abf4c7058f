"""The state of a shell or kernel as one value."""

from __future__ import annotations

import json

import pytest

from holdfast.runtime.guest.pulse.state import State


def test_a_state_goes_over_the_wire() -> None:
    """It is sent as JSON, which gives the same state again."""
    state = State("waiting", "password", 42, "su", 1000.5, "Password: ")

    assert State(**json.loads(json.dumps(state.as_dict()))) == state


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (
            State("waiting", "password", 42, "su", 1000.0, "Password: "),
            "su (pid 42) waits for a password ('Password: '), 3 s so far",
        ),
        (State("running", "sleep", 7, "sleep 30", 1001.0), "sleep 30 (pid 7) sleeps, 2 s so far"),
        (State("exited", exit_code=3), "it ended with 3"),
        (State("exited", command="python3", signal=9), "python3 was ended by signal 9"),
        (State("idle"), "it is ready"),
        (State("starting"), "it is starting"),
        (State("stopped", pid=8, command="vi"), "vi (pid 8) is stopped"),
    ],
)
def test_a_state_is_reported_as_part_of_a_sentence(state: State, told: str) -> None:
    """Messages name the program that holds the shell, its question, and the duration."""
    assert state.phrase(1003.0) == told
