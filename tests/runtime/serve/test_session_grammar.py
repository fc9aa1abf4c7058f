"""The options of a new session have one grammar, in process and over a URL."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.errors import InvalidArgument
from holdfast.runtime.client.http_call import given, session_options
from holdfast.runtime.serve.models.session_models import SessionRequest
from holdfast.runtime.sessions.session_options import Mount, SessionOptions

READ_ONLY = {"read_only": True}
ACCEPTED: dict[str, list[Any]] = {
    "image": ["python:3.12", "host:5000/a/b@sha256:" + "a" * 64],
    "network": ["internet", "none", "open", "default"],
    "allow": [["10.0.0.1:80"], ("10.0.0.1:80", "[fd00::1]:443", "1.1.1.1"), []],
    "deny": [["10.0.0.0/8"], ("1.1.1.1", "fd00::1"), []],
    "domains": [["example.org"], ("*.example.org",)],
    "memory": [1 << 30, "512m", "1.5g", "4GiB", "512mb", "1073741824", "4G"],
    "disk": [1 << 30, "1g", "2.5GiB"],
    "cpus": [2, 0.5, "2", "1.5"],
    "pids": [100, "100", 64],
    "user": ["root", "1000", "1000:1000"],
    "env": [{"A": "b"}, ["A=b", "C=d=e"], ("A=",), {}, []],
    "mounts": [["/a:/b"], ["/a:/b:ro", "/c:/d"], [Mount.parse("/a:/b:ro")], (Mount.parse("/a:/b"),)],
    "workdir": ["/w"],
    "read_only": [True, False],
    "writable": [["/srv"], ("/srv/a", "/opt/b")],
    "shell": ["bash", "/bin/zsh"],
    "kernel": ["python3", "ir"],
    "python": ["/usr/bin/python3"],
}
REFUSED: dict[str, list[Any]] = {
    "image": ["-x", ""],
    "network": ["wide"],
    "allow": [["nonsense"]],
    "deny": [["nonsense"], ["1.1.1.1:80"]],
    "domains": [["a b"]],
    "memory": ["much", 5, "-1g", ""],
    "disk": ["x"],
    "cpus": ["many", 0],
    "pids": ["x", 1],
    "user": ["a b"],
    "env": [["A"], {"1": "x"}],
    "mounts": [["/a"], ["/a:/proc"]],
    "workdir": ["w"],
    "read_only": ["perhaps"],
    "writable": [["srv"]],
    "shell": ["A b"],
    "kernel": ["a b"],
    "python": ["python"],
}
WITH: dict[str, dict[str, Any]] = {"writable": READ_ONLY, "domains": {"network": "domains"}}


def over_a_url(**options: Any) -> SessionOptions:
    """Read options as a server does that a client has sent them to."""
    body = json.loads(json.dumps(given(**session_options(options))))
    return SessionOptions.parse(**SessionRequest.model_validate(body).options())


def cases(table: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(name, value, id=f"{name}-{number}")
        for name, values in table.items()
        for number, value in enumerate(values)
    ]


@pytest.mark.parametrize(("name", "value"), cases(ACCEPTED))
def test_a_server_takes_the_same_values_as_the_library(name: str, value: Any) -> None:
    options = {name: value, **WITH.get(name, {})}
    assert over_a_url(**options) == SessionOptions.parse(**options)


@pytest.mark.parametrize(("name", "value"), cases(REFUSED))
def test_a_server_refuses_the_same_values_as_the_library(name: str, value: Any) -> None:
    options = {name: value, **WITH.get(name, {})}
    with pytest.raises(InvalidArgument):
        SessionOptions.parse(**options)
    with pytest.raises((InvalidArgument, ValidationError)):
        over_a_url(**options)


def test_every_option_is_tried() -> None:
    """`secrets` are read by another part, from texts both here and there."""
    every = set(SessionOptions.model_fields) - {"secrets"}
    assert set(ACCEPTED) == every
    assert set(REFUSED) == every
    assert every <= set(SessionRequest.model_fields)
