"""The layer with the guest, as an image's own folder /opt has it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from holdfast.errors import ImageError
from holdfast.runtime.lifecycle.portable_layer import PortableLayer, take


def archive(*names: str, data: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name in names:
            member = tarfile.TarInfo(name.rstrip("/"))
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.mode, member.mtime = 0o755, 1_700_000_000.25
            member.size = 0 if name.endswith("/") else len(data)
            made.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


LAYER = archive("opt/", "opt/holdfast/", "opt/holdfast/a", "opt/holdfast/b/", data=b"contents")


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    path = tmp_path / "layer"
    path.write_bytes(LAYER)
    return path


def members(made: PortableLayer) -> dict[str, tarfile.TarInfo]:
    data = b"".join(made.read())
    assert len(data) == made.size
    assert made.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        file = opened.extractfile("opt/holdfast/a")
        assert file
        assert file.read() == b"contents"
        return {each.name: each for each in opened}


def test_the_folder_above_is_as_the_image_has_it(layer: Path) -> None:
    """But every user passes through it. What the image has in the guest's place is hidden."""
    above = tarfile.TarInfo("opt")
    above.type, above.mode, above.uid, above.gid = tarfile.DIRTYPE, 0o700, 12, 34
    found = members(PortableLayer(layer, above))
    assert list(found) == [
        "opt",
        "opt/holdfast",
        "opt/holdfast/.wh..wh..opq",
        "opt/holdfast/a",
        "opt/holdfast/b",
    ]
    assert (found["opt"].mode, found["opt"].uid, found["opt"].gid) == (0o711, 12, 34)


def test_without_such_a_folder_it_is_a_usual_one(layer: Path) -> None:
    found = members(PortableLayer(layer, None))["opt"]
    assert (found.isdir(), found.mode, found.uid) == (True, 0o755, 0)


def test_a_link_in_its_place_is_refused(layer: Path) -> None:
    """What is below it would be somewhere else."""
    link = tarfile.TarInfo("opt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    with pytest.raises(ImageError, match="/opt is no folder there"):
        PortableLayer(layer, link)


def saved(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "saved"
    with tarfile.open(path, "w") as made:
        manifest = json.dumps([{"Layers": ["blobs/sha256/1"]}]).encode()
        for name, content in (("blobs/sha256/1", data), ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "compressed"])
def test_the_layer_is_taken_from_a_saved_image(tmp_path: Path, pack: type[bytes]) -> None:
    """Stores keep it compressed or not."""
    target = tmp_path / "taken"
    take(saved(tmp_path, pack(LAYER)), target, f"sha256:{hashlib.sha256(LAYER).hexdigest()}")
    assert target.read_bytes() == LAYER


def test_another_layer_is_not_taken(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    with pytest.raises(ImageError, match="another layer than its own"):
        take(saved(tmp_path, b"other"), target, f"sha256:{hashlib.sha256(LAYER).hexdigest()}")
    assert not target.exists()
