"""The parsers of a project's files, which the host reads before a session is there."""

from __future__ import annotations

import hashlib
import json
import random
import re
import tempfile
import zlib
from pathlib import Path

from tests.parsers.parser_under_test import ParserUnderTest

from holdfast.errors import InvalidArgument
from holdfast.runtime.history.repositories import git_config, git_files, git_ignore, git_index
from holdfast.runtime.lifecycle import devcontainer, dockerfile_context

COMMIT = b"tree 0123456789abcdef0123456789abcdef01234567\nauthor A <a@b> 1 +0000\n\nfirst\n"
NAMES = (b"one", b"two/three", b"two/four", b"two/four more")


def _devcontainer(data: bytes, _: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".devcontainer.json").write_bytes(data)
        found = devcontainer.read(folder)
        for path in (found.context, found.file):
            assert path is None or path.is_relative_to(Path(folder).resolve())
        assert found.workspace.startswith("/")
        assert all("\0" not in name for name, words in found.commands for name in (name, *words))


def _dockerfile(data: bytes, _: random.Random) -> None:
    found = dockerfile_context.fetched_by(data.decode("utf-8", "replace"), {"A": "b"})
    assert all("$" not in name for name in found.images)
    if data in DOCKERFILES:
        assert found.images == {"python:3.13": None, "tools:1": None}


def index(version: int) -> bytes:
    """Return an index as Git writes it."""
    made, previous = b"", b""
    for name in NAMES:
        fixed = (
            bytes(24) + (0o100644).to_bytes(4, "big") + bytes(8) + (3).to_bytes(4, "big") + bytes(range(20))
        )
        flags = len(name).to_bytes(2, "big")
        if version == 4:
            made += fixed + flags + bytes([len(previous)]) + name + b"\0"
            previous = name
        else:
            entry = fixed + flags + name
            made += entry + bytes(8 - len(entry) % 8)
    head = b"DIRC" + version.to_bytes(4, "big") + len(NAMES).to_bytes(4, "big")
    return head + made + b"TREE\0\0\0\4abcd" + hashlib.sha1(head + made, usedforsecurity=False).digest()


def _index(data: bytes, _: random.Random) -> None:
    found = git_index.entries(data, 10_000)
    for entry in found or ():
        assert ".." not in entry.path.split("/")
        assert not entry.path.startswith("/")
    if found:
        git_index.tree_of(found)
    git_files.read_index(data)


def _loose(data: bytes, _: random.Random) -> None:
    """A free-standing object."""
    _tree({"aa/" + "b" * 38: data}, "aa" + "b" * 38)


def _packed(data: bytes, _: random.Random) -> None:
    """The index of a pack, its length before it, and the pack."""
    size = int.from_bytes(data[:4], "big") % (len(data) + 1)
    _tree({"pack/p.idx": data[4 : 4 + size], "pack/p.pack": data[4 + size :]}, "aa" + "b" * 38)


def _tree(files: dict[str, bytes], commit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, "objects", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        found = git_files.tree_of_commit(Path(folder), commit)
        assert found is None or len(found) in (0, 20)


def pack() -> bytes:
    """Return the index of a pack with one commit, and the pack."""
    body = zlib.compress(COMMIT)
    packed = b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big")
    size = len(COMMIT)
    place = len(packed)
    packed += bytes([0x80 | 1 << 4 | size & 15, size >> 4]) + body
    digest = bytes.fromhex("aa" + "b" * 38)
    fan = b"".join((1 if n >= digest[0] else 0).to_bytes(4, "big") for n in range(256))
    made = b"\xfftOc\0\0\0\2" + fan + digest + bytes(4) + place.to_bytes(4, "big") + bytes(40)
    return len(made).to_bytes(4, "big") + made + packed


def _texts(data: bytes, _: random.Random) -> None:
    """HEAD, a reference, a `.git` that is a file, and packed-refs."""
    reference, commit = git_files.read_head(data)
    assert reference is None or (reference.startswith("refs/") and ".." not in reference)
    git_files.read_commit(data)
    git_files.read_gitdir(data)
    git_files.find_packed(data, reference or "refs/heads/main")
    assert commit is None or len(commit) in (40, 64)


def _config(data: bytes, _: random.Random) -> None:
    left = git_config.harmless_bytes(data)
    for line in left.split(b"\n"):
        assert not re.match(rb"(?i)\s*(\[[^]\"]*\])?\s*(extraheader|helper|sshcommand|askpass)\s*=", line), (
            left
        )
    text = data.decode("utf-8", "surrogateescape")
    git_config.values(text, "core", "worktree")
    if data == CONFIG:
        assert b"SECRET" not in left
        assert git_config.values(text, "core", "filemode") == ["false"]


def _ignored(data: bytes, _: random.Random) -> None:
    found = git_ignore.Ignored(0, git_ignore.read(data))
    for name in (["a"], ["build", "x.o"], ["two", "four", "caf\xe9"], ["x" * 200]):
        found.ignores(name, folder=False)


DOCKERFILES = (
    b"# syntax=docker/dockerfile:1\nARG V=3.13\nFROM python:${V:-3.12} AS base\nRUN <<EOF\nmake\nEOF\n"
    b'COPY --from=tools:1 /a /b\nADD ["a", "b"]\nRUN --mount=type=bind,from=base,target=/x ls \\\n -l\n'
    b"ONBUILD RUN x\n",
)
CONFIG = (
    b'[core]\n\tfilemode = false # none\n\tworktree = "../a b"\n[http "https://x/"]\n\textraheader = SECRET\n'
    b"[remote]\n\turl = https://u:SECRET@example.com/a\n[credential] helper = !SECRET\n"
)
_DEVCONTAINER = {
    "image": "python:3.13",
    "containerEnv": {"A": "${localWorkspaceFolder}/x", "B": "${localEnv:HOME:none}"},
    "remoteUser": "root",
    "workspaceFolder": "/workspaces/a",
    "postCreateCommand": {"one": "make", "two": ["a", "b"]},
    "customizations": {},
}
_BUILT = {"build": {"dockerfile": "Dockerfile", "context": ".", "args": {"A": "b"}, "target": "x"}}

PARSERS = (
    ParserUnderTest(
        "devcontainer.json",
        (
            json.dumps(_DEVCONTAINER).encode(),
            json.dumps(_BUILT).encode(),
            b'// a comment\n{"image": /* x */ "a//b", "onCreateCommand": ["a",],}\n',
        ),
        _devcontainer,
        (InvalidArgument,),
        (
            b"/*",
            b"*/",
            b"//",
            b",}",
            b",]",
            b'\\"',
            b"${localEnv:",
            b"${",
            b":",
            b'"features":',
            b"../",
            b"\xef\xbb\xbf",
        ),
        devcontainer.LONGEST,
    ),
    ParserUnderTest(
        "Dockerfiles",
        DOCKERFILES,
        _dockerfile,
        (),
        (
            *(
                b"\nADD ",
                b"\nRUN ",
                b"\nFROM ",
                b"\nARG ",
                b"ONBUILD ",
                b"<<EOF",
                b"<<-'E'",
                b"\\\n",
                b"# escape=`\n",
            ),
            *(
                b"${A:-",
                b"${A:+",
                b"$A",
                b"--from=",
                b"--mount=from=",
                b'["',
                b"http://x",
                b"a@b:",
                b"AS ",
                b"#\n",
            ),
        ),
        dockerfile_context.LONGEST,
    ),
    ParserUnderTest(
        "an index of Git",
        (index(2), index(3), index(4)),
        _index,
        (),
        (b"../", b"/.git/", b"link\0\0\0\0", b"\x40\0", b"\xff\xff\xff\xff", b"\x80" * 9),
    ),
    ParserUnderTest(
        "a loose object of Git", (zlib.compress(b"commit 9\0" + COMMIT),), _loose, (), (b"x\x9c",), 1 << 16
    ),
    ParserUnderTest("a pack of Git", (pack(),), _packed, (), (b"\xfftOc\0\0\0\2", b"\x9f", b"\x80"), 1 << 16),
    ParserUnderTest(
        "references of Git",
        (
            b"ref: refs/heads/main\n",
            b"0123456789" * 4,
            b"gitdir: ../x\n",
            b"0123456789" * 4 + b" refs/heads/main\n",
        ),
        _texts,
        (),
        (b"ref: ", b"refs/", b"..", b"//", b"\n", b"gitdir:", b"^"),
    ),
    ParserUnderTest(
        "configurations of Git",
        (CONFIG,),
        _config,
        (),
        (
            b"[",
            b"]",
            b'"',
            b'\\"',
            b"\\\n",
            b"#",
            b";",
            b" = ",
            b"helper",
            b"url = https://a:b@",
            b"\x0b",
            b"\xc2\x85",
        ),
        git_config.LONGEST,
    ),
    ParserUnderTest(
        "patterns of Git",
        (b"*.o\n/build/\n!keep\n**/x/**\n[a-z]?\\ \n[[:alpha:]]\n",),
        _ignored,
        (),
        (b"**/", b"*", b"[", b"[!", b"[[:", b":]", b"\\", b"!", b"?", b" ", b"[z-a]", b"*a"),
    ),
)
