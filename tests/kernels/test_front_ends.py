"""Front ends of Jupyter at a real supervisor with a real ipykernel, on this machine."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.runtime.guest.harness import Connection, Guest, Refused

from holdfast.runtime.guest.wire import kernel_messages
from holdfast.runtime.guest.wire.protocol import Frame

_ids = itertools.count()


class FrontEnd:
    """One connection of a front end."""

    def __init__(self, guest: Guest, call: Connection, client: str) -> None:
        self.guest, self.call, self.client = guest, call, client
        self.at: int | None = None
        self._numbers = itertools.count(1)

    def send(self, channel: str, kind: str, content: dict[str, Any], *buffers: bytes) -> str:
        """Send a message and return its id."""
        id_ = f"{self.client}_{next(_ids)}"
        header = {"msg_id": id_, "msg_type": kind, "session": self.client, "username": "u", "version": "5.3"}
        parts = [json.dumps(each).encode() for each in (header, {}, {}, content)]
        payload = kernel_messages.pack(channel, [*parts, *buffers])
        self.call.send("", payload, number=next(self._numbers))
        return id_

    def execute(self, code: str, **more: Any) -> str:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True, **more}
        return self.send("shell", "execute_request", content)

    def next(self) -> tuple[str, str, str, dict[str, Any]]:
        """Return the next message: channel, type, the id of its parent, content."""
        frame = self.call.until("message")
        self.at = frame.head["at"]
        channel, parts = kernel_messages.unpack(frame.payload)
        header, parent, _, content = (json.loads(part) for part in parts[:4])
        return channel, header["msg_type"], parent.get("msg_id", ""), content

    def until(self, kind: str, parent: str | None = None) -> dict[str, Any]:
        while True:
            _, found, of, content = self.next()
            if found == kind and parent in (None, of):
                return content

    def done(self, parent: str) -> tuple[dict[str, Any], str]:
        """Return the reply to an execution and its output, once both are whole."""
        reply: dict[str, Any] | None = None
        text, idle = "", False
        while reply is None or not idle:
            _, kind, of, content = self.next()
            if of == parent and kind == "execute_reply":
                reply = content
            elif of == parent and kind == "stream":
                text += content["text"]
            idle = idle or (of == parent and content == {"execution_state": "idle"})
        return reply, text

    def value(self, code: str) -> str:
        return self.done(self.execute(f"print({code})"))[1].strip()


@contextmanager
def front_end(guest: Guest, client: str, **more: Any) -> Iterator[FrontEnd]:
    with guest.call("front_end", client=client, link=f"{client}{next(_ids)}", **more) as call:
        call.until("joined")
        yield FrontEnd(guest, call, client)


def test_a_front_end_and_the_agent_share_variables(guest: Guest) -> None:
    guest.run_cell("shared = 41")
    with front_end(guest, "one") as front:
        assert front.value("shared + 1") == "42"
        front.done(front.execute("shared = 'front'"))
    assert b"front" in b"".join(frame.payload for frame in guest.run_cell("shared"))


def test_executions_of_a_front_end_are_cells_of_the_journal(guest: Guest) -> None:
    with front_end(guest, "one") as front:
        front.done(front.execute("print('journalled')"))
    entries = [json.loads(frame.payload) for frame in _journal(guest)]
    begun = next(each for each in entries if each.get("code") == "print('journalled')")
    ended = next(each for each in entries if each["kind"] == "cell_ended" and each["id"] == begun["id"])
    assert (ended["status"], ended["outputs"][0]["text"]) == ("ok", "journalled\n")


def test_replies_go_to_the_front_end_that_asked_and_output_to_all(guest: Guest) -> None:
    with front_end(guest, "one") as one, front_end(guest, "two") as two:
        asked = one.execute("print('both')")
        one.done(asked)
        mine = two.execute("0")
        seen = []
        while True:
            channel, kind, of, _ = two.next()
            seen.append((channel, kind, of))
            if (kind, of) == ("execute_reply", mine):
                break
        assert ("iopub", "stream", asked) in seen
        assert ("shell", "execute_reply", asked) not in seen


def test_missed_messages_are_replayed_once(guest: Guest) -> None:
    """To a front end that comes back, from where it was, and no more to one that has all."""
    gate = guest.folder / "gate"
    code = (
        f"import os, time\nprint('a', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    )
    with front_end(guest, "returns") as front:
        asked = front.execute(code + "\nprint('b')")
        while "\n" not in front.until("stream", asked)["text"]:
            pass
        at = front.at
    gate.touch()
    with front_end(guest, "other") as other:
        other.execute("0")
        other.until("execute_reply")
    with front_end(guest, "returns", after=at) as front:
        reply, text = front.done(asked)
        assert (reply["status"], text.strip()) == ("ok", "b")
    with front_end(guest, "returns") as front:  # it has all
        assert front.value("'nothing before'") == "nothing before"


def test_a_new_front_end_sees_the_cell_that_runs_and_its_question(guest: Guest) -> None:
    with front_end(guest, "first") as front:
        asked = front.execute("print('before'); got = input('name? ')")
        assert front.until("input_request", asked)["prompt"] == "name? "
    with front_end(guest, "second") as front:
        assert front.until("stream", asked)["text"].strip() == "before"
        assert front.until("input_request", asked)["prompt"] == "name? "
        front.send("stdin", "input_reply", {"value": "ann"})
        front.until("status")
        assert front.value("got") == "ann"
    with front_end(guest, "second", after=0) as front:
        kinds = []
        done = front.execute("0")
        while ("execute_reply", done) not in kinds:
            kinds.append(front.next()[1:3])
        assert "input_request" not in [kind for kind, _ in kinds]


def test_a_new_front_end_at_an_idle_kernel_is_sent_nothing_old(guest: Guest) -> None:
    with front_end(guest, "one") as front:
        front.done(front.execute("print('old')"))
    with front_end(guest, "fresh") as front:
        asked = front.execute("print('new')")
        texts = []
        while True:
            _, kind, of, content = front.next()
            assert of == asked
            texts += [content["text"].strip()] if kind == "stream" else []
            if kind == "execute_reply":
                break
    assert "old" not in texts


def test_a_front_end_waits_for_the_cell_of_the_agent(guest: Guest) -> None:
    """A failing cell of the agent aborts nothing of a front end, and both learn what runs."""
    gate = guest.folder / "agents-gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n1/0"
    with guest.call("cell", code.encode(), id="agents") as cell, front_end(guest, "one") as front:
        cell.until("started")
        info = front.send("shell", "kernel_info_request", {})
        assert front.until("kernel_info_reply", info)["language_info"]["name"] == "python"
        asked = front.execute("print('after it')")
        gate.touch()
        assert cell.until("finished").head["status"] == "error"
        assert front.done(asked)[1].strip() == "after it"


def test_an_agent_waits_for_the_cell_of_a_front_end(guest: Guest) -> None:
    gate = guest.folder / "fronts-gate"
    with front_end(guest, "one") as front:
        asked = front.execute(
            f"import os, time\nprint('on')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
        )
        front.until("stream", asked)
        with pytest.raises(Refused, match="is running; wait"):
            guest.run_cell("1")
        assert guest.ask("hello")[0].head["kernels"][0]["state"] == "busy"
        guest.ask("kernel_interrupt")
        assert front.done(asked)[0]["ename"] == "KeyboardInterrupt"


def test_shutdown_is_confirmed_and_ends_nothing(guest: Guest) -> None:
    """Nor does `exit`, which people type to leave a terminal; the front end leaves, the kernel stays."""
    guest.run_cell("precious = 7")
    with front_end(guest, "one") as front:
        for code in ("exit", " quit() "):
            reply, _ = front.done(front.execute(code))
            assert reply["payload"] == [{"source": "ask_exit", "keepkernel": True}]
        for channel in ("control", "shell"):
            front.send(channel, "shutdown_request", {"restart": False})
            assert front.until("shutdown_reply")["status"] == "ok"
        assert front.value("precious") == "7"


def test_the_death_of_the_process_answers_pending_requests(guest: Guest) -> None:
    """The running execution and the queued ones end; a new process starts on its own."""
    with front_end(guest, "one") as front:
        ids = [
            front.execute("import os, time; time.sleep(1); os._exit(3)"),
            front.execute("1"),
            front.execute("2"),
        ]
        replies: dict[str, str] = {}
        states = []
        while len(replies) < len(ids) or "starting" not in states:
            _, kind, of, content = front.next()
            if kind == "execute_reply":
                replies[of] = content["ename"]
            elif kind == "status" and not of:
                states.append(content["execution_state"])
        assert replies == dict.fromkeys(ids, "KernelDied")
        assert front.value("'alive'") == "alive"


def test_buffers_pass_both_ways(guest: Guest) -> None:
    """Through a comm that echoes them, as widgets do."""
    target = (
        "def opened(comm, _):\n"
        "    comm.on_msg(lambda m: comm.send({}, buffers=[bytes(m['buffers'][0])[::-1]]))\n"
        "get_ipython().kernel.comm_manager.register_target('echo', opened)"
    )
    with front_end(guest, "one") as front:
        front.done(front.execute(target))
        front.send("shell", "comm_open", {"comm_id": "c1", "target_name": "echo", "data": {}})
        front.send("shell", "comm_msg", {"comm_id": "c1", "data": {}}, b"\x00\xffabc")
        while True:
            frame = front.call.until("message")
            _, parts = kernel_messages.unpack(frame.payload)
            if json.loads(parts[0])["msg_type"] == "comm_msg":
                assert parts[4:] == [b"cba\xff\x00"]
                return


def test_a_message_that_is_too_large_is_left_out(guest: Guest) -> None:
    with front_end(guest, "one") as front:
        reply, text = front.done(front.execute("print('x' * (9 << 20))"))
        assert reply["status"] == "ok"
        assert "was left out" in text
        assert len(text) < 1000


def test_a_message_is_taken_once_however_often_it_is_sent(guest: Guest) -> None:
    with guest.call("front_end", client="one", link="resent") as call:
        call.until("joined")
        front = FrontEnd(guest, call, "one")
        front.done(front.execute("count = 0"))
    for _ in range(2):
        with guest.call("front_end", client="one", link="resent") as call:
            call.until("joined")
            front = FrontEnd(guest, call, "one")
            next(front._numbers)
            front.execute("count += 1")
            call.until("taken")
    with front_end(guest, "one") as front:
        assert front.value("count") == "1"


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff" * 100, kernel_messages.pack("shell", [b"{}"] * 4)],
    ids=["empty", "numbers", "no id"],
)
def test_malformed_messages_end_only_their_connection(guest: Guest, payload: bytes) -> None:
    with guest.call("front_end", client="bad", link=f"bad{next(_ids)}") as call:
        call.until("joined")
        call.send("", payload, number=1)
        with pytest.raises(Refused) as refused:
            call.until("never")
        assert refused.value.code == "bad_request"
    with front_end(guest, "one") as front:
        assert front.value("1 + 1") == "2"


def _journal(guest: Guest) -> list[Frame]:
    return [frame for frame in guest.ask("journal", after=0) if frame.payload]
