"""The entries of a session's shell and kernel in its journal, by a real supervisor."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.guest.shells.shell_output import DIGESTED


def entries(guest: Guest, *kinds: str) -> list[dict[str, Any]]:
    frames = guest.ask("journal", kinds=list(kinds) or None)
    return [json.loads(frame.payload) for frame in frames if frame.event == "entry"]


def await_entry(guest: Guest, kind: str, **wanted: Any) -> dict[str, Any]:
    """The first entry of that kind with these fields, now or when it comes."""
    with guest.call("journal", follow=True, kinds=[kind]) as call:
        for frame in call.frames():
            entry: dict[str, Any] = json.loads(frame.payload)
            if all(entry.get(key) == value for key, value in wanted.items()):
                return entry
    raise AssertionError(kind)


def test_a_command_is_two_entries(guest: Guest) -> None:
    """Its start, with actor and reason, and its end."""
    done = guest.exec("echo out; (exit 3)", actor="agent:coder", reason="to see")

    started, ended = entries(guest, "command_started", "command_ended")

    assert started["command"] == "echo out; (exit 3)"
    assert (started["actor"], started["reason"], started["shell"]) == ("agent:coder", "to see", "main")
    assert started["offset"] == done.start_offset
    assert (ended["id"], ended["exit_code"], ended["end_offset"]) == (started["id"], 3, done.end_offset)
    assert ended["seq"] == started["seq"] + 1
    assert ended["at"] >= started["at"]


def test_the_end_of_a_command_has_a_digest_of_its_output(guest: Guest) -> None:
    """Of the output that readers see, and of its beginning if it is long; it is the same in any shell."""
    for command in (
        "echo same",
        "printf 'same\\n'",
        "echo other",
        "true",
        "yes | head -c 900000",
        "(exit 3)",
    ):
        guest.exec(command)
    long = b"y\r\n" * (1 + DIGESTED // 3)

    found = [ended.get("output_digest") for ended in entries(guest, "command_ended")]

    texts = (b"same\r\n", b"same\r\n", b"other\r\n", b"", long[:DIGESTED], b"")
    assert found == [hashlib.sha256(text).hexdigest()[:8] for text in texts]


def test_the_output_of_a_command_that_was_given_something_hidden_has_no_digest(guest: Guest) -> None:
    """It could repeat it, and a short text could be guessed."""
    with guest.begin("read -s -p 'PIN: ' x; echo $x") as running:
        running.until_output(b"PIN: ")
        while guest.shell()["observed"]["detail"] != "password":
            os.sched_yield()
        guest.ask("send", b"1234\r")
        running.until("finished")

    ended = await_entry(guest, "command_ended", exit_code=0)
    assert "output_digest" not in ended


@pytest.mark.parametrize("typed", [False, True])
def test_a_command_is_at_work_before_its_entry_is_written(guest: Guest, tmp_path: Path, typed: bool) -> None:
    """Even if the supervisor is paused in between, none of its effects is older than its start."""
    guest.exec("true")
    for number in range(10):
        made = tmp_path / str(number)
        command = f"kill -STOP $PPID; echo > {made}; (sleep 0.1; kill -CONT $PPID) & # {number}"
        if typed:
            guest.ask("send", command.encode() + b"\r")
        else:
            guest.exec(command)

        started = await_entry(guest, "command_started", command=command)
        await_entry(guest, "command_ended", id=started["id"])  # by then it has made the file

        assert started["not_before"] - 0.01 <= made.stat().st_ctime


def test_a_long_command_is_kept_by_its_head(guest: Guest) -> None:
    """With its size and digest."""
    guest.exec("true " + "x" * 100_000)

    (started,) = entries(guest, "command_started")

    assert started["command_bytes"] == 100_005
    assert len(started["command"]) == 4096
    assert len(started["command_sha256"]) == 64


def test_typed_input_is_an_entry(guest: Guest) -> None:
    """With its text as the shell read it, whatever was typed and erased on the way, and its exit code."""
    guest.exec("true")
    guest.ask("send", b"fals\x7f\x7f\x7f\x7fecho; (exit 4)\r", actor="person:alice")

    ended = await_entry(guest, "command_ended", exit_code=4)
    started = await_entry(guest, "command_started", id=ended["id"])

    assert (started["command"], started["actor"], started["typed"]) == (
        "echo; (exit 4)",
        "person:alice",
        True,
    )
    assert ended["end_offset"] > started["offset"]


def test_lines_typed_ahead_are_distinguished(guest: Guest) -> None:
    """Each with its own text, however fast they come."""
    guest.exec("true")
    guest.ask("send", b"".join(b": line%d\r" % number for number in range(20)))

    await_entry(guest, "command_started", command=": line19")

    typed = [entry["command"] for entry in entries(guest, "command_started") if entry.get("typed")]
    assert typed == [f": line{number}" for number in range(20)]


def test_hidden_input_is_counted_and_not_kept(guest: Guest) -> None:
    """While the terminal does not echo, the text that is typed is in no file of the session."""
    with guest.begin("read -s -p 'Password: ' word; echo; echo got ${#word}") as running:
        running.until_output(b"Password: ")
        while guest.shell()["observed"]["detail"] != "password":  # bash may prompt before it hides
            os.sched_yield()
        guest.ask("send", b"hunter2secret\r", actor="person:alice")
        running.until("finished")
    with guest.begin("read -p 'Name: ' word; echo hi $word") as running:
        running.until_output(b"Name: ")
        guest.ask("send", b"visible\r")
        running.until("finished")

    hidden, shown = entries(guest, "input")

    assert (hidden["bytes"], hidden["hidden"], hidden["actor"]) == (14, True, "person:alice")
    assert "text" not in hidden
    assert (shown["text"], shown["hidden"]) == ("visible\r", False)
    for path in (guest.folder / "state").rglob("*"):
        assert not path.is_file() or b"hunter2secret" not in path.read_bytes()


def test_a_cell_is_two_entries_with_its_output(guest: Guest) -> None:
    """Code, streams and values, as a notebook has them."""
    guest.run_cell("print('hello'); 6 * 7", actor="agent:coder")
    guest.run_cell("1 / 0")

    started, ended, _, failed = entries(guest, "cell_started", "cell_ended")

    assert (started["code"], started["actor"], started["epoch"]) == (
        "print('hello'); 6 * 7",
        "agent:coder",
        1,
    )
    assert (ended["status"], ended["execution_count"]) == ("ok", 1)
    stream, value = ended["outputs"]
    assert stream == {"output_type": "stream", "name": "stdout", "text": "hello\n"}
    assert value["data"] == {"text/plain": "42"}
    assert failed["status"] == "error"
    assert failed["outputs"][-1]["ename"] == "ZeroDivisionError"


def test_outputs_of_a_cell_are_bounded(guest: Guest) -> None:
    """Output over the limit is left out, and the omission is recorded."""
    guest.run_cell("for _ in range(30): print('x' * 10_000)")

    (ended,) = entries(guest, "cell_ended")

    assert ended["outputs_cut"] is True
    assert len(json.dumps(ended)) < 200_000


def test_the_password_a_cell_asks_for_is_not_kept(guest: Guest) -> None:
    """Other answers are."""
    with guest.cell("import getpass; a = input('? '); b = getpass.getpass('! ')") as cell:
        cell.until("input_request")
        guest.ask("input", b"shown")
        cell.until("input_request")
        guest.ask("input", b"hunter2")
        cell.until("finished")

    shown, hidden = entries(guest, "input")

    assert shown["text"] == "shown"
    assert (hidden["hidden"], hidden["bytes"], "text" in hidden) == (True, 7, False)


def test_a_key_runs_once(guest: Guest) -> None:
    """A later call gets the recorded result, with the output."""
    first = guest.exec("echo $((++count)) >> log; cat log; (exit 5)", key="once")
    again = guest.exec("echo $((++count)) >> log; cat log; (exit 5)", key="once")

    assert again.output == first.output
    assert again.exit_code == first.exit_code == 5
    assert guest.exec("echo $count").output == b"1\r\n"


def test_a_call_under_a_key_that_runs_joins_it(guest: Guest) -> None:
    """Both get the same result."""
    command = "read go; echo $go"
    with guest.begin(command, key="join") as first, guest.begin(command, key="join") as second:
        guest.ask("send", b"now\r")
        ends = [call.until("finished").head["exit_code"] for call in (first, second)]

    assert ends == [0, 0]
    assert len([entry for entry in entries(guest, "command_started") if entry.get("key") == "join"]) == 1


def test_a_key_stands_for_one_text(guest: Guest) -> None:
    """The same key with another text, or for a cell, is refused."""
    guest.exec("true", key="k")

    for call in (lambda: guest.exec("false", key="k"), lambda: guest.run_cell("true", key="k")):
        with pytest.raises(Refused) as failure:
            call()
        assert failure.value.code == "key_conflict"


def test_a_command_that_was_refused_leaves_its_key_free(guest: Guest) -> None:
    """It did not run, so it can be tried again."""
    with guest.begin("read go") as running:
        with pytest.raises(Refused) as failure:
            guest.exec("echo ran", key="later")
        assert failure.value.code == "busy"
        guest.ask("send", b"go\r")
        running.until("finished")

    assert guest.exec("echo ran", key="later").output == b"ran\r\n"


def test_a_cell_under_a_key_runs_once(guest: Guest) -> None:
    """Its output comes again."""
    guest.run_cell("count = 0")
    code = "count += 1; print('ran', count)"
    first, again = (guest.run_cell(code, key="cell") for _ in range(2))

    assert [frame.payload for frame in first] == [frame.payload for frame in again]
    assert guest.run_cell("count")[1].payload.count(b'"1"') == 1


def test_keys_and_journal_outlive_the_supervisor(guest: Guest) -> None:
    """Another one in the same files knows what ran, says what is missing, and which outcome is lost."""
    guest.exec("echo kept; (exit 6)", key="done")
    guest.run_cell("print(1)", key="cell done")
    seen = entries(guest)
    with guest.begin("cat", key="open"):
        guest.restart()

    again = guest.exec("echo kept; (exit 6)", key="done")

    assert (again.exit_code, again.finished["recorded"], again.output) == (6, True, b"")
    gap = next(frame for frame in again.frames if frame.event == "gap")
    assert gap.head["size"] == again.end_offset - again.start_offset
    assert guest.run_cell("print(1)", key="cell done")[-1].head["recorded"] is True
    with pytest.raises(Refused) as failure:
        guest.exec("cat", key="open")
    assert failure.value.code == "outcome_unknown"
    after = entries(guest)
    assert after[: len(seen)] == seen
    assert [entry["seq"] for entry in after] == list(range(1, len(after) + 1))
