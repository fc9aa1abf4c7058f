"""Processes killed in the middle of a capture or restore: the session works, or is reported broken."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partialmethod

import pytest
from bench.faults import victims
from bench.faults.storm import Storm, look
from bench.faults.victims import VICTIMS

from holdfast.errors import HoldfastError, SessionUnhealthy
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.sessions import after_capture
from holdfast.snapshots.checkpointer.ground import pidfd_files
from holdfast.snapshots.link import CheckpointerLink

pytestmark = pytest.mark.thorough

TCP_REPAIR = 19  # linux/tcp.h


@pytest.fixture
def storm(hf: Holdfast) -> Storm:
    made = Storm(hf, seed=5)
    made.prepare()
    return made


def test_kills_at_random_moments_are_survived_or_reported(storm: Storm) -> None:
    """Nothing is lost silently, and nothing is left over."""
    found = [
        storm.round(operation, victim)
        for operation, victim in zip(("snapshot", "fork", "suspend", "fork"), VICTIMS, strict=True)
    ]
    assert [each for each in found if each.silent or each.left] == []


def test_connections_outlive_a_killed_criu(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed when it has read all of them, and no other process could resume them."""
    Storm(hf, seed=5).begin()
    decide = CheckpointerLink.decide

    def killed_instead(link: CheckpointerLink, answer: str) -> None:
        (criu,) = victims.find(hf, "criu")
        victims.kill(criu)
        decide(link, answer)

    for operation in ("snapshot", "suspend"):
        with monkeypatch.context() as patch:
            patch.setattr(CheckpointerLink, "decide", killed_instead)
            with pytest.raises(HoldfastError):
                getattr(hf.session("victim"), operation)()
        assert look(hf.session("victim")) == ""


def test_connections_outlive_a_death_while_one_is_read(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it reads a connection, CRIU leaves it in repair mode: another process mends that.

    If it was CRIU alone, the process that drives it; if the whole checkpointer ended, the next one.
    """
    session = hf.new("reading")
    session.cell(
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as listener:\n"
        "    near = socket.create_connection(listener.getsockname(), 10)\n"
        "    far = listener.accept()[0]"
    )
    decide = CheckpointerLink.decide
    state = hf.engine.inspect(session.row.container_id or "")
    assert state is not None

    def killed_instead(link: CheckpointerLink, answer: str, doomed: Sequence[str]) -> None:
        assert being_read(state.pid) == 2
        for pid in [pid for victim in doomed for pid in victims.find(hf, victim)]:
            victims.kill(pid)
        decide(link, answer)

    for doomed in (("criu",), ("checkpointer", "worker", "criu")):
        with monkeypatch.context() as patch:
            patch.setattr(CheckpointerLink, "decide", partialmethod(killed_instead, doomed=doomed))
            with pytest.raises(HoldfastError):
                session.snapshot()
        assert session.cell("near.sendall(b'said'); far.recv(4)", timeout=60).text == "b'said'"


def being_read(container_pid: int) -> int:
    """Put every connection of a session into the mode in which CRIU reads one; return their number."""
    found = 0
    for pid, fd, _ in pidfd_files.sockets(container_pid):
        with suppress(OSError), pidfd_files.borrow(pid, fd) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            found += 1
    return found


@pytest.fixture
def slow_image(hf: Holdfast) -> Iterator[str]:
    """Build an image that the engine needs a while to make a container of: it copies a volume's content."""
    ref = "holdfast-test/slow"
    session = hf.new("source")
    assert session.exec("mkdir /srv/volume && head -c 400M /dev/zero > /srv/volume/zeros", timeout=120).ok
    engine = hf.engine.client.api
    engine.commit(session.row.container_id or "", ref, changes=["VOLUME /srv/volume"])
    session.remove()
    yield ref
    hf.engine.images.remove(ref)


def test_a_container_made_after_its_caller_died_is_removed(hf: Holdfast, slow_image: str) -> None:
    """The engine continues with a request whose client was killed; until it is done, none can be removed."""
    mine = {"holdfast_home": hf.home.digest, "holdfast_role": "session"}
    # Sessions refuse images with volumes; nothing else makes an engine slow.
    program = (
        "from holdfast.runtime.sessions import image_settings\n"
        "from holdfast.runtime.api.controller import Holdfast\n"
        "image_settings.check = lambda *_: None\n"
        f"Holdfast().new(image={slow_image!r})"
    )
    asking = subprocess.Popen([sys.executable, "-c", program])
    while not hf.engine.containers(**mine):
        assert asking.poll() is None
        time.sleep(0.005)
    victims.kill(asking.pid)
    asking.wait()
    (container,) = hf.engine.containers(**mine)
    assert hf.engine.inspect(container) is None

    with Holdfast(hf.home):
        assert not hf.engine.containers(**mine)


def supervisor(session: Session, hf: Holdfast) -> int:
    """Return the pid of the session's supervisor on this host."""
    state = hf.engine.inspect(session.row.container_id or "")
    assert state is not None
    pid = state.pid
    for _ in ("keeper", "supervisor"):
        with open(f"/proc/{pid}/task/{pid}/children") as children:  # noqa: PTH123
            pid = int(children.read().split()[0])
    return pid


@pytest.fixture
def deaf(hf: Holdfast) -> Iterator[tuple[Session, int]]:
    """Make a session whose supervisor is stopped permanently, with its parents, which would continue it."""
    session = hf.new("deaf")
    session.snapshot("before")
    pid = supervisor(session, hf)
    state = hf.engine.inspect(session.row.container_id or "")
    assert state is not None
    with open(f"/proc/{state.pid}/task/{state.pid}/children") as children:  # noqa: PTH123
        keeper = int(children.read().split()[0])
    for each in (state.pid, keeper, pid):
        os.kill(each, signal.SIGSTOP)
    yield session, pid
    for each in (state.pid, keeper, pid):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT)


def test_an_unresponsive_session_is_reported(
    hf: Holdfast, deaf: tuple[Session, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a capture that was cut short; with the way back, until it answers again."""
    session, pid = deaf
    monkeypatch.setattr(after_capture, "REPLY_SECONDS", 0.2)
    monkeypatch.setattr(after_capture, "GLANCE", 0.2)

    after_capture.look(hf.context, session.row)

    with pytest.raises(SessionUnhealthy, match="supervisor has not answered since") as refused:
        hf.session("deaf").exec("echo")
    assert refused.value.hint == "`holdfast rewind deaf before` goes back to its last snapshot"
    with pytest.raises(SessionUnhealthy):
        hf.session("deaf").snapshot()

    os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr(after_capture, "GLANCE", 60.0)
    assert hf.session("deaf").exec("echo here").text == "here\n"
    assert hf.session("deaf").row.details.get("unhealthy") is None


def test_an_unresponsive_session_can_be_rewound(
    hf: Holdfast, deaf: tuple[Session, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command in the message works, though nothing can be kept of the present."""
    session, _ = deaf
    monkeypatch.setattr(after_capture, "REPLY_SECONDS", 0.2)
    monkeypatch.setattr(after_capture, "GLANCE", 0.2)
    after_capture.look(hf.context, session.row)

    hf.session("deaf").rewind("before", discard=True)

    # The container that did not answer is marked, not the session.
    monkeypatch.setattr(after_capture, "answers", lambda *_: False)
    assert hf.session("deaf").exec("echo here").text == "here\n"
