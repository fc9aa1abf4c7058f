"""A server's report of an error becomes the library's error again."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError, LiveUnsupported
from holdfast.runtime.client.client_errors import error_of
from holdfast.runtime.serve import answer_forms
from holdfast.runtime.serve.call_threads import ServerStopping, TooManyCalls

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, HoldfastError) and kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_error_comes_back(kind: type[HoldfastError]) -> None:
    found = error_of(answer_forms.body_of(kind("cannot do it", hint="do that")))
    assert type(found) is kind
    assert (str(found), found.hint) == ("cannot do it", "do that")


def test_findings_come_with_it() -> None:
    told = answer_forms.body_of(LiveUnsupported("cannot", findings=({"pid": 1},)))
    found = error_of(told)
    assert isinstance(found, LiveUnsupported)
    assert found.findings == ({"pid": 1},)


def test_errors_that_only_a_server_has() -> None:
    assert isinstance(error_of(answer_forms.body_of(TooManyCalls("cannot"))), errors.SessionBusy)
    assert isinstance(error_of(answer_forms.body_of(ServerStopping("cannot"))), errors.ServerUnavailable)
    assert isinstance(error_of(answer_forms.body("unauthorized", "no")), errors.ServerDenied)
    assert isinstance(error_of(answer_forms.body("invalid_request", "no")), errors.InvalidArgument)


@pytest.mark.parametrize("told", [None, [], {}, {"error": 1}, {"error": {"code": "new", "message": None}}])
def test_anything_else_is_an_error_nevertheless(told: Any) -> None:
    assert type(error_of(told)) is HoldfastError
