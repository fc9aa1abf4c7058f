"""What a build begins with is read once, from the folder alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import ImageError
from holdfast.runtime.lifecycle import build_file, build_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "docker").mkdir(parents=True)
    (made / "docker" / "one").write_text("FROM a\n")
    (made / "Dockerfile").symlink_to("docker/one")
    return made


def test_what_was_read_is_what_is_built(folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text("# none\n  secret \n\n!x\n")
    found = build_source.read(folder, folder / "Dockerfile")
    assert (found.name, found.text, found.ignored) == ("docker/one", "FROM a\n", ("secret", "!x"))
    (folder / "docker" / "one").write_text("FROM b\n")
    assert found.written(tmp_path).read_text() == "FROM a\n"
    other = tmp_path / "other"
    other.write_text("FROM c\n")
    (tmp_path / "other.dockerignore").write_text("all\n")
    beside = build_source.read(folder, other)
    assert (beside.text, (tmp_path / "Dockerfile.dockerignore").exists()) == ("FROM c\n", False)
    beside.written(tmp_path)
    assert (tmp_path / "Dockerfile.dockerignore").read_text() == "all\n"


@pytest.mark.parametrize("name", ["Dockerfile", ".dockerignore"])
def test_no_file_leads_out_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    """Nor is one waited for, or read without end."""
    secret = tmp_path / "secret"
    secret.write_text("FROM secret\n")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(secret)
    with pytest.raises(ImageError, match=r"leads out of the folder|cannot be read"):
        build_source.read(folder, folder / "Dockerfile")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ImageError, match="is no regular file"):
        build_source.read(folder, folder / "Dockerfile")
    (folder / name).unlink()
    (folder / name).write_bytes(b"#" * (1 + max(build_file.LONGEST, 1 << 20)))
    with pytest.raises(ImageError, match="is longer than"):
        build_source.read(folder, folder / "Dockerfile")


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("debian:13", None), ("ada/app", None), ("localhost/app", "localhost"), ("a.b/c:1", "a.b"),
        ("127.0.0.1:5000/x@sha256:ab", "127.0.0.1"), ("[::1]:5000/x", "::1"), ("host:5000/x", "host"),
    ],
)  # fmt: skip
def test_the_registry_of_a_name(name: str, host: str | None) -> None:
    assert build_source.registry_host(name) == host
