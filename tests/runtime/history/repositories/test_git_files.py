"""Git's files, as Git writes them and as an enemy would."""

from __future__ import annotations

import os
import random
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from holdfast.runtime.history.repositories import git_files, work_tree
from holdfast.runtime.history.repositories.git_files import tree_of_commit
from holdfast.runtime.history.repositories.repository_state import (
    RepositoriesSeen,
    RepositoryState,
    changes,
    parse,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
COMMIT_git_objects = "aa" + "b" * 38
TREE = "0123456789abcdef0123456789abcdef01234567"
BODY = f"tree {TREE}\nauthor A <a@b> 1 +0000\n\nfirst\n".encode()
OFS_DELTA, REF_DELTA = 6, 7  # gitformat-pack(5)


def git(tree: Path, *words: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    named = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
    done = subprocess.run(
        ["git", *named, *words], cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with some commits, on branch `topic/one`."""
    git(tmp_path, "init", "-q", "-b", "topic/one")
    for name in ("a", "folder/b", "käse", "x" * 200, "eight888"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("a")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


@pytest.mark.parametrize("version", ["2", "3"])
def test_an_index_is_read_as_git_writes_it(tree: Path, version: str) -> None:
    """Every name, whatever its length, with the size and the time of its file."""
    if version == "3":  # what makes an index of version 3: an entry with an extended flag
        (tree / "later").write_text("later")
        git(tree, "add", "--intent-to-add", "later")
    data = (tree / ".git/index").read_bytes()
    assert data[7] == int(version)
    found = git_files.read_index(data)
    assert found is not None
    names = git(tree, "-c", "core.quotePath=off", "ls-files").splitlines()
    assert [each.path for each in found] == names
    for each in found:
        if each.path != "later":
            there = (tree / each.path).lstat()
            assert (each.size, each.mtime) == (there.st_size, int(there.st_mtime))


def test_files_that_are_left_out_on_purpose_do_not_count(tree: Path) -> None:
    """Because of a sparse checkout, or since they are assumed to be unchanged; nor do other repositories."""
    git(tree, "update-index", "--skip-worktree", "a")
    git(tree, "update-index", "--assume-unchanged", "folder/b")
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{COMMIT},module")
    found = git_files.read_index((tree / ".git/index").read_bytes())
    assert found is not None
    assert {each.path for each in found} == {"eight888", "käse", "link", "x" * 200}


def test_an_index_of_a_later_version_is_not_counted(tree: Path) -> None:
    git(tree, "update-index", "--index-version", "4")
    assert git_files.read_index((tree / ".git/index").read_bytes()) is None


def test_head_and_references_are_read_as_git_writes_them(tree: Path) -> None:
    commit = git(tree, "rev-parse", "HEAD")
    head = (tree / ".git/HEAD").read_bytes()
    assert git_files.read_head(head) == ("refs/heads/topic/one", None)
    assert git_files.read_commit((tree / ".git/refs/heads/topic/one").read_bytes()) == commit
    git(tree, "pack-refs", "--all")
    packed = (tree / ".git/packed-refs").read_bytes()
    assert git_files.find_packed(packed, "refs/heads/topic/one") == commit
    assert git_files.find_packed(packed, "refs/heads/topic") is None
    git(tree, "checkout", "-q", "--detach")
    assert git_files.read_head((tree / ".git/HEAD").read_bytes()) == (None, commit)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"ref: ../../../etc/passwd",
        b"ref: refs/../../../../etc/shadow",
        b"ref: /etc/passwd",
        b"ref: refs/heads/a\nref: refs/heads/b",
        b"ref: refs/heads/\x1b]0;x\x07",
        b"ref: refs/heads/" + b"a" * 100_000,
        b"\xff" * 40,
        COMMIT.encode().upper(),
        COMMIT.encode() + b"0",
        b"\0" * 5000,
    ],
)
def test_a_hostile_head_names_nothing(head: bytes) -> None:
    """Neither a path out of the repository, nor what a terminal would obey."""
    assert git_files.read_head(head) == (None, None)


def test_a_hostile_index_is_read_within_bounds(tree: Path) -> None:
    """Cut anywhere, with any byte altered, with counts and names that lie: a list, or nothing."""
    data = (tree / ".git/index").read_bytes()
    dice = random.Random(7)
    for cut in range(0, len(data), 7):
        git_files.read_index(data[:cut])
    for _ in range(2000):
        altered = bytearray(data)
        for _ in range(dice.randrange(1, 4)):
            altered[dice.randrange(len(altered))] = dice.randrange(256)
        for entry in git_files.read_index(bytes(altered)) or []:
            assert not entry.path.startswith("/")
            assert ".." not in entry.path.split("/")
    assert git_files.read_index(data[:8] + b"\xff\xff\xff\xff" + data[12:]) is None
    assert git_files.read_index(b"DIRC" + bytes(20 << 20)) is None
    out = data.replace(b"folder/b\0", b"../../et\0")
    assert {each.path for each in git_files.read_index(out) or []}.isdisjoint({"../../et"})


@pytest.mark.parametrize("data", [b"", b"gitdir:", b"gitdir: a\0b", b"/etc", b"gitdir: " + b"a" * 10_000])
def test_a_hostile_pointer_leads_nowhere(data: bytes) -> None:
    assert git_files.read_gitdir(data) is None


def test_changes_are_named_in_one_line() -> None:
    """Of branch, commit and files; a repository that came or went; nothing that is as it was."""
    one = RepositoryState("/a", "main", "1" * 40, 0)
    found = changes(
        [one, RepositoryState("/b", "main", "2" * 40, 1), RepositoryState("/gone", None, "3" * 40)],
        [one, RepositoryState("/b", "topic", "4" * 40, 3), RepositoryState("/new", "main\x1b[2J", None)],
    )
    assert [each.text for each in found] == [
        "git /b: main 22222222 -> topic 44444444, files changed since the index: 1 -> 3",
        "git /gone: - no branch 33333333",
        "git /new: + main[2J no commit",
    ]
    only = changes([one], [RepositoryState("/a", "main", "1" * 40, None)])
    assert [each.text for each in only] == ["git /a: files changed since the index: 0 -> not counted"]


def test_recordings_are_read_without_trust() -> None:
    kept = RepositoriesSeen("/srv", (RepositoryState("/a", "main", COMMIT, 2),))
    assert parse(kept.as_dict()) == kept
    invalid: list[object] = [None, [], {"found": []}, {"place": 1}]
    for each in invalid:
        assert parse(each) is None
    rows = [1, {}, {"path": 2}, {"path": "/x", "branch": 1, "commit": [], "dirty": "3"}]
    assert parse({"place": "/", "found": rows}) == RepositoriesSeen("/", (RepositoryState("/x"),))
    many = parse({"place": "/", "found": [{"path": str(n)} for n in range(100)]})
    assert many is not None
    assert len(many.found) == 20


def index(*, offset: int = 12, far: bytes = b"", fan: Callable[[int], int] | None = None) -> bytes:
    """Return the index of a pack with one object; `far` is its table of large offsets."""
    digest = bytes.fromhex(COMMIT_git_objects)
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
    """Loose and packed, also where the commit is a difference from a previous object: then it can be
    unknown."""
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


def test_local_writes_are_read(tmp_path: Path) -> None:
    """So that the attacks below differ in nothing but what they try."""
    assert tree_of_commit(
        packed(tmp_path / "a", index(), pack(1, BODY)), COMMIT_git_objects
    ) == bytes.fromhex(TREE)
    far = (12).to_bytes(8, "big")
    large = packed(tmp_path / "b", index(offset=1 << 31, far=far), pack(1, BODY))
    assert tree_of_commit(large, COMMIT_git_objects) == bytes.fromhex(TREE)
    loose = written(
        tmp_path / "c",
        {f"{COMMIT_git_objects[:2]}/{COMMIT_git_objects[2:]}": zlib.compress(b"commit 9\0" + BODY)},
    )
    assert tree_of_commit(loose, COMMIT_git_objects) == bytes.fromhex(TREE)


PACKS = {
    "a difference from itself": (index(), pack(OFS_DELTA, BODY, base=b"\0")),
    "a difference from an object that is itself": (
        index(),
        pack(REF_DELTA, BODY, base=bytes.fromhex(COMMIT_git_objects)),
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
    assert tree_of_commit(packed(tmp_path, *PACKS[kind]), COMMIT_git_objects) is None


def test_a_bomb_costs_nothing(tmp_path: Path) -> None:
    """A commit of a gigabyte, loose and packed, in a megabyte."""
    packer = zlib.compressobj(9)
    pieces = [
        packer.compress(b"commit 1\0" + BODY[:5] + b"0" * 40),
        *(packer.compress(bytes(1 << 20)) for _ in range(256)),
    ]
    bomb = b"".join([*pieces, packer.flush()])
    common = written(tmp_path, {f"{COMMIT_git_objects[:2]}/{COMMIT_git_objects[2:]}": bomb})
    tracemalloc.start()
    try:
        assert tree_of_commit(common, COMMIT_git_objects) == bytes(20)
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
    names = {
        "loose": f"{COMMIT_git_objects[:2]}/{COMMIT_git_objects[2:]}",
        "p.idx": "pack/p.idx",
        "p.pack": "pack/p.pack",
    }

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
                assert tree_of_commit(common, COMMIT_git_objects) is None, (put.__name__, name)
    finally:
        for one in opened:
            os.close(one)


def test_a_file_is_read_no_further_than_it_was_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a program is still writing would otherwise be read for as long as it grows."""
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
    monkeypatch.setattr(git_files, "_MOST_PACKS", 3)
    packed(tmp_path, index(), pack(1, BODY))
    for name in "abc":
        (tmp_path / f"objects/pack/{name}.idx").write_bytes(b"")
    assert tree_of_commit(tmp_path, COMMIT_git_objects) is None
    (tmp_path / "objects/pack/c.idx").unlink()
    assert tree_of_commit(tmp_path, COMMIT_git_objects) == bytes.fromhex(TREE)
