"""Wait states as the session reports them."""

from __future__ import annotations

import pytest

from holdfast.errors import ProtocolError
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc import wait_state


def test_a_state_is_received_unchanged() -> None:
    """The guest's report on a waiting program arrives complete."""
    sent = State("waiting", "password", 42, "su - anna", 1000.25, "Password: ")

    assert wait_state.state(sent.as_dict()) == sent


def test_control_sequences_are_removed() -> None:
    """Prompts and command lines are made by programs in the session."""
    sent = State("waiting", "line", 42, "cat\x1b[2J", 0.0, "name\x1b]0;x\x07? ")

    found = wait_state.state(sent.as_dict())

    assert "\x1b" not in found.command + found.prompt
    assert found.prompt.endswith("? ")


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "waiting",
        {},
        {"state": "dreaming"},
        {"state": "running", "detail": "password"},
        {"state": "waiting", "detail": "line", "pid": "1"},
        {"state": "waiting", "detail": "line", "prompt": 3},
        {"state": "waiting", "since": float("nan")},
    ],
)
def test_malformed_states_are_refused(wrong: object) -> None:
    """A session that reports an unexpected form is not believed."""
    with pytest.raises(ProtocolError):
        wait_state.state(wrong)


@pytest.mark.parametrize("detail", ["line", "password", "key", "pager", "repl"])
def test_there_is_advice_for_every_kind(detail: str) -> None:
    """A user who learns that something waits also learns how to answer."""
    assert "holdfast send work" in wait_state.advice("work", State("waiting", detail))  # type: ignore[arg-type]
