"""Sessions whose supervisor a released version made are used by this one, through the objects of users.

The supervisor is real, and of that version (`tests/forms/released.py`); it runs on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.forms import released, session_use
from tests.runtime.guest.harness import SESSION, Guest, compile_marks

from holdfast import Session
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest_rpc.guest_client import GuestClient

NOT_UNDERSTOOD = {"version", "unknown_op", "invalid", "bad_request"}


@pytest.fixture(scope="module", params=released.numbers())
def supervisor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Return a running supervisor of a released version."""
    code = released.unpack(request.param, tmp_path_factory.mktemp("released"))
    running = Guest(
        compile_marks(code, code / "session" / "bash_marks.c"), code=code, session=SESSION, name="work"
    )
    yield running
    running.stop()


@pytest.fixture
def session(supervisor: Guest) -> Iterator[Session]:
    """Return the session as a home of this version has it."""
    with session_use.of(supervisor) as found:
        yield found


def test_the_released_supervisor_is_the_kept_version(supervisor: Guest) -> None:
    """Its program is the archive's, and it speaks a version that this one knows."""
    assert supervisor.code is not None
    assert list((supervisor.code / "holdfast/runtime/guest").rglob("supervisor.*.pyc"))  # it was loaded
    hello = GuestClient(supervisor.run).request("hello").head
    assert protocol.is_understood(hello["protocol"])
    assert (hello["session"], hello["name"]) == (SESSION, "work")


def test_the_released_supervisor_is_used(session: Session, tmp_path: Path) -> None:
    """Commands, cells, jobs, programs, files and records."""
    session_use.everything(session, tmp_path)


def test_a_capture_pauses_it(supervisor: Guest, session: Session) -> None:
    """It closes its connections, and hears of its new identity, as a copy does."""
    session.exec("KEEP=2")
    token = supervisor.prepare()["token"]
    copy = {"session": SESSION, "name": "copy", "generation": 1}
    supervisor.wake(token=token, event="restored", snapshot="b" * 12, **copy)
    assert session.exec("echo $KEEP $HOLDFAST_NAME $HOLDFAST_GENERATION").text == "2 copy 1\n"


@pytest.mark.parametrize("number", released.numbers())
def test_a_released_version_uses_this_supervisor(number: int, guest: Guest) -> None:
    """Its requests are understood: such a server can still run, or that version be installed again."""
    asked = released.requests(number)
    assert len({head["op"] for head, _ in asked}) > 20
    sent = []
    for head, payload in asked:
        if head["op"] in ("input", "resize", "answer", "detach"):  # on a connection that another one began
            continue
        fields = {key: value for key, value in head.items() if key != "op"}
        sent.append((head, guest.call(str(head["op"]), payload, **fields)))
        guest.ask("hello")  # it was taken before
    answers = [(head, connection.arrived()) for head, connection in sent]
    for head, answer in answers:
        refused = answer.head["code"] if answer is not None and answer.event == "error" else None
        assert refused not in NOT_UNDERSTOOD, (head, answer)
    assert sum(answer is not None and answer.event != "error" for _, answer in answers) > 10
