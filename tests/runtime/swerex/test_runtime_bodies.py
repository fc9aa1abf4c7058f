"""Errors have the class that a client of SWE-ReX raises."""

from __future__ import annotations

import inspect

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.runtime.serve.call_threads import TooManyCalls
from holdfast.runtime.swerex import runtime_bodies
from holdfast.runtime.swerex.runtime_bodies import RuntimeFailure, error_body_of

OWN = [
    kind
    for _, kind in inspect.getmembers(runtime_bodies, inspect.isclass)
    if issubclass(kind, RuntimeFailure)
]


def class_of(error: HoldfastError) -> str:
    return str(error_body_of(error)["swerexception"]["class_path"])


def test_errors_have_their_class() -> None:
    assert class_of(errors.ShellNotFound("x")) == "swerex.exceptions.SessionDoesNotExistError"
    assert class_of(errors.SessionFileNotFound("x")) == "builtins.FileNotFoundError"
    assert class_of(errors.SessionFileError("x")) == "builtins.OSError"
    assert class_of(errors.InvalidArgument("x")) == "builtins.ValueError"
    assert class_of(errors.SessionUnhealthy("x")) == "swerex.exceptions.DeploymentNotStartedError"
    assert class_of(errors.GuestError("x")) == "swerex.exceptions.SwerexException"
    assert class_of(TooManyCalls("x")) == "swerex.exceptions.SwerexException"


@pytest.mark.parametrize("kind", OWN)
def test_each_of_the_wire_has_one_of_its_own(kind: type[RuntimeFailure]) -> None:
    found = class_of(kind("cannot"))
    assert (found == "swerex.exceptions.SwerexException") == (kind is RuntimeFailure)
    assert [each.code for each in OWN].count(kind.code) == 1


def test_a_message_has_the_hint_and_a_limit() -> None:
    told = error_body_of(RuntimeFailure("cannot: why", hint="do this", details={"bash_stderr": "x"}))
    assert told["swerexception"] == {
        "message": "cannot: why; do this",
        "class_path": "swerex.exceptions.SwerexException",
        "traceback": "",
        "extra_info": {"bash_stderr": "x"},
    }
    assert len(error_body_of(RuntimeFailure("x" * (1 << 20)))["swerexception"]["message"]) < 70_000
    assert error_body_of(RuntimeFailure("a\udcffb"))["swerexception"]["message"] == r"a\udcffb"
