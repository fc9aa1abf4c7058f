"""Bodies of uploads and downloads."""

from __future__ import annotations

import asyncio
import gzip
import io
import random
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.exceptions import HTTPException

from holdfast.errors import InvalidArgument
from holdfast.runtime.e2b import content_service
from holdfast.runtime.e2b.content_service import PIECE, boundary_of, files_in, gathered, is_packed, packed
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
def test_gzip_is_sent_only_to_clients_that_accept_nothing_else(accepted: str, answer: bool) -> None:
    assert is_packed(accepted) is answer


@pytest.mark.parametrize("accepted", ["identity;q=0", "*;q=0", "br, identity;q=0", "gzip;q=0, identity;q=0"])
def test_clients_that_take_neither_are_refused(accepted: str) -> None:
    with pytest.raises(HTTPException) as refusal:
        is_packed(accepted)
    assert refusal.value.status_code == 406


@pytest.mark.parametrize("parts", [[], [b""], [b"a", b"b" * 100_000]])
def test_packed_files_can_be_unpacked(parts: list[bytes]) -> None:
    async def content() -> AsyncIterator[bytes]:
        for each in parts:
            yield each

    async def all_of_it() -> bytes:
        return b"".join([each async for each in packed(content(), CallThreads(2))])

    assert gzip.decompress(asyncio.run(all_of_it())) == b"".join(parts)


def test_a_small_body_that_unpacks_to_much_comes_in_pieces() -> None:
    bomb = gzip.compress(bytes(40 << 20))
    sizes = [len(each) for each in content_service._unpacked(io.BytesIO(bomb))]
    assert sum(sizes) == 40 << 20
    assert max(sizes) <= PIECE


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"x" * 1000)[:-3], gzip.compress(b"x")[:5]],
    ids=["another form", "cut at its end", "cut at its beginning"],
)
def test_unpackable_entries_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match=r"^cannot unpack"):
        list(content_service._unpacked(io.BytesIO(body)))


def test_small_pieces_are_gathered() -> None:
    sizes = [len(each) for each in gathered(bytes(1000) for _ in range(5000))]
    assert sum(sizes) == 5_000_000
    assert len(sizes) <= 5
    assert list(gathered(iter([]))) == []


EDGE = b"edge"


def part(name: str, filename: str, content: bytes) -> bytes:
    head = f'--edge\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n\r\n'
    return head.encode() + content + b"\r\n"


def whole(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--edge--\r\n"


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


def read(body: bytes, size: int = 7) -> list[tuple[str, bytes]]:
    return [(each.filename, b"".join(each.content)) for each in files_in(pieces(body, size), EDGE)]


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1 << 20])
def test_files_are_the_same_however_they_arrive(size: int) -> None:
    hard = b"\r\n--edg\r\n-\r--edge\r\r\n--edgE--" + random.Random(size).randbytes(500)
    body = whole(part("file", "/tmp/ü b", hard), part("file", "empty", b""))
    assert read(body, size) == [("/tmp/ü b", hard), ("empty", b"")]


def test_other_fields_and_files_that_nobody_reads_are_passed_over() -> None:
    body = whole(part("other", "x", b"1"), part("file", "a", b"2" * 100), part("file", "b", b"3"))
    files = files_in(pieces(body, 5), EDGE)
    assert next(files).filename == "a"
    assert b"".join(next(files).content) == b"3"
    assert next(files, None) is None
    assert read(whole(part("other", "x", b"1"))) == []


def test_content_is_passed_on_before_the_body_is_whole() -> None:
    asked = 0

    def endless() -> Iterator[bytes]:
        nonlocal asked
        yield part("file", "a", b"")[:-2]
        while True:
            asked += 1
            yield b"x" * 1000

    content = next(files_in(endless(), EDGE)).content
    for _ in range(5):
        next(content)
    assert asked <= 6


@pytest.mark.parametrize("end", range(1, 60, 7))
def test_a_body_that_is_not_whole_is_refused(end: int) -> None:
    body = whole(part("file", "a", b"content"))
    with pytest.raises(InvalidArgument, match=r"^cannot read the files: the rest"):
        read(body[: -8 - end])


@pytest.mark.parametrize(
    "body",
    [
        b"no form at all",
        b'--edge\r\nContent-Disposition: form-data; name="file"; filename="\xff"\r\n\r\n1\r\n--edge--\r\n',
        b"--edge\r\nbad header\r\n\r\n--edge--\r\n",
        b"--edge\r\n" + b"x" * (1 << 20),
        b"--edge\r\n" + b"A: b\r\n" * 10_000,
    ],
)
def test_malformed_bodies_are_refused_in_a_sentence(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match=r"^cannot read the files: "):
        read(body, 1000)


def test_files_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_service, "MOST_FILES", 3)
    assert len(read(whole(*[part("file", "a", b"")] * 3))) == 3
    with pytest.raises(InvalidArgument, match="more than 3 files"):
        read(whole(*[part("file", "a", b"")] * 4))


def test_the_type_says_where_parts_end() -> None:
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
    assert boundary_of("application/octet-stream") is None
    assert boundary_of("") is None
    with pytest.raises(InvalidArgument, match="lacks a boundary"):
        boundary_of("multipart/form-data")
    with pytest.raises(InvalidArgument, match="cannot read the files"):
        next(files_in([b"x"], b"b" * 10_000))
