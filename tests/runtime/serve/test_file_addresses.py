"""Signed addresses of files, as the server makes them: the door that checks them takes just these."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b import sandbox_access
from holdfast.runtime.e2b.sandbox_access import FileSignature, SandboxTokens, signature
from holdfast.runtime.serve.file_addresses import DOOR, address

TOKENS = SandboxTokens("secret")
ONE, TWO = "a" * 12, "b" * 12


def asked(url: str, method: str = "GET") -> FileSignature:
    found = signature({"method": method, "path": "/files", "query_string": urlsplit(url).query.encode()})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("base", "host"),
    [
        ("http://localhost:8420", "localhost:8420"),
        ("http://127.0.0.1:8420", "localhost:8420"),
        ("http://[::1]:8420", "localhost:8420"),
        ("https://box.example", "box.example"),
    ],
)
@pytest.mark.parametrize(("operation", "method"), [("read", "GET"), ("write", "POST")])
def test_an_address_opens_one_file_of_one_session_in_one_way(
    base: str, host: str, operation: str, method: str
) -> None:
    """The door takes it for this session and operation, and for nothing else."""
    url = address(TOKENS.signature, base, ONE, "/srv/a b&c=\u00fc", operation, "ann", 1000)
    scheme = base.partition(":")[0]
    assert url.startswith(f"{scheme}://{DOOR}-{ONE}.{host}/files?")
    name = sandbox_access.named({b"host": urlsplit(url).netloc.encode()})
    assert name is not None
    assert (name.sandbox, name.own) == (ONE, True)
    found = asked(url, method)
    assert (found.path, found.user, found.expiration) == ("/srv/a b&c=\u00fc", "ann", 1000)
    assert TOKENS.signed(ONE, found)
    assert not TOKENS.signed(TWO, found)
    assert not TOKENS.signed(ONE, asked(url, "POST" if method == "GET" else "GET"))
    assert (found.expired(1000), found.expired(1001)) == (False, True)
    for altered in ("path=%2Fetc%2Fshadow&", "username=root&", "signature_expiration=9999999999&"):
        key = altered.partition("=")[0]
        kept = [each for each in urlsplit(url).query.split("&") if not each.startswith(f"{key}=")]
        assert not TOKENS.signed(ONE, asked("http://h/files?" + altered + "&".join(kept), method))


@pytest.mark.parametrize("path", ["relative", "", "/a/../b", "/a/./b", "/a//b", "//a", "/a/", "~", "/.."])
def test_only_a_path_that_can_mean_one_file_is_signed(path: str) -> None:
    """The holder cannot choose how a directory or a home would change its meaning."""
    with pytest.raises(InvalidArgument, match="the path must be absolute"):
        address(TOKENS.signature, "http://localhost", ONE, path, "read", None, 1)
