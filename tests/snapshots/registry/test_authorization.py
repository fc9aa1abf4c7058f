"""Registries' requests for a pause are read by RFC 9110."""

from __future__ import annotations

from holdfast.snapshots.registry.authorization import MAX_CHALLENGE, Challenge, parse_challenges


def test_a_token_server_is_found() -> None:
    """As Docker's registry and Docker Hub write it."""
    header = (
        'Bearer realm="https://auth.test/token",service="registry, of \\"tests\\"",'
        'scope="repository:a/b:pull,push",error="insufficient_scope"'
    )
    (found,) = parse_challenges([header])
    assert found.scheme == "bearer"
    assert found.parameters == {
        "realm": "https://auth.test/token",
        "service": 'registry, of "tests"',
        "scope": "repository:a/b:pull,push",
        "error": "insufficient_scope",
    }


def test_several_failures_are_reported_separately() -> None:
    """In one header or in several, with and without parameters."""
    assert parse_challenges(["Negotiate, Basic realm=x , Bearer realm=y", 'basic realm="z"']) == [
        Challenge("negotiate"),
        Challenge("basic", {"realm": "x"}),
        Challenge("bearer", {"realm": "y"}),
        Challenge("basic", {"realm": "z"}),
    ]


def test_nonsense_ends_it() -> None:
    """Nothing is made up, and it takes no time."""
    assert parse_challenges(["", ' ="', '"' * 100_000]) == []
    assert parse_challenges(['Bearer realm="never ends' + "\\" * 100_000])[0].parameters == {}
    assert len(parse_challenges(["a " * 100_000])) < 10_000


def test_blanks_take_no_longer_than_they_are() -> None:
    """A registry sends many such headers: each would take seconds."""
    many = [f"Bearer{' ' * MAX_CHALLENGE}", " " * MAX_CHALLENGE, f"Bearer a{' ' * MAX_CHALLENGE}"] * 300
    assert {one.scheme for one in parse_challenges(many)} <= {"bearer", "a"}
