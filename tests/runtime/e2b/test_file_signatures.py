"""Signed addresses: what the door reads of one is what the paths behind it read."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.e2b.e2b_door import signature


def scope(query: str, method: str = "GET") -> dict[str, Any]:
    return {"method": method, "path": "/files", "query_string": query.encode()}


def test_what_a_signed_address_says() -> None:
    found = signature(scope("path=%2Ftmp%2Fa+b%C3%BC&username=ada&signature=v1_x%2By&signature_expiration=9"))
    assert found is not None
    assert (found.path, found.operation, found.user) == ("/tmp/a bü", "read", "ada")
    assert (found.signature, found.expiration) == ("v1_x+y", 9)
    assert found.expired(10)
    assert not found.expired(9)
    upload = signature(scope("signature=x", "POST"))
    assert upload is not None
    assert (upload.operation, upload.path, upload.user, upload.expired(1e12)) == ("write", "", "", False)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "path=a",
        "path=a&signature=x&path=b",
        "path=a&signature=x&path=",
        "username=&signature=x&username=ada",
        "signature=x&signature=y",
        "signature=x&signature_expiration=soon",
        "signature=x&signature_expiration=",
        "signature=x&signature_expiration=-1",
        "signature=x&signature_expiration=%D9%A1",
        "signature=x&signature_expiration=" + "9" * 13,
        "&".join(["signature=x"] * 5000),
    ],
)
def test_what_can_be_read_in_two_ways_is_no_signed_address(query: str) -> None:
    assert signature(scope(query)) is None
