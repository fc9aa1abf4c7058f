"""A bundle as one file, on a disk and through a pipe: its bytes, its limits, and hostile archives."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BundleRefused, StoreError
from holdfast.snapshots.bundle import form, media, oci_layout, sealing
from holdfast.snapshots.bundle.endpoints import BlobDescriptor, BundleDestination
from holdfast.snapshots.bundle.oci_layout import FileDestination, FileOrigin, PipeDestination, PipeOrigin

LARGE = os.urandom(1 << 20)
BLOB = form.described("application/octet-stream", LARGE)


def _write(path: Path, *blobs: bytes, index: bytes = b'{"manifests":[]}') -> list[BlobDescriptor]:
    found = [form.described("application/octet-stream", data) for data in blobs]
    with FileDestination(path, "name") as destination:
        for each, data in zip(found, blobs, strict=True):
            assert not destination.has(each)
            destination.put(each, io.BytesIO(data))
            assert destination.has(each)
        assert destination.finish(index) == str(path)
    return found


def _forged(path: Path, **members: bytes) -> FileOrigin:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return FileOrigin(path)


def test_the_same_bundle_is_the_same_file(tmp_path: Path) -> None:
    """No times, no owners, no order of its own."""
    for name in ("one.tar", "two.tar"):
        _write(tmp_path / name, b"hello", b"world")

    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_a_bundle_is_an_image_layout_that_old_engines_load(tmp_path: Path) -> None:
    """oci-layout, index.json and blobs; manifest.json has config and layers for engines before Docker 25."""
    config = form.described(media.IMAGE_CONFIG, b"{}")
    layer = form.described(media.LAYER_GZIP, b"layer")
    manifest = form.image_manifest(config, [layer])
    path = tmp_path / "image.tar"
    with FileDestination(path) as destination:
        destination.put(layer, io.BytesIO(b"layer"))
        destination.put(config, io.BytesIO(b"{}"))
        destination.put(form.described(media.MANIFEST, manifest), io.BytesIO(manifest))
        destination.finish(b"{}")

    with tarfile.open(path) as archive:
        names = archive.getnames()
        file = archive.extractfile("manifest.json")
        assert file is not None
        old = json.load(file)
    assert {"oci-layout", "index.json", f"blobs/sha256/{layer.hex}"} <= set(names)
    assert old == [
        {"Config": f"blobs/sha256/{config.hex}", "RepoTags": None, "Layers": [f"blobs/sha256/{layer.hex}"]}
    ]


def test_an_unfinished_bundle_leaves_no_file(tmp_path: Path) -> None:
    """And what was there before is as it was."""
    path = tmp_path / "bundle.tar"
    path.write_bytes(b"before")

    with FileDestination(path) as destination:
        destination.put(form.described("", b"data"), io.BytesIO(b"data"))

    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["bundle.tar"]


def test_a_place_that_knows_no_nameless_files_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems, for example."""
    real = os.open

    def refusing(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return real(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", refusing)
    _write(tmp_path / "bundle.tar", b"hello")
    with FileDestination(tmp_path / "other.tar"):
        pass

    assert [each.name for each in tmp_path.iterdir()] == ["bundle.tar"]


def test_an_unusable_path_is_reported(tmp_path: Path) -> None:
    """For writing and for reading."""
    with pytest.raises(StoreError, match="cannot write"), FileDestination(tmp_path / "none" / "x.tar"):
        pass
    with pytest.raises(StoreError, match="cannot read"), FileOrigin(tmp_path / "none.tar"):
        pass


def test_an_invalid_or_truncated_archive_is_refused(tmp_path: Path) -> None:
    """Whatever it is."""
    _write(tmp_path / "whole.tar", os.urandom(100_000))
    whole = (tmp_path / "whole.tar").read_bytes()

    for number, data in enumerate((b"", b"no archive at all" * 100, whole[:50_000])):
        path = tmp_path / f"{number}.tar"
        path.write_bytes(data)
        with pytest.raises(BundleRefused), FileOrigin(path) as origin:
            origin.index()


def test_an_index_that_differs_from_index_json_is_refused(tmp_path: Path) -> None:
    """Several, of the wrong kind, too large, changed, or none."""
    index = form.described(media.INDEX, b'{"manifests":[]}').as_dict()
    for number, (manifests, why) in enumerate(
        (
            ([], "does not hold exactly one snapshot"),
            ([index, index], "does not hold exactly one snapshot"),
            ([index | {"mediaType": media.MANIFEST}], "does not hold exactly one snapshot"),
            ([index | {"size": form.MAX_INDEX + 1}], "its index is too large"),
            ([index], "does not match its digest"),
            ([index | {"digest": "sha256:../../../etc/passwd"}], "is not valid"),
        )
    ):
        origin = _forged(
            tmp_path / f"{number}.tar",
            **{
                "index.json": json.dumps({"manifests": manifests}).encode(),
                f"blobs__sha256__{index['digest'][7:]}": b'{"manifests":[1]}',
            },
        )
        with pytest.raises(BundleRefused, match=why), origin:
            origin.index()


def test_no_more_is_read_than_a_bundle_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index.json that is valid and long, none at all, and members without end."""
    text = b'{"manifests":[]}'.ljust(form.MAX_INDEX + 1)
    with (
        pytest.raises(BundleRefused, match=r"its index\.json is too large"),
        _forged(tmp_path / "long.tar", **{"index.json": text}) as long,
    ):
        long.index()
    with (
        pytest.raises(BundleRefused, match=r"does not contain an index\.json"),
        _forged(tmp_path / "no.tar") as none,
    ):
        none.index()
    monkeypatch.setattr(oci_layout, "MAX_MEMBERS", 3)
    _forged(tmp_path / "some.tar", **dict.fromkeys("abcd", b"")).__enter__()
    with pytest.raises(BundleRefused, match="too many members"):
        _forged(tmp_path / "many.tar", **dict.fromkeys("abcde", b"")).__enter__()


def test_an_index_has_one_image_and_one_snapshot_both_manifests() -> None:
    image = form.described(media.MANIFEST, b"image").as_dict()
    taken = form.described(media.MANIFEST, b"taken").as_dict() | {"artifactType": media.SNAPSHOT}

    def parsed(*manifests: dict[str, Any]) -> form.BundleIndex:
        return form.parse(form.BundleIndex, json.dumps({"manifests": manifests}).encode(), "it")

    assert [one.digest for one in form.both(parsed(image, taken))] == [image["digest"], taken["digest"]]
    for given in ((), (image,), (taken,), (image, image, taken), (image, taken, taken)):
        with pytest.raises(BundleRefused, match="not a Holdfast snapshot"):
            form.both(parsed(*given))
    for other in ((image | {"mediaType": media.INDEX}, taken), (image, taken | {"mediaType": media.INDEX})):
        with pytest.raises(BundleRefused, match="of an unknown kind"):
            form.both(parsed(*other))


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    """Other tools could believe the first one: on any level, in the index and in its targets."""
    good = form.described(media.INDEX, b"{}").as_dict()
    one = json.dumps(good)
    for number, index in enumerate(
        (
            f'{{"manifests": [], "manifests": [{one}]}}',
            f'{{"manifests": [{one[:-1]}, "digest": "{good["digest"]}"}}]}}',
            f'{{"annotations": {{"a": "1", "\\u0061": "2"}}, "manifests": [{one}]}}',
        )
    ):
        origin = _forged(tmp_path / f"{number}.tar", **{"index.json": index.encode()})
        with pytest.raises(BundleRefused, match="twice"), origin:
            origin.index()
    for model in (form.BundleIndex, form.ImageManifest, form.ImageConfig, form.BundleConfig):
        with pytest.raises(BundleRefused, match="it defines 'x' twice"):
            form.parse(model, b'{"a": [{"x": 1, "x": 1}]}', "it")
    with pytest.raises(BundleRefused, match="twice"):
        sealing.parse('{"cipher": "a", "cipher": "b"}')


def test_links_and_devices_in_the_archive_are_not_blobs(tmp_path: Path) -> None:
    """A member that only points somewhere is passed over: its content is missing."""
    found = form.described("", b"secret")
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo(f"blobs/sha256/{found.hex}")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)

    with FileOrigin(path) as origin, pytest.raises(BundleRefused, match="missing"):
        origin.open(found)


def test_a_header_that_claims_to_be_large_is_refused_unread(tmp_path: Path) -> None:
    """A sparse file of 2 GiB whose first header says it is a name: nothing of that size is read."""
    path = tmp_path / "huge.holdfast"
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2 << 30
    path.write_bytes(header.tobuf(tarfile.GNU_FORMAT))
    os.truncate(path, (2 << 30) + 4096)
    program = (
        "import sys, resource\n"
        "from pathlib import Path\n"
        "from holdfast.errors import BundleRefused\n"
        "from holdfast.snapshots.bundle.oci_layout import FileOrigin\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "try:\n"
        "    FileOrigin(Path(sys.argv[1])).__enter__()\n"
        "except BundleRefused as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "a header is too long" in said.stdout, said.stderr


def test_headers_in_headers_are_refused(tmp_path: Path) -> None:
    """tarfile reads a header that extends the next one by calling itself."""
    path = tmp_path / "deep.holdfast"
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1
    path.write_bytes((header.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")) * 5000)

    with pytest.raises(BundleRefused), FileOrigin(path):
        pass


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def _send(destination: BundleDestination) -> None:
    with destination:
        destination.put(BLOB, io.BytesIO(LARGE))
        destination.finish(b'{"manifests":[]}')


def test_more_than_a_pipe_holds_passes_through_it(pipe: tuple[int, int], tmp_path: Path) -> None:
    """It is read while it is written, and nothing can be seen in the folder."""

    def write() -> None:
        _send(PipeDestination(pipe[1], "name"))
        os.close(pipe[1])

    writer = threading.Thread(target=write)
    writer.start()
    with PipeOrigin(pipe[0], tmp_path) as origin:
        writer.join()
        assert origin.index() == b'{"manifests":[]}'
        with origin.open(BLOB, 1000) as stream:
            assert stream.read() == LARGE[1000:]
        assert not list(tmp_path.iterdir())


def test_the_archive_is_the_one_in_a_file(tmp_path: Path) -> None:
    """Either end can be a file: `cat` joins them."""
    _send(FileDestination(tmp_path / "file", "name"))
    with (tmp_path / "piped").open("wb") as stream:
        _send(PipeDestination(stream.fileno(), "name"))

    assert (tmp_path / "piped").read_bytes() == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("kept", [0, 700, 600_000, 1 << 20], ids=str)
def test_a_connection_that_ends_early_is_refused(kept: int, tmp_path: Path) -> None:
    """Wherever it ends, and nothing stays in the folder."""
    whole, cut, room = tmp_path / "whole", tmp_path / "cut", tmp_path / "room"
    room.mkdir()
    _send(FileDestination(whole))
    cut.write_bytes(whole.read_bytes()[:kept])

    with (
        cut.open("rb") as stream,
        pytest.raises(BundleRefused, match="cannot import the data from the pipe"),
        PipeOrigin(stream.fileno(), room) as origin,
    ):
        origin.index()
    assert not list(room.iterdir())


def test_a_reader_that_goes_away_is_one_clear_error(pipe: tuple[int, int]) -> None:
    """Not a signal, and no traceback."""
    os.close(pipe[0])
    with pytest.raises(StoreError, match="cannot write the bundle to a pipe: Broken pipe"):
        _send(PipeDestination(pipe[1]))


def test_a_folder_that_cannot_take_it_is_one_clear_error(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(StoreError, match="cannot read the bundle from a pipe: No such file"):
        PipeOrigin(0, tmp_path / "none").__enter__()


def test_a_pipe_without_end_does_not_fill_the_disk(
    pipe: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends while there is room for others, and the part that was read is removed."""
    monkeypatch.setattr(oci_layout, "LEAST_FREE", 1 << 60)
    os.write(pipe[1], b"x")
    with pytest.raises(StoreError, match="would stay free"):
        PipeOrigin(pipe[0], tmp_path).__enter__()
    assert not list(tmp_path.iterdir())
