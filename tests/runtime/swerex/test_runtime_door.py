"""Admission by the wire of SWE-ReX, and the limits of its bodies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.runtime.serve.gated_doors import gated, nothing

from holdfast.errors import InvalidArgument
from holdfast.runtime.http_doors.admission import Admission
from holdfast.runtime.swerex.runtime_bodies import Action, PlainCommand, ShellCommand, ShellInterrupt
from holdfast.runtime.swerex.swerex_app import RuntimeDoor, decoded, words


def asked(path: str, *keys: str, host: str = "localhost") -> str | int:
    """Return the server that answers: `wire`, `other`, or the door with a status."""
    found: list[str | int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append("wire")

    async def other(scope: Any, receive: Any, send: Any) -> None:
        found.append("other")

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    headers = [(b"host", host.encode()), *((b"X-API-Key", key.encode()) for key in keys)]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    gate = gated(RuntimeDoor(Admission("secret"), app), other=other)

    async def met() -> None:
        await gate(scope, nothing, send)

    asyncio.run(met())
    return found[0]


def test_the_token_of_the_server_opens_it() -> None:
    assert asked("/swerex/work/execute", "secret") == "wire"
    for keys in ((), ("",), ("other",), ("secret", "secret"), ("secret", "other")):
        assert asked("/swerex/work/execute", *keys) == 401
    assert asked("/swerex", "other") == 401


def test_other_names_of_this_host_are_refused() -> None:
    assert asked("/swerex/work/execute", "secret", host="attacker.example") == 421


def test_other_paths_are_left_to_others() -> None:
    for path in ("/v1/sessions", "/swerexx/work/execute", "/v1/swerex/a", "/"):
        assert asked(path, "secret") == "other"


def test_actions_are_distinguished() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Action)
    assert isinstance(
        adapter.validate_python({"action_type": "bash", "command": "ls", "new": 1}), ShellCommand
    )
    assert isinstance(adapter.validate_python({"action_type": "bash_interrupt"}), ShellInterrupt)
    for body in (
        {"command": "ls"},
        {"action_type": "bash"},
        {"action_type": "bash", "command": "a\0b"},
        {"action_type": "bash", "command": "ls", "timeout": float("inf")},
        {"action_type": "bash", "command": "ls", "timeout": -1},
        {"action_type": "bash", "command": "ls", "expect": ["x" * 251]},
        {"action_type": "bash", "command": "ls", "check": "perhaps"},
    ):
        with pytest.raises(ValidationError):
            adapter.validate_python(body)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"command": ["a", "b c"]}, ["a", "b c"]),
        ({"command": "a b"}, ["a b"]),
        ({"command": "a b", "shell": True}, ["/bin/sh", "-c", "a b"]),
        ({"command": ["a $0", "b"], "shell": True}, ["/bin/sh", "-c", "a $0", "b"]),
        (
            {"command": ["a"], "merge_output_streams": True},
            ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", "a"],
        ),
    ],
)
def test_words_of_programs(given: dict[str, Any], expected: list[str]) -> None:
    assert words(PlainCommand.model_validate(given)) == expected


def test_texts_are_read_as_python_reads_them() -> None:
    assert decoded(b"a\r\nb\rc\xc3\xa4", None, None) == "a\nb\ncä"
    assert decoded(b"\xe4", "latin-1", None) == "ä"
    assert decoded(b"\xe4", None, "backslashreplace") == r"\xe4"
    for encoding, errors in (
        (None, None),
        ("none such", None),
        ("zip", None),
        (None, "none such"),
        ("\0", None),
    ):
        with pytest.raises(InvalidArgument):
            decoded(b"\xe4", encoding, errors)
