"""Bodies of uploads and downloads: packed or not, and in pieces of a useful size."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b.filesystem import upload_bodies
from holdfast.runtime.e2b.filesystem.download_bodies import is_packed, packed
from holdfast.runtime.e2b.filesystem.upload_bodies import PIECE, gathered
from holdfast.runtime.serve.call_threads import CallThreads


@pytest.mark.parametrize(
    ("accepted", "answer"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP;q=0.5", True),
        ("gzip, deflate, br", False),
        ("identity, gzip", False),
        ("gzip, identity;q=0", True),
        ("gzip;q=0", False),
        ("*", False),
        ("*;q=0, gzip", True),
        ("br", False),
        ("nonsense;;;", False),
        ("," * 100_000, False),
    ],
)
def test_only_who_wants_nothing_else_gets_gzip(accepted: str, answer: bool) -> None:
    assert is_packed(accepted) is answer


@pytest.mark.parametrize("accepted", ["identity;q=0", "*;q=0", "br, identity;q=0", "gzip;q=0, identity;q=0"])
def test_who_takes_neither_is_refused(accepted: str) -> None:
    with pytest.raises(HTTPException) as refusal:
        is_packed(accepted)
    assert refusal.value.status_code == 406


@pytest.mark.parametrize("parts", [[], [b""], [b"a", b"b" * 100_000]])
def test_what_is_packed_can_be_unpacked(parts: list[bytes]) -> None:
    async def content() -> AsyncIterator[bytes]:
        for each in parts:
            yield each

    async def all_of_it() -> bytes:
        return b"".join([each async for each in packed(content(), CallThreads(2))])

    assert gzip.decompress(asyncio.run(all_of_it())) == b"".join(parts)


def test_a_small_body_that_unpacks_to_much_comes_in_pieces() -> None:
    bomb = gzip.compress(bytes(40 << 20))
    sizes = [len(each) for each in upload_bodies._unpacked(io.BytesIO(bomb))]
    assert sum(sizes) == 40 << 20
    assert max(sizes) <= PIECE


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"x" * 1000)[:-3], gzip.compress(b"x")[:5]],
    ids=["another form", "cut at its end", "cut at its beginning"],
)
def test_what_cannot_be_unpacked_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match=r"^cannot unpack"):
        list(upload_bodies._unpacked(io.BytesIO(body)))


def test_small_pieces_are_gathered() -> None:
    sizes = [len(each) for each in gathered(bytes(1000) for _ in range(5000))]
    assert sum(sizes) == 5_000_000
    assert len(sizes) <= 5
    assert list(gathered(iter([]))) == []
