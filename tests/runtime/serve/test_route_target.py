"""The session that a request is for, as a proxy asks for it."""

from __future__ import annotations

import pytest

from holdfast.runtime.serve.route_target import HOST, SANDBOX, URI, session_of


@pytest.mark.parametrize(
    ("headers", "session"),
    [
        ({URI: "/v1/sessions/work/exec?x=/v1/sessions/other"}, "work"),
        ({URI: "/v1/sessions/work"}, "work"),
        ({URI: "/v1/sessions"}, ""),
        ({URI: "/v1/sessions/"}, ""),
        ({URI: "/v1/sessions/%2e%2e/exec"}, ""),
        ({URI: "/sandboxes/6bd7a1f3c10e/connect"}, "6bd7a1f3c10e"),
        ({URI: "/swerex/work/execute"}, "work"),
        ({URI: "/jupyter/work/api/kernels"}, "work"),
        ({URI: "/health", SANDBOX: "6bd7a1f3c10e"}, "6bd7a1f3c10e"),
        ({URI: "/health", SANDBOX: "a b"}, ""),
        ({URI: "/", HOST: "3000-work-6bd7a1f3c10e.previews.example.org"}, "6bd7a1f3c10e"),
        ({URI: "/", HOST: "holdfast.example.org"}, ""),
        ({URI: "/v1/channels?session=work"}, "work"),
        ({URI: "/v1/channels?session=a%20b"}, ""),
        ({URI: "/v1/channels"}, ""),
        ({URI: "http://[::1"}, ""),
        ({}, ""),
    ],
)
def test_each_wire_names_its_session(headers: dict[str, str], session: str) -> None:
    """By its path, its header or its name; an unreadable one names none."""
    assert session_of(headers) == session
