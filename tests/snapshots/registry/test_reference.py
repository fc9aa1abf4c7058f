"""References are read as Docker reads them."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument
from holdfast.snapshots.registry.reference import Reference

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag", "digest"),
    [
        ("debian", "docker.io", "library/debian", None, None),
        ("me/work:1", "docker.io", "me/work", "1", None),
        ("index.docker.io/me/work", "docker.io", "me/work", None, None),
        ("localhost/work", "localhost", "work", None, None),
        ("localhost:5000/a/b/c:T_1.x-y", "localhost:5000", "a/b/c", "T_1.x-y", None),
        ("ghcr.io/team/work-x__y.z", "ghcr.io", "team/work-x__y.z", None, None),
        (f"r.test/work:1@{DIGEST}", "r.test", "work", "1", DIGEST),
        (f"r.test:1/work@{DIGEST}", "r.test:1", "work", None, DIGEST),
        ("[::1]:5000/work:1", "[::1]:5000", "work", "1", None),
    ],
)
def test_parts(text: str, host: str, repository: str, tag: str | None, digest: str | None) -> None:
    """Host, repository, tag and digest are distinguished."""
    read = Reference.parse(text)
    assert (read.host, read.repository, read.tag, read.digest) == (host, repository, tag, digest)
    assert Reference.parse(str(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "r.test/",
        "r.test/Upper",
        "r.test/a//b",
        "r.test/../etc",
        "r.test/a:",
        "r.test/a:tag/b",
        "r.test/a:-x",
        "r.test/a@sha256:12",
        "r.test/a@",
        f"r.test/a@{DIGEST}x",
        "https://r.test/a",
        "user@r.test/a",
        "r.test:port/a",
        "r.test/a b",
        "r.test/a\n",
        f"r.test/{'a' * 256}",
        f"r.test/a:{'t' * 129}",
    ],
)
def test_invalid_values_are_refused(text: str) -> None:
    """An invalid reference is refused with an example of the form."""
    with pytest.raises(InvalidArgument) as raised:
        Reference.parse(text)
    assert "registry.example.com/team/work:failed" in raised.value.hint
    assert "\n" not in str(raised.value)


def test_requests_are_read() -> None:
    """The digest if there is one, else the tag, else `latest`; Docker Hub has its API elsewhere."""
    assert Reference.parse(f"r.test/a:1@{DIGEST}").wanted == DIGEST
    assert Reference.parse("r.test/a").wanted == "latest"
    assert str(Reference.parse("r.test/a").tagged()) == "r.test/a:latest"
    assert Reference.parse("debian").authority == "registry-1.docker.io"


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost:5000", True),
        ("127.0.0.1:1", True),
        ("127.8.0.1", True),
        ("[::1]:5", True),
        ("10.0.0.1:5000", False),
        ("localhost.evil.test", False),
        ("127.0.0.1.evil.test", False),
    ],
)
def test_local_addresses_are_recognized(host: str, own: bool) -> None:
    """Only addresses that cannot lead elsewhere count."""
    assert Reference.parse(f"{host}/a").is_loopback is own
