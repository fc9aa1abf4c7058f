"""Root in a session takes the place of its supervisor and misbehaves on every request.

Every kind of request meets every kind of misbehaviour. A call ends within a bounded time, with one
line that says why or with a result, and takes bounded memory.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import pty
import re
import resource
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.integration.misbehaving_supervisors import (
    ASIDE,
    BOUND,
    MISBEHAVIOURS,
    PATIENCE,
    Misbehave,
    Peer,
    hang_up,
    replaced,
    say,
)

from holdfast import Holdfast, Session
from holdfast.base import run_dir
from holdfast.errors import GuestDisconnected, HoldfastError
from holdfast.runtime.api import capture_requests, pulse_calls
from holdfast.runtime.api.job import Job
from holdfast.runtime.api.session_kernels import SessionKernel
from holdfast.runtime.attachment import screen_state
from holdfast.runtime.attachment.attach import Attachment
from holdfast.runtime.attachment.own_terminal import OwnTerminal
from holdfast.runtime.capture import capture_failures, preflight
from holdfast.runtime.e2b import sandbox_making
from holdfast.runtime.files.file_requests import FileRequests
from holdfast.runtime.guest import layout, wire
from holdfast.runtime.guest_rpc import call_deadline, guest_client, program_calls, reconnect, session_sockets
from holdfast.runtime.guest_rpc.guest_client import Connection, GuestClient
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.history.drift import observe_session
from holdfast.runtime.history.recording.recording_source import LiveRecording
from holdfast.runtime.lifecycle import teardown
from holdfast.runtime.sessions import after_capture, identity_messages

pytestmark = pytest.mark.thorough

MEMORY = 300 << 20


def _client(session: Session) -> GuestClient:
    return GuestClient(session._context.home.run_dir(session.id))


def _serve_captures(session: Session) -> None:
    with session.serve_captures():
        pass


def _drained(master: int) -> None:
    """Read the output of a terminal until its other end is closed."""
    with suppress(OSError):
        while os.read(master, 1 << 16):
            pass


def _attach(session: Session) -> str:
    """Attach a terminal, and press the key that detaches a moment later."""
    master, slave = pty.openpty()
    wake, unused = os.pipe()
    person = OwnTerminal(slave, slave, wake)
    attachment = Attachment(_client(session), Reconnection(lambda: None), person, shell=layout.MAIN)
    drain = threading.Thread(target=_drained, args=(master,), daemon=True)
    drain.start()
    leave = threading.Timer(PATIENCE, os.write, (master, b"x" * 100 + b"\n\x1d\n"))
    leave.start()
    try:
        return attachment._follow()
    finally:
        leave.join()
        for descriptor in (slave, wake, unused):
            os.close(descriptor)
        drain.join()
        os.close(master)


def _watch(session: Session) -> None:
    with session.files.watch("x", timeout=PATIENCE) as changes:
        list(changes)


ID = "0123456789ab"
CALLS: dict[str, Callable[[Session], object]] = {
    "hello": lambda one: one.shell(),
    "begin": lambda one: identity_messages.begin(one._context.home.run_dir(one.id), one.row),
    "hooks": lambda one: identity_messages.hooks(one._context.home.run_dir(one.id)),
    "exec": lambda one: one.exec("true", timeout=PATIENCE),
    "wait": lambda one: one.join(ID, patience=PATIENCE),
    "read": lambda one: screen_state._read(_client(one), layout.MAIN, screen_state.OutputPart(0, 1000)),
    "send": lambda one: one.send("x"),
    "signal": lambda one: one.interrupt(patience=PATIENCE),
    "check_syntax": lambda one: one.check_syntax("true"),
    "job_start": lambda one: one.detach("true"),
    "job_list": lambda one: one.jobs(),
    "job_wait": lambda one: Job(one._line, ID).wait(patience=PATIENCE),
    "job_read": lambda one: Job(one._line, ID).output(),
    "job_send": lambda one: Job(one._line, ID).send("x"),
    "job_resize": lambda one: Job(one._line, ID).resize(50, 132),
    "job_signal": lambda one: Job(one._line, ID).signal(),
    "attach": _attach,
    "lease": lambda one: one.terminal.lease(),
    "shell_open": lambda one: one.shells.open("other"),
    "shell_close": lambda one: one.shells.close("other"),
    "look": lambda one: one.terminal.screen(),
    "recording": lambda one: LiveRecording(
        lambda: _client(one), one._line.reconnection(), layout.MAIN
    ).segments(0, 1000),
    "cell": lambda one: one.cell("1", timeout=PATIENCE),
    "input": lambda one: one._line.request("input", b"x", kernel=layout.MAIN),
    "kernel_interrupt": lambda one: SessionKernel(one._line).interrupt(),
    "kernel_restart": lambda one: SessionKernel(one._line).restart(),
    "kernel_open": lambda one: one.kernels.open("other"),
    "kernel_specs": lambda one: one.kernels.specs(),
    "kernel_close": lambda one: one.kernels.close("other"),
    "cell_after": lambda one: one.cell("1", timeout=PATIENCE, before="0"),
    "journal": lambda one: list(one.events()),
    "moment": lambda one: preflight.report(one._context, one.row),
    "pulse": lambda one: one.pulse(),
    "probe": lambda one: pulse_calls._ask(one._line, "probe", port=80, address="127.0.0.1", speak=True),
    "sizes": lambda one: pulse_calls._ask(one._line, "sizes", b"[]"),
    "holdings": lambda one: observe_session.held(_client(one)),
    "files": lambda one: observe_session._ask(
        _client(one), b'{"paths": ["/etc/passwd"], "records": [], "since": 0}'
    ),
    "captures": _serve_captures,
    "file_look": lambda one: one.files.stat("x"),
    "file_list": lambda one: one.files.list("x"),
    "file_read": lambda one: one.files.read("x"),
    "file_watch": _watch,
    "file_begin": lambda one: one.files.write("x", b"data"),
    "file_write": lambda one: FileRequests(one._line)._ask("file_write", b"x", id="x", offset=0),
    "file_finish": lambda one: FileRequests(one._line)._ask("file_finish", id="x", size=1),
    "file_abandon": lambda one: FileRequests(one._line)._ask("file_abandon", id="x"),
    "file_folder": lambda one: one.files.make_folder("x"),
    "file_link": lambda one: FileRequests(one._line).make_link("x", "y"),
    "file_move": lambda one: one.files.move("x", "y"),
    "file_remove": lambda one: one.files.remove("x"),
    "file_mode": lambda one: one.files.chmod("x", 0o644),
    "file_find": lambda one: one.files.find("x", containing="y"),
    "program_start": lambda one: one.programs.start(["x"]),
    "program_list": lambda one: one.programs.list(),
    "account_make": lambda one: sandbox_making.make_account(_client(one), "user"),
    "front_end": lambda one: session_sockets.front_end_socket(
        one._line, layout.MAIN, client="x", link="x", after=None
    ).close(),
    "port_connect": lambda one: session_sockets.port_socket(one._line, 80).close(),
    "ssh_connect": lambda one: session_sockets.ssh_socket(one._line, "key", "ssh-ed25519 A").close(),
    "program_follow": lambda one: one.programs.get("x").wait(timeout=PATIENCE),
    "program_write": lambda one: program_calls.write(one._line, "x", [b"data"], close=True),
    "program_signal": lambda one: one.programs.get("x").signal(),
}
"""Calls that make the host send each of its requests."""
ELSEWHERE = {
    "prepare": "asked in the middle of a capture, below",
    "resize": "sent over the connection of `attach`",
    "kernel_variables": "asked by nobody on the host",
}


def requests_there_are() -> set[str]:
    """Return all operations that a supervisor understands."""
    known = {"hello", "hooks", "prepare"}  # made in the supervisor itself
    for module in pkgutil.iter_modules(wire.__path__):
        if module.name.endswith("_operations"):
            found = importlib.import_module(f"{wire.__name__}.{module.name}")
            made = found.operations(None) if hasattr(found, "operations") else found.OPERATIONS
            known |= set(made)
    return known


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in {
        guest_client: ("ANSWER_SECONDS", "FRAME_SECONDS", "WHOLE_SECONDS"),
        reconnect: ("SILENCE_SECONDS",),
        call_deadline: ("OVERDUE",),
        capture_failures: ("AWAKE_SECONDS",),
        after_capture: ("REPLY_SECONDS", "GLANCE"),
        capture_requests: ("BEGINNING", "ENDING"),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, PATIENCE)


def outcome(call: Callable[[], object]) -> str:
    """Return nothing if a call ended in a permitted way, else the fault in its end."""
    try:
        call()
    except HoldfastError as error:
        return "" if re.fullmatch(r"cannot [ -~\u00a1-\u2029]+", str(error)) else f"says {str(error)[:200]!r}"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return repr(error)
    return ""


def test_every_request_is_tried() -> None:
    """A new request is either in the table, or excluded where it is tried."""
    assert requests_there_are() == set(CALLS) | set(ELSEWHERE)


@pytest.mark.parametrize("misbehave", MISBEHAVIOURS, ids=lambda one: one.__name__)
def test_a_call_ends_whatever_the_supervisor_does(
    shared: Session, impatient: None, misbehave: Misbehave
) -> None:
    """All requests at the same time, each of another thread of the host."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with replaced(shared, misbehave) as supervisor, ThreadPoolExecutor(len(CALLS)) as pool:
        began = {name: pool.submit(outcome, partial(call, shared)) for name, call in CALLS.items()}
        done, late = wait(began.values(), BOUND)
        lasting = [name for name, each in began.items() if each in late]
        supervisor.close()  # so that those end as well
        wrong = {name: each.result() for name, each in began.items() if each in done and each.result()}
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert (lasting, wrong) == ([], {})
    assert set(CALLS) - set(supervisor.asked) <= {"moment"} or misbehave is hang_up
    assert (after - before) * 1024 < MEMORY
    assert shared.exec("echo well").text == "well\n"


def relay(folder: Path, peer: Peer, asked: dict[str, Any]) -> None:
    """Ask the real supervisor the same, and pass its answer on."""
    with suppress(HoldfastError), GuestClientAside(folder).connect() as connection:
        connection.send(asked)
        for frame in connection.events():
            say(peer, frame.head, frame.payload)


class GuestClientAside(GuestClient):
    """A client of the supervisor that was moved aside."""

    def connect(self) -> Connection:
        return Connection(run_dir.connect(self._folder, ASIDE, BOUND))


def in_captures(folder: Path, then: Callable[[Peer, dict[str, Any], threading.Event], None]) -> Misbehave:
    """Answer all requests as the real one does, except those to be captured."""

    def misbehave(peer: Peer, asked: dict[str, Any], over: threading.Event) -> None:
        if asked.get("op") == "prepare":
            then(peer, asked, over)
        else:
            relay(folder, peer, asked)

    return misbehave


FORGED: tuple[dict[str, Any], ...] = (
    {"token": "../../../wake"},
    {"token": "a\0b"},
    {"token": "\ud800" * 32},
    {"token": "a" * 1_000_000},
    {"token": ["a"]},
    {"supervisor_pid": 1},
    {"supervisor_pid": 1 << 40},
    {"supervisor_pid": 3},
    {"journal_seq": -1},
    {"journal_seq": 1, "offsets": {"x" * 1000: 10**30}},
    {},
)


def test_a_capture_is_not_misled_by_its_supervisor(shared: Session) -> None:
    """Neither about its identity nor about what ends its pause: each is refused in one line, nothing is
    captured.
    """
    folder = shared._context.home.run_dir(shared.id)
    shared.snapshot("before")
    pid = _client(shared).request("hello").head["pid"]
    real = {"event": "prepared", "token": "a" * 32, "supervisor_pid": pid, "end": True}
    told: dict[str, Any] = {}
    lies = []

    def lie(peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
        lies.append(told)
        say(peer, told)

    assert shared.exec("echo changed > /srv/changed").ok  # or there would be nothing to capture
    with replaced(shared, in_captures(folder, lie)):
        for forged in FORGED:
            told = {**real, **forged}
            with pytest.raises(HoldfastError, match=r"\Acannot [ -~…]+\Z"):
                shared.snapshot()
            assert lies[-1] is told
    assert [one.label for one in shared._context.store.snapshots() if one.session_id == shared.id] == [
        "before"
    ]
    assert shared.snapshot().restore("copy").exec("echo well").text == "well\n"
    teardown.remove(shared._context, "copy")


def test_a_supervisor_that_never_hangs_up_is_not_awaited(shared: Session, impatient: None) -> None:
    """It should close its connection before its capture, and drips instead."""
    folder = shared._context.home.run_dir(shared.id)

    def drips(peer: Peer, asked: dict[str, Any], over: threading.Event) -> None:
        say(peer, {"event": "prepared", "token": "a" * 32, "supervisor_pid": 2, "end": True})
        while not over.wait(PATIENCE / 10):
            peer.sendall(b"x")

    shared.exec("echo changed >> /srv/changed")
    with (
        replaced(shared, in_captures(folder, drips)),
        pytest.raises(GuestDisconnected, match="cannot continue"),
    ):
        shared.snapshot()
    assert shared.exec("echo well").text == "well\n"


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


PLANTED: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a link to a file of the host": lambda path: path.symlink_to("/etc/passwd"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": lambda path: (path / "x").mkdir(parents=True),
    "a device": lambda path: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5)),
    "a huge file": _huge,
}
NAMES = (layout.SOCKET_NAME, layout.SESSION_NAME, layout.WAKE_NAME, layout.JOURNAL_NAME)


def _cleared(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def test_names_in_the_shared_folder_do_not_mislead(hf: Holdfast, impatient: None) -> None:
    """Whatever exists under the names the host uses; such a session can still be removed."""
    session = hf.new("evil")
    folder = hf.home.run_dir(session.id)
    passwd = Path("/etc/passwd").stat()
    calls: tuple[Callable[[], object], ...] = (
        lambda: session.exec("true", timeout=PATIENCE),
        session.snapshot,
        lambda: session.snapshot(kind="filesystem"),
        lambda: session.journal(),
        session.jobs,
        hf.sessions,
        lambda: after_capture.look(hf.context, session.row, cut=True),
    )
    for number in range(900):
        (folder / f"paused-\n{number}").touch()
    for what, plant in PLANTED.items():
        for name in NAMES:
            _cleared(folder / name)
            plant(folder / name)
        assert [(what, trouble) for call in calls if (trouble := outcome(call))] == []
    session.remove()

    assert Path("/etc/passwd").stat() == passwd
    assert not folder.exists()
