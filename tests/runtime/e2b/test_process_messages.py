"""Processes in the words of E2B's wire."""

from __future__ import annotations

import base64

import pytest

from holdfast.runtime.e2b.process import process_messages
from holdfast.runtime.e2b.process.process_messages import EndOfProcess


@pytest.mark.parametrize(
    ("end", "code", "exited", "status"),
    [
        (EndOfProcess(0, None), 0, True, "exit status 0"),
        (EndOfProcess(3, None), 3, True, "exit status 3"),
        (EndOfProcess(None, 9), -1, False, "signal: killed"),
        (EndOfProcess(137, 9), -1, False, "signal: killed"),
        (EndOfProcess(None, 15), -1, False, "signal: terminated"),
        (EndOfProcess(None, 40), -1, False, "signal: real-time signal 6"),
        (EndOfProcess(None, 2**60), -1, False, f"signal: signal {2**60}"),
        (EndOfProcess(2**60, None), 2**31 - 1, True, f"exit status {2**31 - 1}"),
    ],
)
def test_an_end_is_told_as_clients_know_it(end: EndOfProcess, code: int, exited: bool, status: str) -> None:
    """Whatever numbers a session says; an error goes with every end that is none of success."""
    told = process_messages.ended(end)["event"]["end"]
    expected = {"exitCode": code, "exited": exited, "status": status}
    assert told == (expected if code == 0 else expected | {"error": status})


def test_output_that_is_lost_is_told() -> None:
    told = process_messages.ended(EndOfProcess(0, None, lost=7))["event"]["end"]
    assert told["exitCode"] == 0
    assert "7 bytes" in told["error"]


@pytest.mark.parametrize("data", [b"", b"\xff\0", bytes(range(256)) * 1000])
def test_output_is_sent_as_it_is(data: bytes) -> None:
    (sent,) = process_messages.wrote("stderr", data)["event"]["data"].values()
    assert base64.b64decode(sent, validate=True) == data


@pytest.mark.parametrize(
    "words", [["/bin/bash", "-i", "-l"], [""], ["a b", "'", '"', "\n", "é"], ["exec", "x"]], ids=repr
)
def test_a_list_has_the_words_of_what_a_terminal_runs(words: list[str]) -> None:
    assert process_messages.words_of(process_messages.command_of(words)) == words


@pytest.mark.parametrize(
    "command", ["", "exec ", "exec 'a", "exec a  b", "exec a; rm b", "ls -l", "exec a && b", "exec\ta"]
)
def test_any_other_command_is_one_of_bash(command: str) -> None:
    """Also one that was cut off in the middle of a word."""
    assert process_messages.words_of(command) == ["/bin/bash", "-c", command]


def test_a_description_without_a_tag_has_none() -> None:
    assert process_messages.described(5, "", ["ls", "-l"], "/") == {
        "config": {"cmd": "ls", "args": ["-l"], "envs": {}, "cwd": "/"},
        "pid": 5,
    }
    assert process_messages.described(5, "t", [], "/")["tag"] == "t"
