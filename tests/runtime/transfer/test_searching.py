"""Layers are searched once for each set of rules; memory is reported by process."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
from pathlib import Path

import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.runtime.scrubbing import known_values, rules_file
from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.transfer import searched_parts
from holdfast.runtime.transfer.searched_parts import SearchedLayers
from holdfast.snapshots.bundle.image_layers import Hashed
from holdfast.snapshots.record import RecordedProcess, RecordedTree, StateRecord

TOKEN = SECRETS["github token"][0]
FILES = {"etc/a": b"x" * 9000, "root/.netrc": b"x", "root/b": f"a {TOKEN}".encode()}


def _layer() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, data in {
            "etc/a": b"x" * 9000,
            "root/.netrc": b"x",
            "root/b": f"a {TOKEN}".encode(),
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return written.getvalue()


def _searched(tmp_path: Path, matcher: Matcher, besides: tuple[str, ...] = ()) -> SearchedLayers:
    return SearchedLayers(
        matcher, rules_file.paths(("~/.netrc",)), tmp_path / "cache" / "searched.json", besides
    )


def test_a_layer_passes_unchanged_and_is_known_from_then_on(tmp_path: Path) -> None:
    """With the paths of the findings; under other rules it is not known."""
    data = _layer()
    layer = Hashed([data[:700], data[700:9900], data[9900:]])
    matcher = Matcher(RULES, wide=True)

    assert b"".join(_searched(tmp_path, matcher).passing(layer)) == data

    again = _searched(tmp_path, matcher)
    assert {(one.rule, one.where) for one in again.found(layer.digest) or []} == {
        ("github token", "/root/b"),
        ("credential file", "/root/.netrc"),
    }
    assert again.missing([layer.digest, "sha256:other"]) == ["sha256:other"]
    assert _searched(tmp_path, Matcher(RULES[1:], wide=True)).missing([layer.digest]) == [layer.digest]


def test_a_path_that_is_a_secret_is_not_shown(tmp_path: Path) -> None:
    """A session names its files as it likes; programs name downloads by their address."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        member = tarfile.TarInfo(f"srv/{TOKEN}/\x1b[31mb")
        member.size = len(TOKEN)
        archive.addfile(member, io.BytesIO(TOKEN.encode()))
    layer = Hashed([written.getvalue()])
    searched = _searched(tmp_path, Matcher(RULES))
    searched.read(layer)

    [found] = searched.found(layer.digest) or []

    assert found.where == "/srv/[scrubbed: github token]/[31mb"
    assert found.count == 2
    assert TOKEN not in (tmp_path / "cache" / "searched.json").read_text()


def test_a_layer_of_our_own_image_is_not_searched(tmp_path: Path) -> None:
    """By its expected digest: a different layer under its name is refused everywhere."""
    data = _layer()
    searched = _searched(tmp_path, Matcher(RULES), ("sha256:ours",))

    assert b"".join(searched.passing(Hashed([data], "sha256:ours"))) == data
    assert searched.found("sha256:ours") == []
    assert not (tmp_path / "cache").exists()


def test_the_cache_contains_no_secret_and_no_rule(tmp_path: Path) -> None:
    """A known value is part of the rules; a reader of the file can at most guess slowly."""
    known = [*known_values.rules({"A": "hunter22-hunter22"}, ["A"]), *RULES]
    searched = _searched(tmp_path, Matcher(known))
    searched.read(Hashed([_layer()]))
    path = tmp_path / "cache" / "searched.json"

    text = path.read_text()
    assert TOKEN not in text
    assert "hunter22" not in text
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text", ["", "[]", '{"salt": 5}', '{"salt": "zz"}', json.dumps({"salt": "z" * 32}), "{"]
)
def test_a_damaged_record_counts_as_missing(tmp_path: Path, text: str) -> None:
    """All is searched again."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "searched.json").write_text(text)
    layer = Hashed([_layer()])

    searched = _searched(tmp_path, Matcher(RULES))
    searched.read(layer)

    assert _searched(tmp_path, Matcher(RULES)).found(layer.digest)


def test_invalid_entries_are_searched_again(tmp_path: Path) -> None:
    """Such as entries of a different version."""
    layer = Hashed([_layer()])
    searched = _searched(tmp_path, Matcher(RULES))
    searched.read(layer)
    path = tmp_path / "cache" / "searched.json"
    told = {key: value if key == "salt" else [["x"]] for key, value in json.loads(path.read_text()).items()}
    path.write_text(json.dumps(told))

    assert _searched(tmp_path, Matcher(RULES)).missing([layer.digest]) == [layer.digest]


def test_memory_is_reported_by_program_and_pid(tmp_path: Path) -> None:
    """According to CRIU's tables; a name that a program gave itself is made safe to show."""
    (tmp_path / "images").mkdir()
    names = ["images/pages-1.img", "images/pages-300.img", "images/pages-7.img", "images/pages-9.img"]
    for table, number in (
        ("pagemap-12", b"\x08\x01"),
        ("pagemap-13", b"\x08\xac\x02"),
        ("pagemap-shmem-5", b"\x08\x07"),
    ):
        message = struct.pack("<III", 1, 2, len(number)) + number
        (tmp_path / f"images/{table}.img").write_bytes(message + os.urandom(20))
        names.append(f"images/{table}.img")
    (tmp_path / "images/pagemap-14.img").write_bytes(b"\x08")
    names.append("images/pagemap-14.img")
    process = {"ppid": 1, "pgid": 1, "sid": 1, "state": "alive"}
    tree = RecordedTree(
        processes=[
            RecordedProcess.model_validate({"pid": 12, "name": "python3", **process}),
            RecordedProcess.model_validate({"pid": 13, "name": "a\x1b[31mb", **process}),
        ]
    )

    owned = searched_parts.memory_owners(tmp_path, names, StateRecord(tree=tree))

    assert searched_parts.memory_place("images/pages-1.img", owned) == (
        "memory of python3 (pid 12)",
        "memory",
    )
    assert searched_parts.memory_place("images/pages-300.img", owned) == (
        "memory of a[31mb (pid 13)",
        "memory",
    )
    assert searched_parts.memory_place("images/pages-7.img", owned) == ("shared memory of programs", "memory")
    assert searched_parts.memory_place("images/pages-9.img", owned) == ("memory of programs", "memory")
    assert searched_parts.memory_place("images/sk-queues.img", owned) == ("sockets", "images")
