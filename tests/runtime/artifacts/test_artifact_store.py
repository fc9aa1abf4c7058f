"""Artifacts of a home: their contents, the index, refusals, and the finds of gc."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.errors import ArtifactNotFound, InvalidArgument, StoreError
from holdfast.runtime.api.artifact_handles import HomeArtifacts
from holdfast.runtime.artifacts import artifact_store
from holdfast.runtime.artifacts.artifact_store import ArtifactStore
from holdfast.runtime.artifacts.kept_artifact import KeptArtifact

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def store(home: Home) -> ArtifactStore:
    return ArtifactStore(home)


def kept(store: ArtifactStore, name: str, data: bytes, session: str = "a" * 12) -> KeptArtifact:
    with store.registering():
        digest, size = store.receive([data[:1], data[1:]])
        made = KeptArtifact(
            name=name,
            session_id=session,
            session="work",
            path=f"/workspace/{name}",
            digest=digest,
            bytes=size,
            at=AT,
            by="agent",
            entry="#4",
        )
        store.keep(made)
    return made


def contents(home: Home) -> list[str]:
    return sorted(path.name for path in (home.root / "artifacts" / "content").iterdir())


def test_an_artifact_is_found_by_its_name(store: ArtifactStore, home: Home) -> None:
    """By another process too: all is in the files."""
    made = kept(store, "dist/a.whl", b"wheel")
    again = ArtifactStore(home)
    assert again.find("dist/a.whl") == made
    assert b"".join(again.content(made)) == b"wheel"
    assert contents(home) == [hashlib.sha256(b"wheel").hexdigest()]
    assert again.listed("other") == []
    assert again.listed("work") == again.listed("a" * 12) == [made]


def test_a_name_of_several_sessions_needs_one(store: ArtifactStore) -> None:
    kept(store, "log", b"1")
    second = kept(store, "log", b"2", "b" * 12)
    with pytest.raises(InvalidArgument, match="several sessions have one: work "):
        store.find("log")
    assert store.find("log", "b" * 12) == second
    with pytest.raises(ArtifactNotFound, match="cannot find artifact 'nothing'"):
        store.find("nothing")


def test_a_content_stays_while_any_artifact_has_it(store: ArtifactStore, home: Home) -> None:
    first, second = kept(store, "a", b"same"), kept(store, "b", b"same")
    store.remove(first)
    assert b"".join(store.content(second)) == b"same"
    store.remove(second)
    assert contents(home) == []
    assert store.listed() == []


def test_interrupted_and_replaced_transfers_are_garbage(store: ArtifactStore, home: Home) -> None:
    """But not while it is being registered."""
    kept(store, "a", b"old")
    new = kept(store, "a", b"new")
    (home.root / "artifacts" / "content" / ".cut.part").write_bytes(b"x")
    with store.registering():
        store.receive([b"not yet"])
        for path in store.unneeded():
            store.collect(path)
        assert len(store.unneeded()) == 3
    for path in store.unneeded():
        store.collect(path)
    assert contents(home) == [new.digest.removeprefix("sha256:")]


def test_limits_are_kept_while_it_is_read(
    store: ArtifactStore, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that never ends is refused when it is too large, and leaves nothing."""

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 100

    monkeypatch.setattr(artifact_store, "LARGEST", 1000)
    with pytest.raises(InvalidArgument, match="it has more than 1 kB"), store.registering():
        store.receive(endless())
    monkeypatch.setattr(artifact_store, "MOST_BYTES", 1500)
    kept(store, "a", b"y" * 900)
    with pytest.raises(InvalidArgument, match="all artifacts would take more than"):
        kept(store, "b", b"z" * 999)
    monkeypatch.setattr(artifact_store, "MOST_KEPT", 1)
    with pytest.raises(InvalidArgument, match="there are 1"):
        kept(store, "c", b"1")
    kept(store, "a", b"replaced")
    for path in store.unneeded():
        store.collect(path)
    assert len(contents(home)) == 1


def test_a_damaged_content_is_never_saved(store: ArtifactStore, home: Home, tmp_path: Path) -> None:
    made = kept(store, "a", b"good")
    (home.root / "artifacts" / "content" / made.digest.removeprefix("sha256:")).write_bytes(b"evil")
    with pytest.raises(StoreError, match="its content is damaged"):
        HomeArtifacts(home).save("a", tmp_path / "saved")
    assert not list(tmp_path.glob("*saved*"))


def test_a_damaged_index_is_reported(store: ArtifactStore, home: Home) -> None:
    made = kept(store, "a", b"good")
    path = home.root / "artifacts" / "index" / f"{made.key}.json"
    path.write_text(path.read_text().replace('"entry"', '"later_field"'))
    with pytest.raises(StoreError, match="damaged, or of a newer version"):
        store.listed()


def test_an_artifact_is_saved_as_a_file_or_into_a_folder(
    store: ArtifactStore, home: Home, tmp_path: Path
) -> None:
    """Its name cannot lead out of the folder."""
    kept(store, "../../dist/a.whl", b"wheel")
    artifacts = HomeArtifacts(home)
    folder = tmp_path / "to"
    folder.mkdir()
    assert artifacts.save("../../dist/a.whl", folder) == folder / "a.whl"
    assert artifacts.save("../../dist/a.whl", folder / "b") == folder / "b"
    assert [path.name for path in sorted(folder.iterdir())] == ["a.whl", "b"]
    kept(store, "..", b"x")
    with pytest.raises(InvalidArgument, match="it is a folder"):
        artifacts.save("..", folder)
    with pytest.raises(InvalidArgument, match="no such file or directory"):
        artifacts.save("..", tmp_path / "missing" / "x")
