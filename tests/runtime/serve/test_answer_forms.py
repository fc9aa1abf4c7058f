"""Every error of the library has an answer that a client can map back."""

from __future__ import annotations

import inspect
import json

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError, LiveUnsupported
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.answer_forms import PrintableAnswer

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, HoldfastError) and kind is not HoldfastError
]
FAILURES_OF_THE_SERVER = {
    "engine_error",
    "engine_unfit",
    "image_error",
    "store_error",
    "snapshot_error",
    "capture_failed",
    "cluster_error",
    "restore_failed",
    "interrupted",
}
"""Codes of what a client cannot have caused, and can do nothing about."""


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_keeps_its_code_message_and_hint(kind: type[HoldfastError]) -> None:
    error = kind("cannot do it: why", hint="do this")
    found = answer_forms.body_of(error)["error"]
    assert (found["code"], found["message"], found["hint"]) == (kind.code, "cannot do it: why", "do this")
    status = answer_forms.status_of(error)
    assert 400 <= status < 600
    assert (status == 500) == (kind.code in FAILURES_OF_THE_SERVER)


def test_missing_things_are_404_and_invalid_names_400() -> None:
    missing = {kind for kind in KINDS if issubclass(kind, LookupError)}
    assert {answer_forms.status_of(kind("x")) for kind in missing} == {404}


def test_obstacles_are_listed() -> None:
    error = LiveUnsupported("cannot", findings=({"kind": "io_uring"},))
    assert answer_forms.body_of(error)["error"]["findings"] == [{"kind": "io_uring"}]


def test_messages_have_no_control_characters() -> None:
    assert "\x1b" not in str(answer_forms.body("code", "a\x1b[2Jb", "c\x07"))


def test_names_outside_utf_8_come_back() -> None:
    told = {"path": "/w/\udcff", "\udc80": "\x9b31m", "text": "é"}
    body = bytes(PrintableAnswer(told).body)
    assert json.loads(body) == told
    assert b"\xc2\x9b" not in body
