"""One use of everything that a session's supervisor is asked through the objects that users have.

Used on supervisors of released versions, and to keep what a released version asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.runtime.guest.harness import SESSION, Guest

from holdfast import Holdfast, Session
from holdfast.base.home import Home
from holdfast.runtime.guest_rpc.guest_client import Connection


@contextmanager
def of(supervisor: Guest) -> Iterator[Session]:
    """Open the session as a home has it."""
    with Holdfast(Home(supervisor.folder / "h").create()) as hf:
        if not hf.store.sessions():
            hf.store.add_session("work", "image", {}, session_id=SESSION)
            hf.store.update_session(SESSION, state="running", container_id="c" * 64)
        yield hf.session("work")


def commands(session: Session) -> None:
    """Output, results, keys, input, time limits, terminals, and other shells."""
    assert session.exec("KEEP=1; echo out; false").exit_code == 1
    assert session.exec("echo $KEEP").text == "1\n"
    first = session.exec("echo once >> times; cat times", key="k")
    assert session.exec("echo once >> times; cat times", key="k").text == first.text == "once\n"
    asked = session.exec("read -p 'name? ' x; echo got $x")
    assert asked.waiting is not None
    assert session.answer("me\n").text.endswith("got me\n")
    assert session.exec("sleep 1000", timeout=0.1).timed_out
    session.shells.open("two")
    assert session.exec("echo two", shell="two").text == "two\n"
    assert {each.name for each in session.shells.list()} == {"main", "two"}
    session.shells.close("two")
    session.send("echo typed\n")
    assert session.terminal.screen().text
    assert not session.exec("true").news


def programs(session: Session) -> None:
    """Cells, jobs and programs."""
    assert session.cell("x = 6\nx * 7").text == "42"
    assert {each.name for each in session.kernels.list()} == {"main"}
    job = session.detach("echo of the job")
    assert job.wait().exit_code == 0
    assert b"of the job" in job.output()
    assert session.run(["cat"], input=b"through").stdout == b"through"


def files(session: Session, folder: Path) -> None:
    """Files, read, written, moved and removed."""
    place = str(folder / "file")
    session.files.write(place, b"data")
    session.files.move(place, f"{place}.moved")
    assert session.files.read(f"{place}.moved") == b"data"
    assert "file.moved" in {each.name for each in session.files.list(str(folder))}
    session.files.remove(f"{place}.moved")


def records(session: Session) -> None:
    """The session's report about itself."""
    session.exec("true")
    assert "command_started" in {entry.kind for entry in session.journal()}
    assert any(event.kind == "woken" for event in session.events())


def everything(session: Session, folder: Path) -> None:
    """All of it."""
    commands(session)
    programs(session)
    files(session, folder)
    records(session)


@contextmanager
def recorded() -> Iterator[list[tuple[dict[str, Any], bytes]]]:
    """Note what is sent to supervisors in the block."""
    sent: list[tuple[dict[str, Any], bytes]] = []
    send = Connection.send

    def noting(self: Connection, head: dict[str, Any], payload: bytes = b"") -> None:
        sent.append((dict(head), payload))
        send(self, head, payload)

    Connection.send = noting  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        Connection.send = send  # type: ignore[method-assign]
