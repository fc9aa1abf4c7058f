"""What registries ask for is read as RFC 9110 has it."""

from __future__ import annotations

from holdfast.snapshots.registry.challenge import MAX_HEADER, Challenge, parse


def test_a_token_server_is_found() -> None:
    """As Docker's registry and Docker Hub write it."""
    header = (
        'Bearer realm="https://auth.test/token",service="registry, of \\"tests\\"",'
        'scope="repository:a/b:pull,push",error="insufficient_scope"'
    )
    (found,) = parse([header])
    assert found.scheme == "bearer"
    assert found.parameters == {
        "realm": "https://auth.test/token",
        "service": 'registry, of "tests"',
        "scope": "repository:a/b:pull,push",
        "error": "insufficient_scope",
    }


def test_several_are_reported_apart() -> None:
    """In one header or in several, with and without parameters."""
    assert parse(["Negotiate, Basic realm=x , Bearer realm=y", 'basic realm="z"']) == [
        Challenge("negotiate"),
        Challenge("basic", {"realm": "x"}),
        Challenge("bearer", {"realm": "y"}),
        Challenge("basic", {"realm": "z"}),
    ]


def test_nonsense_ends_it() -> None:
    """Nothing is made up, and it takes no time."""
    assert parse(["", ' ="', '"' * 100_000]) == []
    assert parse(['Bearer realm="never ends' + "\\" * 100_000])[0].parameters == {}
    assert len(parse(["a " * 100_000])) < 10_000


def test_blanks_take_no_longer_than_they_are() -> None:
    """A registry sends many such headers: each would take seconds."""
    many = [f"Bearer{' ' * MAX_HEADER}", " " * MAX_HEADER, f"Bearer a{' ' * MAX_HEADER}"] * 300
    assert {one.scheme for one in parse(many)} <= {"bearer", "a"}
