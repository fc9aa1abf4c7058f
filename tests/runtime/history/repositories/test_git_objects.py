"""The tree of a commit is read of what Git wrote; of hostile objects and packs it is unknown."""

from __future__ import annotations

import os
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from holdfast.runtime.history.repositories import git_objects, work_tree
from holdfast.runtime.history.repositories.git_objects import tree_of_commit

COMMIT = "aa" + "b" * 38
TREE = "0123456789abcdef0123456789abcdef01234567"
BODY = f"tree {TREE}\nauthor A <a@b> 1 +0000\n\nfirst\n".encode()
OFS_DELTA, REF_DELTA = 6, 7  # gitformat-pack(5)


def index(*, offset: int = 12, far: bytes = b"", fan: Callable[[int], int] | None = None) -> bytes:
    """Return the index of a pack with one object; `far` is its table of large offsets."""
    digest = bytes.fromhex(COMMIT)
    counts = fan or (lambda number: int(number >= digest[0]))
    table = b"".join(counts(number).to_bytes(4, "big") for number in range(256))
    return b"\xfftOc\0\0\0\2" + table + digest + bytes(4) + offset.to_bytes(4, "big") + far + bytes(40)


def pack(kind: int, content: bytes, *, header: bytes | None = None, base: bytes = b"") -> bytes:
    size = len(content)
    head = header or bytes([0x80 | kind << 4 | size & 15, size >> 4 & 0x7F])
    return b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + head + base + zlib.compress(content)


def written(common: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = common / "objects" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return common


def packed(common: Path, idx: bytes, data: bytes) -> Path:
    return written(common, {"pack/p.idx": idx, "pack/p.pack": data})


def test_the_tree_is_the_one_that_git_names(tmp_path: Path) -> None:
    """Loose and packed, also where the commit is a difference from another: then it may be unknown."""
    run = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*run, "init", "-q"], check=True)
    for number in range(3):
        subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", f"{number}"], check=True)
    asked = [*run, "rev-parse", "HEAD", "HEAD^{tree}"]
    commit, tree = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
    assert tree_of_commit(tmp_path / ".git", commit) == bytes.fromhex(tree)
    subprocess.run([*run, "gc", "-q"], check=True)
    assert not (tmp_path / ".git/objects" / commit[:2]).exists()
    assert tree_of_commit(tmp_path / ".git", commit) in (bytes.fromhex(tree), None)


def test_what_is_made_here_is_read(tmp_path: Path) -> None:
    """So that the attacks below differ in nothing but what they try."""
    assert tree_of_commit(packed(tmp_path / "a", index(), pack(1, BODY)), COMMIT) == bytes.fromhex(TREE)
    far = (12).to_bytes(8, "big")
    large = packed(tmp_path / "b", index(offset=1 << 31, far=far), pack(1, BODY))
    assert tree_of_commit(large, COMMIT) == bytes.fromhex(TREE)
    loose = written(tmp_path / "c", {f"{COMMIT[:2]}/{COMMIT[2:]}": zlib.compress(b"commit 9\0" + BODY)})
    assert tree_of_commit(loose, COMMIT) == bytes.fromhex(TREE)


PACKS = {
    "a difference from itself": (index(), pack(OFS_DELTA, BODY, base=b"\0")),
    "a difference from an object that is itself": (
        index(),
        pack(REF_DELTA, BODY, base=bytes.fromhex(COMMIT)),
    ),
    "a difference from before the pack": (index(), pack(OFS_DELTA, BODY, base=b"\xff" * 9 + b"\x7f")),
    "a length without end": (index(), pack(1, BODY, header=b"\x9f" + b"\x80" * 5000)),
    "a kind that is none": (index(), pack(5, BODY)),
    "a place behind the end": (index(offset=0x7FFFFFFF), pack(1, BODY)),
    "a place that no file has": (index(offset=1 << 31, far=b"\xff" * 8), pack(1, BODY)),
    "a place below zero": (index(offset=1 << 31, far=b"\x80" + bytes(7)), pack(1, BODY)),
    "a large place that is missing": (index(offset=0xFFFFFFFF), pack(1, BODY)),
    "counts that are too large": (index(fan=lambda _: 0xFFFFFFFF), pack(1, BODY)),
    "counts that fall": (index(fan=lambda number: 255 - number), pack(1, BODY)),
    "an older version": (index()[8:], pack(1, BODY)),
    "an index that is cut": (index()[:1050], pack(1, BODY)),
    "an empty index": (b"", pack(1, BODY)),
    "an empty pack": (index(), b""),
    "data that is not compressed": (index(), pack(1, BODY)[:14] + BODY),
    "a tree of another length": (index(), pack(1, b"tree 0123\n" + BODY)),
    "a tree with blanks": (index(), pack(1, b"tree " + b"01 " * 13 + b"1\n")),
    "a tree in other digits": (index(), pack(1, b"tree " + "٠".encode() * 20 + b"\n")),
}


@pytest.mark.parametrize("kind", PACKS)
def test_a_hostile_pack_is_unknown(tmp_path: Path, kind: str) -> None:
    """No error leaves the reader, and no difference is followed."""
    assert tree_of_commit(packed(tmp_path, *PACKS[kind]), COMMIT) is None


def test_a_bomb_costs_nothing(tmp_path: Path) -> None:
    """A commit of a gigabyte, loose and packed, in a megabyte."""
    packer = zlib.compressobj(9)
    pieces = [
        packer.compress(b"commit 1\0" + BODY[:5] + b"0" * 40),
        *(packer.compress(bytes(1 << 20)) for _ in range(256)),
    ]
    bomb = b"".join([*pieces, packer.flush()])
    common = written(tmp_path, {f"{COMMIT[:2]}/{COMMIT[2:]}": bomb})
    tracemalloc.start()
    try:
        assert tree_of_commit(common, COMMIT) == bytes(20)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """Links, pipes that wait, folders and devices in the place of an object, an index or a pack."""
    outside = tmp_path / "outside"
    outside.mkdir()
    good = {"loose": zlib.compress(b"commit 9\0" + BODY), "p.idx": index(), "p.pack": pack(1, BODY)}
    for name, content in good.items():
        (outside / name).write_bytes(content)
    names = {"loose": f"{COMMIT[:2]}/{COMMIT[2:]}", "p.idx": "pack/p.idx", "p.pack": "pack/p.pack"}

    def linked(path: Path, name: str) -> None:
        path.symlink_to(outside / name)

    def piped(path: Path, _: str) -> None:
        os.mkfifo(path)
        opened.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # someone who writes, and does not

    def folder(path: Path, _: str) -> None:
        path.mkdir()

    opened: list[int] = []
    try:
        for number, put in enumerate((linked, piped, folder)):
            for name, place in names.items():
                common = tmp_path / f"{number}-{name}"
                rest = (
                    {}
                    if name == "loose"
                    else {one: good[key] for key, one in names.items() if key not in ("loose", name)}
                )
                path = written(common, rest) / "objects" / place
                path.parent.mkdir(parents=True, exist_ok=True)
                put(path, name)
                assert tree_of_commit(common, COMMIT) is None, (put.__name__, name)
    finally:
        for one in opened:
            os.close(one)


def test_a_file_is_read_no_further_than_it_was_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a program writes to meanwhile would otherwise be read for as long as it grows."""
    path = tmp_path / "growing"
    path.write_bytes(b"x" * 8)
    monkeypatch.setattr(work_tree, "_PIECE", 4)
    (known,) = work_tree._digests(path, 8, False, 20)
    opened = os.fdopen

    def growing(descriptor: int, mode: str) -> BinaryIO:
        path.write_bytes(b"x" * 80)
        return cast("BinaryIO", opened(descriptor, mode))

    monkeypatch.setattr(os, "fdopen", growing)
    assert work_tree._digests(path, 8, False, 20) == {known}
    assert path.stat().st_size == 80


def test_many_packs_are_not_all_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first by name count, however many there are."""
    monkeypatch.setattr(git_objects, "_MOST_PACKS", 3)
    packed(tmp_path, index(), pack(1, BODY))
    for name in "abc":
        (tmp_path / f"objects/pack/{name}.idx").write_bytes(b"")
    assert tree_of_commit(tmp_path, COMMIT) is None
    (tmp_path / "objects/pack/c.idx").unlink()
    assert tree_of_commit(tmp_path, COMMIT) == bytes.fromhex(TREE)
