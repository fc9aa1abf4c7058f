"""Many calls over one WebSocket: each on a channel, none in the way of another."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.session import Session

PATIENCE = 60


@pytest.fixture(scope="module")
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


class Client:
    """Opens channels, and sorts what comes by their numbers."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.came: dict[int | None, list[dict[str, Any]]] = {}

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def open(self, number: int, call: str, session: str = "shared", **more: Any) -> None:
        args = more.pop("args", {})
        self.send(open=number, call=call, session=session, args=args, **more)

    def hear(self) -> None:
        told = json.loads(self.socket.recv(timeout=PATIENCE))
        self.came.setdefault(told.pop("channel", None), []).append(told)

    def until(
        self, number: int | None, wanted: Callable[[list[dict[str, Any]]], bool]
    ) -> list[dict[str, Any]]:
        """Hear until what came on a channel is as wanted."""
        while not wanted(self.came.get(number, [])):
            self.hear()
        return self.came[number]

    def end(self, number: int) -> Any:
        """Return the result of a channel, or its error."""
        last = self.until(number, lambda came: bool(came) and ("result" in came[-1] or "error" in came[-1]))[
            -1
        ]
        return last.get("result", last.get("error"))

    def output(self, number: int) -> str:
        return "".join(each.get("output", "") for each in self.came.get(number, []))


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with server.channels() as socket:
        yield Client(socket)


def test_calls_run_side_by_side(client: Client, server: Served) -> None:
    client.open(1, "exec", args={"command": "echo in the shell; sleep 1; echo done"})
    client.open(2, "cell", args={"code": "print('in the kernel'); 6 * 7"})
    client.open(3, "run", args={"argv": ["sh", "-c", "echo apart >&2; exit 3"]})
    client.open(4, "exec", args={"command": "ls"}, session="nothing")
    assert client.end(4)["code"] == "session_not_found"
    assert client.end(2)["result"] == "42"
    assert client.end(3)["exit_code"] == 3
    assert client.end(1)["exit_code"] == 0
    assert client.output(1) == "in the shell\ndone\n"
    assert [each["text"] for each in client.came[2] if each.get("event") == "stream"] == ["in the kernel\n"]
    streams = [(each["stream"], each["output"]) for each in client.came[3] if each.get("event") == "output"]
    assert streams == [("stderr", "apart\n")]


def test_a_channel_without_credit_waits_alone(client: Client) -> None:
    """A client that does not want more output of one call gets the others' output."""
    more = "until [ -e /tmp/more ]; do sleep 0.05; done; seq 501 20000; touch /tmp/written"
    client.open(1, "exec", args={"command": f"seq 500; {more}"}, credit=1000)
    client.until(1, lambda _came: len(client.output(1)) >= 1000)
    code = "!touch /tmp/more; until [ -e /tmp/written ]; do sleep 0.05; done\n'free'"
    client.open(2, "cell", args={"code": code})
    assert client.end(2)["result"] == "'free'"
    assert client.output(1) in "".join(f"{number}\n" for number in range(1, 501))
    assert "result" not in client.came[1][-1]
    client.send(channel=1, credit=4 << 20)
    assert client.end(1)["exit_code"] == 0
    assert client.output(1) == "".join(f"{number}\n" for number in range(1, 20_001))


def test_a_lost_connection_loses_nothing(server: Served, shared: Session) -> None:
    """Another one continues at the offset where the first had arrived; a capture comes in between."""
    with server.channels() as socket:
        first = Client(socket)
        first.open(1, "exec", args={"command": "for i in $(seq 30); do echo line $i; sleep 0.1; done"})
        came = first.until(1, lambda came: len(came) > 4)
        begun, last = came[0]["command_id"], came[-1]["next"]
    shared.snapshot().remove()
    with server.channels() as socket:
        second = Client(socket)
        second.open(9, "join", args={"command_id": begun, "start": last})
        assert second.end(9)["exit_code"] == 0
        whole = first.output(1) + second.output(9)
    assert whole.splitlines() == [f"line {number}" for number in range(1, 31)]


def test_a_terminal_is_shown_and_typed_into(client: Client, shared: Session) -> None:
    client.open(1, "terminal", args={"rows": 30, "cols": 90})
    standing = client.until(1, lambda came: bool(came))[0]
    assert (standing["event"], standing["writes"]) == ("standing", True)
    client.send(channel=1, type="echo héllo $((6*7)); read -n1 key; echo got $key\n")
    client.until(1, lambda _: "héllo 42" in client.output(1))
    client.send(channel=1, type_base64="eA==")
    client.until(1, lambda _: "got x" in client.output(1))
    client.send(channel=1, type="sleep 600\n")
    assert polling.until(lambda: "sleep 600" in shared.terminal.screen().text, 60)
    client.send(channel=1, type="\x03")
    client.until(1, lambda _: "^C" in client.output(1))
    # Typed earlier it would be dropped with all that waits: termios(3), ISIG.
    assert polling.until(lambda: str(getattr(shared.shell().observed, "state", "")) == "idle", 60)
    client.send(channel=1, type="echo over $((1+2))\n")
    client.until(1, lambda _: "over 3" in client.output(1))
    shared.snapshot().remove()
    client.send(channel=1, type="echo still $((1+1))\n")
    client.until(1, lambda _: "still 2" in client.output(1))
    client.send(close=1)
    assert client.end(1) == {"reason": "left"}
    client.send(channel=1, type="nobody is there\n")
    client.open(2, "exec", args={"command": "echo free"})
    assert client.end(2)["exit_code"] == 0


def test_a_person_holds_the_terminal_and_an_agent_watches(server: Served, shared: Session) -> None:
    headers = server.headers | {"holdfast-actor": "person:ada"}
    url = server.url.replace("http", "ws") + "/v1/channels"
    with connect(url, additional_headers=headers, proxy=None) as hers, server.channels() as its:
        ada, agent = Client(hers), Client(its)
        ada.open(1, "terminal")
        ada.until(1, lambda came: any(each.get("holder") == "person:ada" for each in came))
        agent.open(1, "terminal")
        assert agent.until(1, lambda came: bool(came))[0]["writes"] is False
        agent.send(channel=1, type="echo not typed\n")
        refused = agent.until(1, lambda came: any(each["event"] == "refused" for each in came))
        assert {"event": "refused", "bytes": 15} in refused
        agent.open(2, "exec", args={"command": "ls"})
        assert agent.end(2)["code"] == "session_busy"
        ada.send(channel=1, resize=[33, 77])
        assert polling.until(lambda: (shared.shell().rows, shared.shell().cols) == (33, 77), 60)
    assert polling.until(lambda: shared.terminal.lease().holder is None, 60)
    assert "not typed" not in shared.terminal.screen().text


def test_events_and_changes_of_files_come_as_they_happen(client: Client, shared: Session) -> None:
    client.open(1, "events", args={"after": shared.journal()[-1].seq, "kind": ["job_started"]})
    client.open(2, "watch", args={"path": "/srv"})
    client.until(2, lambda came: bool(came))
    shared.files.write("/srv/new", b"x")
    shared.detach("true", name="seen")
    client.until(1, lambda came: any(each.get("event") == "job_started" for each in came))
    client.until(2, lambda came: any(each.get("path") == "/srv/new" for each in came))
    client.send(close=1)
    client.send(close=2)
    assert (client.end(1), client.end(2)) == ({}, {"ended": False, "left": True})


@pytest.mark.parametrize(
    "message",
    [
        "",
        "garbage",
        "[]",
        '{"open": 1}',
        '{"open": 1, "call": "nothing", "session": "shared"}',
        '{"open": 1, "call": "exec", "session": "shared", "args": {}}',
        '{"open": 1, "call": "run", "session": "shared", "args": {"argv": ["ls"]}, "key": "k"}',
        '{"open": 1, "call": "exec", "session": "shared", "args": {"command": "ls", "timeout": "1"}}',
    ],
)
def test_wrong_requests_are_answered_and_the_connection_lasts(client: Client, message: str) -> None:
    client.socket.send(message)
    told = client.until(None, bool) if '"open": 1,' not in message else client.until(1, bool)
    assert told[0]["error"]["code"] == "invalid_argument"
    client.open(5, "cell", args={"code": "1"})
    assert client.end(5)["result"] == "1"


def test_channels_are_numbered_and_limited(client: Client, shared: Session) -> None:
    left = shared.exec("sleep 600", patience=1)
    for number in range(1, 257):
        client.open(number, "join", args={"command_id": left.command_id})
    client.open(7, "cell", args={"code": "1"})
    assert "it is open" in client.until(7, bool)[-1]["error"]["message"]
    client.open(300, "cell", args={"code": "1"})
    assert "256 channels" in client.end(300)["message"]
    client.send(channel=7, type="x")
    client.until(7, lambda came: "not a terminal" in came[-1]["error"]["message"])
    shared.interrupt()
    assert {client.end(number)["exit_code"] for number in range(1, 257) if number != 7} == {130}


def test_a_websocket_needs_the_token(server: Served) -> None:
    url = server.url.replace("http", "ws") + "/v1/channels"
    offered = ["holdfast.v1", f"bearer.{server.token}"]
    with connect(url, subprotocols=offered, proxy=None) as socket:  # type: ignore[arg-type]
        assert socket.subprotocol == "holdfast.v1"
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        (server.headers | {"origin": "https://evil.test"}, 403),
        (server.headers | {"host": "evil.test"}, 400),  # two of them
    ):
        with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=headers, proxy=None):
            pass
        assert refused.value.response.status_code == status


def test_a_connection_that_is_quiet_for_a_while_lasts(client: Client) -> None:
    """It is not a stranger's: strangers' connections are closed after five seconds."""
    time.sleep(6)
    client.open(1, "cell", args={"code": "2"})
    assert client.end(1)["result"] == "2"


def test_large_messages_end_the_connection_and_nothing_else(server: Served) -> None:
    for message in ("x" * (17 << 20), b"\x00bytes"):
        with server.channels() as socket:
            with suppress(ConnectionClosed):
                socket.send(message)
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=PATIENCE)
    assert server.get("/health")["status"] == "ok"
    assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 0, 60)
