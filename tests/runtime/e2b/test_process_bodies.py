"""What clients ask about processes: Proto3 JSON in the forms that it may have."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.process.process_bodies import (
    ProcessRef,
    SendInputBody,
    SendSignalBody,
    StartBody,
    StreamInputBody,
)


def test_a_start_has_input_unless_it_says_so() -> None:
    """What is null or unknown counts as left out."""
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
