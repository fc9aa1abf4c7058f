from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    CommandNotFound,
    GuestDisconnected,
    GuestError,
    InvalidArgument,
    JobNotFound,
    KernelNotFound,
    ProtocolError,
    SessionBusy,
    SessionDead,
    ShellNotFound,
)
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import call_deadline, guest_client, reconnect
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.guest_rpc.shell_calls import Following, ShellCall
from holdfast.runtime.guest_rpc.shell_report import shell_info

FINISHED = {
    "event": "finished",
    "exit_code": 3,
    "signal": None,
    "start_offset": 10,
    "end_offset": 20,
    "timed_out": False,
    "shell_exited": False,
    "incomplete": False,
    "duration": 0.5,
    "end": True,
}


def _call(
    guest: Any,
    command: Any = "true",
    *,
    on_output: Any = None,
    on_bytes: Any = None,
    check: Any = lambda: None,
    timeout: Any = None,
    **more: Any,
) -> Any:
    return ShellCall(
        GuestClient(guest.folder),
        Reconnection(check),
        command,
        shell="main",
        timeout=timeout,
        on_output=on_output,
        on_bytes=on_bytes,
        **more,
    ).run()


def test_a_command_yields_its_output_uncooked(guest: Any) -> None:
    """The output is the program's, however the terminal and the frames cut it."""

    def answer(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=10)
        peer.send(b"a\r", event="output", offset=10, next=12)
        peer.send(b"\nb\r\r\n", event="output", offset=12, next=17)
        peer.send(**FINISHED)

    guest(answer)
    result = _call(guest, "make", timeout=5)

    assert result.output == b"a\nb\r\n"
    assert (result.exit_code, result.start_offset, result.end_offset, result.duration) == (3, 10, 20, 0.5)
    request = guest.requests[0]
    assert (
        request.payload,
        request.head["op"],
        request.head["v"],
        request.head["timeout"],
    ) == (b"make", "exec", 1, 5.0)


def test_text_is_cut_between_characters(guest: Any) -> None:
    """However the frames cut them; invalid UTF-8 shows as one; bytes come unchanged."""
    cut = "a€\u0301\r\n".encode() + b"\xff" + b"\xe2\x82"

    def answer(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=0)
        for at in range(len(cut)):
            peer.send(cut[at : at + 1], event="output", offset=at, next=at + 1)
        peer.send(**FINISHED)

    guest(answer)
    texts: list[str] = []
    pieces: list[bytes] = []
    result = _call(guest, on_output=texts.append, on_bytes=pieces.append)

    assert texts == ["a", "€", "\u0301", "\n", "\ufffd", "\ufffd"]
    assert b"".join(pieces) == result.output == cut.replace(b"\r", b"")


def test_the_wait_begins_with_the_command(guest: Any) -> None:
    """The wait for the shell has other rules; then the result is that the command still runs."""
    asked: list[Any] = []

    def answer(peer: Any, request: Any) -> None:
        asked.append(request.head.get("busy_wait"))
        if len(asked) == 1:
            return  # the connection is lost before it began
        peer.send(event="started", id=request.head["id"], offset=10)
        peer.send(b"so far", event="output", offset=10, next=16)
        peer.receive()

    guest(answer, answer)
    result = _call(guest, patience=0, busy_wait=50.0)

    assert result.running
    assert (result.exit_code, result.command_id) == (None, guest.requests[0].head["id"])
    assert 0 < asked[1] < asked[0] <= 50


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": None}, "must be text, not NoneType"),
        ({"command": ["echo", "a b"]}, "must be text, not list"),
        ({"command": b"true"}, "must be text, not bytes"),
        ({"timeout": "3"}, "timeout: it must be a number of seconds, not str"),
        ({"timeout": True}, "timeout: it must be a number of seconds, not bool"),
        ({"timeout": 0}, "timeout: it must be more than 0 seconds"),
        ({"timeout": float("nan")}, "timeout: it must be less than"),
        ({"patience": -1}, "patience: it must be 0 seconds or more"),
        ({"busy_wait": "1"}, "busy_wait: it must be a number of seconds, not str"),
        ({"lease_wait": 0}, "lease_wait: it must be more than 0 seconds"),
    ],
)
def test_wrong_arguments_are_reported_where_they_were_passed(guest: Any, arguments: Any, said: str) -> None:
    """By their name and type, before anything is sent."""
    with pytest.raises(InvalidArgument, match=said) as raised:
        _call(guest, **arguments)

    assert guest.requests == []
    assert ("echo 'a b'" in raised.value.hint) == (arguments.get("command") == ["echo", "a b"])


def test_a_lost_connection_continues_where_it_stopped(guest: Any) -> None:
    """After a cut the same call is joined from the next offset, and nothing is shown twice."""

    def first(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=10)
        peer.send(b"abc", event="output", offset=10, next=13)

    def second(peer: Any, request: Any) -> None:
        assert request.head["from_offset"] == 13
        peer.send(event="started", id=request.head["id"], offset=10)
        peer.send(b"bcd", event="output", offset=11, next=14)
        peer.send(**FINISHED)

    guest(first, second)
    shown: list[bytes] = []
    result = _call(guest, on_bytes=shown.append)

    assert b"abcd" == result.output == b"".join(shown)
    assert guest.requests[0].head["id"] == guest.requests[1].head["id"]


def test_a_supervisor_that_comes_back_later_is_awaited(guest: Any) -> None:
    """While nothing listens, as in a snapshot, the call waits."""

    def answer(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=0)
        peer.send(**FINISHED)

    looked = threading.Event()
    threading.Thread(target=lambda: (looked.wait(60), guest(answer)), daemon=True).start()
    result = _call(guest, check=looked.set)

    assert result.exit_code == 3


def test_a_dead_session_ends_the_call(guest: Any) -> None:
    """When the session is found to be dead, the call says so instead of waiting."""

    def dead() -> None:
        raise SessionDead("cannot use session x: its container ended")

    with pytest.raises(SessionDead):
        _call(guest, check=dead)


def test_silence_has_an_end(guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that runs without a supervisor is not waited for indefinitely."""
    monkeypatch.setattr(reconnect, "SILENCE_SECONDS", 0.05)

    with pytest.raises(GuestDisconnected):
        _call(guest)


def test_a_gap_is_counted(guest: Any) -> None:
    """Output beyond the session's room is reported by its size."""

    def answer(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=0)
        peer.send(event="gap", offset=0, size=1000)
        peer.send(b"end", event="output", offset=1000, next=1003)
        peer.send(**FINISHED)

    guest(answer)
    result = _call(guest)

    assert (result.lost, result.output) == (1000, b"end")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("busy", SessionBusy),
        ("unknown_exec", CommandNotFound),
        ("unknown_shell", ShellNotFound),
        ("unknown_kernel", KernelNotFound),
        ("unknown_job", JobNotFound),
        ("line_too_long", InvalidArgument),
        ("os.system", GuestError),
    ],
)
def test_errors_come_from_a_closed_table(guest: Any, code: Any, kind: Any) -> None:
    """The guest names an error; its class is decided here, and its text is made plain."""
    guest(lambda peer, _: peer.send(event="error", code=code, message="no\x1b[2J way\n", end=True))

    with pytest.raises(kind) as raised:
        _call(guest)

    assert str(raised.value).isprintable()
    assert isinstance(raised.value, LookupError) == kind.__name__.endswith("NotFound")


@pytest.mark.parametrize(
    "head",
    [
        {"event": 3},
        {"event": "output", "offset": "0", "next": 1},
        {"event": "output", "offset": -1, "next": 1},
        {"event": "output", "offset": 2**70, "next": 1},
        {"event": "output", "offset": True, "next": 1},
        FINISHED | {"exit_code": "0"},
        FINISHED | {"duration": float("nan")},
        FINISHED | {"timed_out": 1},
        {"event": "error", "code": [], "message": {}},
    ],
)
def test_a_hostile_guest_is_refused(guest: Any, head: Any) -> None:
    """A field of an unexpected form ends the call."""
    guest(lambda peer, _: peer.send(**head))

    with pytest.raises(ProtocolError):
        _call(guest)


def test_bytes_that_are_not_frames_are_refused(guest: Any) -> None:
    """A length beyond the limit is not waited for."""
    guest(lambda peer, _: peer.socket.sendall(b"\xff" * 8))

    with pytest.raises(ProtocolError):
        _call(guest)


@pytest.mark.parametrize("command", ["", "  \n", "a\0b", "x" * (9 << 20)])
def test_commands_that_cannot_be_run_are_refused(guest: Any, command: Any) -> None:
    """Nothing, a NUL byte, or too much is an error before anything is sent."""
    with pytest.raises(InvalidArgument):
        _call(guest, command)


def test_a_socket_that_was_replaced_is_not_followed(guest: Any, tmp_path: Path) -> None:
    """A link from the session's folder to another socket of the host is not connected to."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (guest.folder / "guest.sock").symlink_to(elsewhere / "guest.sock")

    with pytest.raises(GuestDisconnected):
        GuestClient(guest.folder).request("hello")


def test_a_folder_with_a_long_path_can_be_reached(tmp_path: Path, guest: Any) -> None:
    """The limit of 108 bytes for paths of sockets does not limit the place of a home."""
    guest(lambda peer, _: peer.send(event="hello", end=True))
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    (guest.folder / "guest.sock").rename(deep / "guest.sock")

    assert GuestClient(deep).request("hello").event == "hello"


def test_a_callback_that_fails_ends_the_call(guest: Any) -> None:
    """An error of the output's receiver is passed on; it is not mistaken for a lost connection."""

    def answer(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=0)
        peer.send(b"x", event="output", offset=0, next=1)

    def broken(_data: Any) -> None:
        raise BrokenPipeError

    guest(answer)
    with pytest.raises(BrokenPipeError):
        _call(guest, on_bytes=broken)


def test_an_interrupt_is_passed_on_and_raised_after_the_end(guest: Any) -> None:
    """Ctrl-C interrupts the command; the output up to its end still arrives."""

    def first(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=0)
        peer.send(b"x", event="output", offset=0, next=1)
        peer.receive()

    def second(peer: Any, _request: Any) -> None:
        peer.send(event="ok", end=True)

    def third(peer: Any, request: Any) -> None:
        peer.send(event="started", id=request.head["id"], offset=0)
        peer.send(b"^C", event="output", offset=1, next=3)
        peer.send(**FINISHED | {"exit_code": 130})

    shown: list[bytes] = []

    def show(data: Any) -> None:
        shown.append(data)
        if data == b"x":
            raise KeyboardInterrupt

    guest(first, second, third)
    with pytest.raises(KeyboardInterrupt):
        _call(guest, on_bytes=show)

    assert shown == [b"x", b"^C"]
    assert [request.op for request in guest.requests] == ["exec", "signal", "exec"]


def test_ctrl_c_while_another_command_has_the_shell_ends_only_the_waiting(guest: Any) -> None:
    """The other command is not interrupted, and this one is not begun."""

    def busy(peer: Any, request: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        peer.receive()

    def other(peer: Any, request: Any) -> None:
        assert request.head["id"] == guest.requests[0].head["id"]
        peer.send(event="ok", offset=0, exec=None, reached=False, end=True)

    guest(busy, other)
    with pytest.raises(KeyboardInterrupt):
        _call(guest, busy_wait=50.0)

    assert [request.op for request in guest.requests] == ["exec", "signal"]


def test_a_joined_command_is_followed_and_never_interrupted(guest: Any) -> None:
    """A caller that only waits gets all of the output, also across cuts; its Ctrl-C is not the command's."""

    def first(peer: Any, request: Any) -> None:
        peer.send(event="started", id="aa", offset=10)
        peer.send(b"abc", event="output", offset=10, next=13)

    def second(peer: Any, request: Any) -> None:
        assert request.head["from_offset"] == 13
        peer.send(event="started", id="aa", offset=10)
        peer.send(b"d", event="output", offset=13, next=14)
        peer.send(**FINISHED)

    def interrupted(_data: Any) -> None:
        raise KeyboardInterrupt

    def join(on_bytes: Any = None) -> Any:
        return Following(
            GuestClient(guest.folder), Reconnection(lambda: None), "aa", shell="main", on_bytes=on_bytes
        ).run()

    guest(first, second, first)
    assert join().output == b"abcd"
    with pytest.raises(KeyboardInterrupt):
        join(interrupted)

    assert [(request.op, request.head["id"]) for request in guest.requests] == [("wait", "aa")] * 3


def test_the_supervisors_report_of_a_shell(guest: Any) -> None:
    """A shell is found by its name."""
    shell = {"name": "main", "pid": 300, "rows": 40, "cols": 120, "offset": 7, "state": "prompt"}
    guest(*[lambda peer, _: peer.send(event="hello", shells=[shell], end=True)] * 2)

    info = shell_info(GuestClient(guest.folder), "main")
    assert (info.rows, info.command_id) == (40, None)
    with pytest.raises(ShellNotFound):
        shell_info(GuestClient(guest.folder), "other")


@pytest.mark.parametrize("patience", [None, 5.0])
def test_a_slowly_sent_frame_is_not_awaited(
    guest: Any, monkeypatch: pytest.MonkeyPatch, patience: float | None
) -> None:
    """A supervisor that sends one byte now and then ends the call when the time of a frame is over."""
    monkeypatch.setattr(guest_client, "FRAME_SECONDS", 0.2)

    def answer(peer: Any, _request: Any) -> None:
        data = protocol.encode(Frame({"event": "output", "offset": 0, "next": 900}, b"x" * 900))
        with suppress(OSError):
            for at in range(len(data)):
                peer.socket.sendall(data[at : at + 1])
                threading.Event().wait(0.02)

    fake = guest(answer)
    with GuestClient(fake.folder).open("exec") as connection:
        connection.socket.settimeout(patience)
        with pytest.raises(ProtocolError, match="does not complete a frame"):
            list(connection.events())
        assert connection.socket.gettimeout() == patience


def test_an_answer_in_slow_frames_ends_with_its_time(guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that asks again after a silence must not do so forever: this is not silence."""
    monkeypatch.setattr(guest_client, "WHOLE_SECONDS", 0.3)

    def answer(peer: Any, _request: Any) -> None:
        with suppress(OSError):
            for _ in range(100):
                peer.send(event="nothing")
                threading.Event().wait(0.05)

    fake = guest(answer)
    with (
        GuestClient(fake.folder).open("journal") as connection,
        pytest.raises(ProtocolError, match="its answer does not end"),
    ):
        list(connection.events(bounded=True))


def test_an_endless_answer_is_not_kept(guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of legal events where one answer is due ends with an error, by its count or its bytes."""
    monkeypatch.setattr(guest_client, "MAX_ANSWER_FRAMES", 1000)
    monkeypatch.setattr(guest_client, "MAX_ANSWER_BYTES", 1 << 20)

    def flood(payload: bytes) -> Any:
        def answer(peer: Any, _request: Any) -> None:
            data = protocol.encode(Frame({"event": "entry", "seq": 1}, payload)) * 10
            with suppress(OSError):
                while True:
                    peer.socket.sendall(data)

        return answer

    fake = guest(flood(b""), flood(b"x" * 100_000))
    for most in (1000, 11):
        heard: list[Any] = []
        with pytest.raises(ProtocolError, match="its answer does not end"):
            heard.extend(GuestClient(fake.folder).call("journal"))
        assert len(heard) <= most


def test_a_time_limit_is_kept_without_the_session(guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that never ends a command holds its caller for the requested time, and a while."""
    monkeypatch.setattr(call_deadline, "OVERDUE", 0.1)

    def answer(peer: Any, _request: Any) -> None:
        peer.send(event="started", offset=0)
        with suppress(OSError):
            while True:
                peer.send(event="gap", offset=0, size=1)

    with pytest.raises(GuestError, match="did not end the command at its time limit"):
        _call(guest(answer, answer), timeout=0.1)
