"""What `doctor` finds at a machine that serves teams: each fault by its name, with what to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.base.home import TEAM_MARK, Home
from holdfast.base.serving_record import ServingRecord
from holdfast.runtime.access import teams
from holdfast.runtime.doctor import doctor
from holdfast.runtime.store.store import Store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with two teams that can be served."""
    made = Home(tmp_path / "home").create()
    for name in ("red", "blue"):
        Store.open(teams.create(made, name).home.database)
    return made


def test_teams_that_can_be_served_are_named(home: Home) -> None:
    """All of them."""
    found = doctor._teams(home)
    assert (found.ok, found.detail) == (True, "blue, red")


@pytest.mark.parametrize("fault", ["half removed", "store", "quota"])
def test_a_team_that_cannot_be_served_is_named(fault: str, home: Home) -> None:
    """With the command that completes a removal, or what the store and the quota say of themselves."""
    red = teams.find(home, "red")
    assert red is not None
    if fault == "half removed":
        teams.begin_removal(home, "red")
    elif fault == "store":
        Path(red.home.database).write_bytes(b"\xa5" * 8192)
    else:
        (red.home.root / "quota.json").write_text("{")
    found = doctor.guarded("teams", lambda: doctor._teams(home))
    assert not found.ok
    assert "red" in found.detail
    assert found.hint
    assert Path(teams.find(home, "blue").home.below(TEAM_MARK)).exists()  # type: ignore[union-attr]


@contextmanager
def answering(listening: socket.socket, said: bytes) -> Iterator[None]:
    """Answer one request with these bytes."""

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(said)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()


REFUSAL = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        pytest.param(REFUSAL, True, id="a refusal"),
        pytest.param(b"what?\r\n\r\n", False, id="garbage"),
        pytest.param(b"", False, id="nothing"),
    ],
)
@pytest.mark.parametrize("kind", ["port", "unix"])
def test_a_server_must_answer(kind: str, said: bytes, ok: bool, tmp_path: Path) -> None:
    """Its record is there as long as its process, whether that answers or not."""
    if kind == "port":
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    else:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        url = f"unix:{tmp_path / 'socket'}"
    with listening, answering(listening, said):
        found = doctor._servers([ServingRecord(url, "", "stamp")])
    assert found.ok == ok
    assert url in found.detail


def test_a_server_that_is_silent_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was stopped accepts connections, and answers none."""
    monkeypatch.setattr(doctor, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        found = doctor._servers([ServingRecord(url, "", "stamp")])
    assert (found.ok, "does not answer" in found.detail, bool(found.hint)) == (False, True, True)
