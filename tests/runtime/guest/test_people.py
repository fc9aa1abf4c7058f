"""People and agents at one shell, with a real supervisor."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Connection, Guest, Refused

from holdfast.runtime.guest.records.timeline import Moment, MomentKind, decode

ALICE, BOB = "person:alice", "person:bob"
SMALL = {"rows": 30, "cols": 100}


def attach(guest: Guest, actor: str, **args: Any) -> Connection:
    connection = guest.call("attach", **{"actor": actor, **SMALL, **args})
    connection.attached = connection.until("attached").head  # type: ignore[attr-defined]
    return connection


def lease(guest: Guest, action: str = "show", **args: Any) -> dict[str, Any]:
    head: dict[str, Any] = guest.ask("lease", action=action, **args)[-1].head
    return head


def holder(guest: Guest) -> str | None:
    shown = lease(guest)["lease"]
    return shown["holder"] if shown else None


def entries(guest: Guest, kind: str) -> list[dict[str, Any]]:
    frames = guest.ask("journal", after_seq=0, kinds=[kind])
    return [json.loads(frame.payload) for frame in frames if frame.event == "entry"]


def moments(guest: Guest) -> list[Moment]:
    frames = guest.ask("recording")
    return [moment for frame in frames if frame.event == "segment" for moment in decode(frame.payload)]


def pause(guest: Guest, event: str) -> None:
    """Pause as for a capture without CRIU: the connections are cut, and the host says what this process is
    afterwards.
    """
    with guest.call("prepare") as connection:
        token = connection.until("prepared").head["token"]
        assert connection.next() is None
    path = guest.run / "wake.new"
    path.write_text(json.dumps({"token": token, "event": event}))
    path.rename(guest.run / "wake.json")
    guest.wait_for_socket()


def test_attaching_takes_the_lease(guest: Guest) -> None:
    """Others are refused with the holder's name, can wait for the end, and the holder's own commands run."""
    with attach(guest, ALICE):
        assert holder(guest) == ALICE
        for op, args in (("exec", {"id": "x"}), ("send", {}), ("signal", {"signal": "INT"})):
            with pytest.raises(Refused, match=r"held by person:alice since ..:..:.. UTC") as refused:
                guest.ask(op, b"true", **args)
            assert refused.value.code == "held"
        with pytest.raises(Refused, match="held by person:alice"):
            guest.ask("exec", b"true", id="y", lease_wait=0.01)
        assert guest.exec("echo mine", actor=ALICE).output == b"mine\r\n"
    assert guest.exec("echo free", lease_wait=60).output == b"free\r\n"
    assert holder(guest) is None


def test_the_second_person_watches_until_the_lease_is_handed_over(guest: Guest) -> None:
    """A viewer's typing is refused with a message; everyone learns what happens to the lease."""
    guest.exec("true")
    with attach(guest, ALICE) as one, attach(guest, BOB, rows=20, cols=50) as two:
        assert two.attached["writes"] is False  # type: ignore[attr-defined]
        assert two.attached["rows"] == 30  # type: ignore[attr-defined]
        two.send("input", b"rm -rf precious\n")
        assert two.until("refused").head["bytes"] == 16
        with pytest.raises(Refused, match="held by person:alice"):
            lease(guest, "take", actor=BOB)
        lease(guest, "give", actor=ALICE, to=BOB)
        assert one.until("standing").head["writes"] is False
        assert two.until("standing").head["holder"] == BOB
        two.send("input", b"stty size; echo $((40+2))\n")
        assert b"20 50" in one.until_output(b"\n42\r\n")
        two.send("detach")
        two.until("closed")
        one.send("input", b"echo $((50+2))\n")
        one.until_output(b"52\r\n")
        assert holder(guest) == ALICE
    steps = [(entry["action"], entry.get("holder")) for entry in entries(guest, "lease")]
    assert steps[:4] == [("take", ALICE), ("give", BOB), ("return", None), ("take", ALICE)]


def test_a_viewer_by_choice_never_holds(guest: Guest) -> None:
    """A viewer takes nothing, types nothing and changes no size."""
    with attach(guest, ALICE, view=True) as viewer:
        assert holder(guest) is None
        viewer.send("input", b"x")
        viewer.until("refused")
        assert guest.exec("stty size").output == b"40 120\r\n"
        assert lease(guest)["attached"] == [{"actor": ALICE, "rows": 30, "cols": 100, "writes": False}]


def test_force_is_possible_and_recorded(guest: Guest) -> None:
    """An agent's lease for a time is taken from it by a person who insists."""
    lease(guest, "take", actor="agent:one", seconds=1000)
    with pytest.raises(Refused, match="held by agent:one"):
        guest.exec("true", actor="agent:two")
    with attach(guest, ALICE, take=True):
        assert holder(guest) == ALICE
        with pytest.raises(Refused, match="held by person:alice"):
            guest.exec("true", actor="agent:one")
    assert guest.exec("echo $((1+1))", lease_wait=60).output == b"2\r\n"
    [forced] = [entry for entry in entries(guest, "lease") if entry["action"] == "force"]
    assert (forced["holder"], forced["before"]) == (ALICE, "agent:one")


def test_a_lease_for_a_time_expires(guest: Guest) -> None:
    """The actor that waits for it then gets the shell."""
    lease(guest, "take", actor=ALICE, seconds=0.05)
    assert guest.exec("echo after", lease_wait=60).output == b"after\r\n"
    assert [entry["action"] for entry in entries(guest, "lease")] == ["take", "expire"]


def test_after_a_capture_the_holder_comes_back_and_a_copy_is_free(guest: Guest) -> None:
    """In the session that continues no one can take it in between; in a copy no one holds it."""
    with attach(guest, ALICE, token="t"):
        pause(guest, "resumed")
        with pytest.raises(Refused, match="held by person:alice"):
            guest.exec("true")
    with attach(guest, ALICE, token="t"):
        assert holder(guest) == ALICE
        pause(guest, "restored")
        assert guest.exec("stty size").output == b"40 120\r\n"
        assert holder(guest) is None


def test_the_terminal_of_a_copy_is_resized_when_the_host_asks_first(guest: Guest) -> None:
    """Before that, some of its programs are possibly not running: one that is notified then would not leave
    its call.
    """
    with attach(guest, ALICE):
        terminal = Path(f"/proc/{guest.shell()['pid']}/fd/0").readlink()
        pause(guest, "restored")
    descriptor = os.open(terminal, os.O_RDONLY | os.O_NOCTTY)
    try:
        assert os.get_terminal_size(descriptor) == (100, 30)
        guest.ask("hello")
        assert os.get_terminal_size(descriptor) == (120, 40)
    finally:
        os.close(descriptor)


def test_a_reader_continues_at_its_offset(guest: Guest) -> None:
    """After a lost connection nothing of the output is missing or doubled."""
    with attach(guest, ALICE, offset=0) as one:
        one.send("input", b"echo one-$((1+1))\n")
        seen, at = b"", 0
        for frame in one.frames():
            seen, at = seen + frame.payload, frame.head.get("next", at)
            if b"one-2" in seen:
                break
    with attach(guest, ALICE, offset=at) as two:
        two.send("input", b"echo two-$((1+1))\n")
        seen += two.until_output(b"two-2")
    whole = b"".join(frame.payload for frame in guest.ask("read", offset=0))
    assert whole.startswith(seen)


def prompt(guest: Guest) -> None:
    """Wait until the shell's own line editor reads."""
    while guest.shell()["state"] != "prompt":
        os.sched_yield()


def test_only_input_the_terminal_shows_is_kept(guest: Guest) -> None:
    """A line at the prompt and an answer to a question are kept; of a password only its length."""
    prompt(guest)
    with attach(guest, ALICE) as one:
        one.send("input", b"read -p na''me: name; echo got-$name\n")
        one.until_output(b"name:")
        one.send("input", b"Ada\n")
        one.until_output(b"got-Ada")
        prompt(guest)
        one.send("input", b"stty -echo; printf pa''ss:; read w; stty echo; echo got-${#w}; unset w\n")
        one.until_output(b"pass:")
        one.send("input", b"s3cret!!\n")
        one.until_output(b"got-8")
        one.send("detach")
        one.until("closed")
    typed = entries(guest, "input")
    assert [entry["hidden"] for entry in typed] == [False, False, False, True]
    assert [entry["bytes"] for entry in typed[1::2]] == [4, 9]
    assert typed[1]["text"] == "Ada\n"
    assert {entry["actor"] for entry in typed} == {ALICE}
    kept = [moment for moment in moments(guest) if moment.kind in (MomentKind.INPUT, MomentKind.HIDDEN)]
    assert [(moment.kind, moment.text, moment.size) for moment in kept[1::2]] == [
        (MomentKind.INPUT, b"Ada\n", 4),
        (MomentKind.HIDDEN, b"", 9),
    ]
    folder = guest.folder / "state"
    for path in folder.rglob("*"):
        assert not path.is_file() or b"s3cret!!" not in path.read_bytes()


RAW = """python3 -c "
import os, tty
tty.setraw(0)
os.write(1, b'as' + b'king')
said = b''
while not said.endswith(b'Q'): said += os.read(0, 1)
os.write(1, ascii(said).encode())
"; stty sane; cat
"""


def test_an_answer_is_typed_only_where_a_program_waits_for_keys(guest: Guest) -> None:
    """Not at the prompt, not to a program that reads lines, not for a viewer; and it is not recorded as
    typed.
    """
    prompt(guest)
    with attach(guest, ALICE) as one, attach(guest, BOB) as two:
        one.send("answer", b"at the prompt\n")
        one.send("input", RAW.encode())
        one.until_output(b"asking")
        two.send("answer", b"of another Q")
        two.send("input", b"z")
        two.until("refused")
        one.send("answer", b"too long Q" * 10)
        one.send("answer", b"\x1b[0nQ")
        one.until_output(b"b'\\x1b[0nQ'")
        while guest.shell()["observed"]["detail"] != "line":
            os.sched_yield()
        one.send("answer", b"to a program that reads lines\n")
        one.send("input", b"ke''pt\n\x04")
        one.until_output(b"ke''pt\r\nke''pt")
    shown = b"".join(frame.payload for frame in guest.ask("read", offset=0))
    assert b"at the prompt" not in shown
    assert b"reads lines" not in shown
    assert b"too long" not in shown
    assert all("[0n" not in str(entry) for entry in entries(guest, "input"))
    assert b"[0n" not in b"".join(moment.text for moment in moments(guest))


def test_the_recording_has_times_and_sizes(guest: Guest) -> None:
    """Every byte of the output has a time, in order, and a size change has its place."""
    guest.exec("echo before")
    guest.ask("resize", rows=50, cols=70)
    guest.exec("echo after")
    end = guest.shell()["offset"]
    found = moments(guest)

    assert [moment.offset for moment in found] == sorted(moment.offset for moment in found)
    assert [moment.at for moment in found] == sorted(moment.at for moment in found)
    assert found[-1].offset >= end
    [size] = [moment for moment in found if moment.kind is MomentKind.RESIZE]
    assert (size.rows, size.columns) == (50, 70)
    before = b"".join(f.payload for f in guest.ask("read", offset=0, end=size.offset) if f.event == "output")
    assert b"before" in before
    assert b"after" not in before


def test_a_change_of_size_reaches_the_program_that_runs(guest: Guest) -> None:
    """It gets SIGWINCH, and the new size if it asks; and again when the person leaves."""
    program = (
        "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
        "for n in range(3): print(n, *os.get_terminal_size(), flush=True); signal.sigwait([signal.SIGWINCH])"
    )
    with guest.begin(f"{sys.executable} -c '{program}'") as command:
        command.until_output(b"0 120 40")
        with attach(guest, ALICE) as one:
            command.until_output(b"1 100 30")
            one.send("resize", rows=20, cols=60)
            command.until_output(b"2 60 20")
        assert command.until("finished").head["exit_code"] == 0


def test_a_look_adds_to_the_end_of_the_output(guest: Guest) -> None:
    """Where the second screen was entered and left, and which modes are on."""
    guest.exec(r"printf '\e[?1049h\e[?1002h\e[?1h'; seq 1000; printf '\e[2J'")
    seen = guest.ask("look")[0].head
    assert seen["entered"] is not None
    assert seen["left"] is None
    assert seen["erased"] > seen["entered"]
    assert {1, 1002} <= set(seen["modes"])
    guest.exec(r"printf '\e[?1049l\e[?1002l\e[?1l'")
    seen = guest.ask("look")[0].head
    assert seen["left"] > seen["entered"]
    assert not {1, 1002} & set(seen["modes"])


def test_a_terminal_takes_and_gives_back_by_request(guest: Guest) -> None:
    """Until it leaves, as with `take` at its beginning; a viewer neither gets nor gives anything."""
    with attach(guest, ALICE), attach(guest, BOB) as bob, attach(guest, BOB, view=True) as viewer:
        assert bob.attached["takes"] is True  # type: ignore[attr-defined]
        viewer.send("take")
        bob.send("give_back")
        assert holder(guest) == ALICE
        bob.send("take")
        assert bob.until("standing").head["writes"] is True
        assert holder(guest) == BOB
        bob.send("give_back")
        assert bob.until("standing").head["holder"] is None
        bob.send("take")
        assert bob.until("standing").head["holder"] == BOB
        bob.send("detach")
        bob.until("closed")
        assert holder(guest) is None
