"""Bodies and messages about processes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b import sandbox_processes
from holdfast.runtime.e2b.sandbox_processes import (
    EndOfProcess,
    ProcessRef,
    SendInputBody,
    SendSignalBody,
    StartBody,
    StreamInputBody,
)


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
def test_an_end_is_reported_as_clients_know_it(
    end: EndOfProcess, code: int, exited: bool, status: str
) -> None:
    """Whatever numbers a session says; an error goes with every end other than success."""
    told = sandbox_processes.ended_message(end)["event"]["end"]
    expected = {"exitCode": code, "exited": exited, "status": status}
    assert told == (expected if code == 0 else expected | {"error": status})


def test_output_that_is_lost_is_reported() -> None:
    told = sandbox_processes.ended_message(EndOfProcess(0, None, lost=7))["event"]["end"]
    assert told["exitCode"] == 0
    assert "7 bytes" in told["error"]


@pytest.mark.parametrize("data", [b"", b"\xff\0", bytes(range(256)) * 1000])
def test_output_is_sent_as_it_is(data: bytes) -> None:
    (sent,) = sandbox_processes.wrote_message("stderr", data)["event"]["data"].values()
    assert base64.b64decode(sent, validate=True) == data


@pytest.mark.parametrize(
    "words", [["/bin/bash", "-i", "-l"], [""], ["a b", "'", '"', "\n", "é"], ["exec", "x"]], ids=repr
)
def test_a_list_has_the_words_of_a_terminals_program(words: list[str]) -> None:
    assert sandbox_processes.words_of(sandbox_processes.command_of(words)) == words


@pytest.mark.parametrize(
    "command", ["", "exec ", "exec 'a", "exec a  b", "exec a; rm b", "ls -l", "exec a && b", "exec\ta"]
)
def test_any_other_command_is_one_of_bash(command: str) -> None:
    """Also one that was cut off in the middle of a word."""
    assert sandbox_processes.words_of(command) == ["/bin/bash", "-c", command]


def test_a_description_without_a_tag_has_none() -> None:
    assert sandbox_processes.process_described(5, "", ["ls", "-l"], "/") == {
        "config": {"cmd": "ls", "args": ["-l"], "envs": {}, "cwd": "/"},
        "pid": 5,
    }
    assert sandbox_processes.process_described(5, "t", [], "/")["tag"] == "t"


def test_a_start_has_input_unless_it_says_so() -> None:
    """A null or unknown value counts as left out."""
    asked = StartBody.read(
        {"process": {"cmd": "ls", "args": None, "cwd": None}, "pty": None, "tag": None, "more": 1}
    )
    assert (asked.process.args, asked.process.cwd, asked.pty, asked.tag, asked.stdin) == (
        [],
        None,
        None,
        None,
        True,
    )
    assert not StartBody.read({"process": {"cmd": "ls"}, "stdin": False}).stdin


@pytest.mark.parametrize("text", ["-_8=", "+/8=", "-_8", "+/8"])
def test_bytes_come_in_either_alphabet_with_or_without_padding(text: str) -> None:
    asked = SendInputBody.read({"process": {"pid": 1}, "input": {"stdin": text}})
    assert (asked.input.kind, asked.input.data) == ("stdin", b"\xfb\xff")


@pytest.mark.parametrize(
    "given", [{}, {"stdin": "%"}, {"stdin": 5}, {"stdin": "", "pty": ""}, {"stdin": "a"}, []]
)
def test_input_is_one_piece_of_base64(given: Any) -> None:
    with pytest.raises(InvalidArgument):
        SendInputBody.read({"process": {"pid": 1}, "input": given})


def test_empty_input_is_input() -> None:
    asked = SendInputBody.read({"process": {"pid": 1}, "input": {"pty": ""}})
    assert (asked.input.kind, asked.input.data) == ("pty", b"")


@pytest.mark.parametrize(
    "given", [{}, {"pid": 1, "tag": "x"}, {"pid": -1}, {"pid": 2**32}, {"pid": "x"}, None]
)
def test_a_process_is_named_in_one_way(given: Any) -> None:
    with pytest.raises(InvalidArgument):
        ProcessRef.read({"process": given})


def test_a_process_has_a_name_for_people() -> None:
    assert str(ProcessRef.read({"process": {"pid": "17"}}).process) == "17"
    assert str(ProcessRef.read({"process": {"tag": "a\nb"}}).process) == r"tagged 'a\nb'"


@pytest.mark.parametrize(
    ("given", "name"), [("SIGNAL_SIGTERM", "TERM"), ("SIGNAL_SIGKILL", "KILL"), (9, "KILL"), (15, "TERM")]
)
def test_signals_have_names_and_numbers(given: str | int, name: str) -> None:
    assert SendSignalBody.read({"process": {"pid": 1}, "signal": given}).name() == name


@pytest.mark.parametrize("given", ["SIGNAL_UNSPECIFIED", "SIGNAL_SIGHUP", 0, 1, "x\ny" * 1000])
def test_other_signals_are_refused(given: str | int) -> None:
    with pytest.raises(InvalidArgument) as caught:
        SendSignalBody.read({"process": {"pid": 1}, "signal": given}).name()
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 200


def test_a_stream_of_input_has_signs_of_life() -> None:
    asked = StreamInputBody.read({"keepalive": {}})
    assert (asked.start, asked.data) == (None, None)
