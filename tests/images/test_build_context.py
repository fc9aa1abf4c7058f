"""A build context is named by its content and by nothing else."""

import io
import os
import tarfile
from pathlib import Path

from holdfast.images.build_context import BuildContext, ContextFile, tree

FILES = {
    "session/Dockerfile": ContextFile(b"FROM scratch\n"),
    "session/install": ContextFile(b"#!/bin/sh\n", executable=True),
}


def test_equal_files_have_equal_digest_and_bytes_in_any_order() -> None:
    """Neither the digest nor the archive depends on the order in which files were found."""
    one = BuildContext("session", FILES)
    other = BuildContext("session", dict(reversed(FILES.items())))

    assert one.digest == other.digest
    assert one.tar() == other.tar()


def test_digest_is_twelve_hex_digits() -> None:
    """The digest can be a tag."""
    digest = BuildContext("session", FILES).digest

    assert len(digest) == 12
    assert set(digest) <= set("0123456789abcdef")


def test_name_mode_bytes_and_kind_count() -> None:
    """Whatever could change the image changes the digest."""
    changed = [
        BuildContext("session", {**FILES, "session/install": ContextFile(b"#!/bin/sh\n")}),
        BuildContext("session", {**FILES, "session/install": ContextFile(b"#!/bin/bash\n", executable=True)}),
        BuildContext("session", {**FILES, "session/more": ContextFile(b"")}),
        BuildContext("session", {"session/Dockerfile": FILES["session/Dockerfile"]}),
        BuildContext("toolbox", FILES),
    ]
    digests = {context.digest for context in [BuildContext("session", FILES), *changed]}

    assert len(digests) == 1 + len(changed)


def test_archive_holds_the_files_and_their_modes() -> None:
    """The engine unpacks exactly the files of the archive."""
    with tarfile.open(fileobj=io.BytesIO(BuildContext("session", FILES).tar())) as archive:
        members = {member.name: member.mode for member in archive}
        content = archive.extractfile("session/Dockerfile")

        assert members == {"session/Dockerfile": 0o644, "session/install": 0o755}
        assert content is not None
        assert content.read() == b"FROM scratch\n"


def test_tree_leaves_out_the_leftovers_of_tools(tmp_path: Path) -> None:
    """Caches, hidden files and backups are not part of an image; file times do not matter."""
    (tmp_path / "__pycache__").mkdir()
    for name in ("a.py", "a.py~", ".a.py.swp", "__pycache__/a.cpython-313.pyc"):
        (tmp_path / name).write_bytes(b"x")
    before = dict(tree(tmp_path, "guest"))
    os.utime(tmp_path / "a.py", (1, 1))

    assert before == {"guest/a.py": ContextFile(b"x")} == dict(tree(tmp_path, "guest"))


def test_scripts_are_executable_whatever_their_mode(tmp_path: Path) -> None:
    """An archive or a checkout that loses modes makes the same image."""
    (tmp_path / "install").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "install").chmod(0o644)

    assert dict(tree(tmp_path, "session")) == {
        "session/install": ContextFile(b"#!/bin/sh\n", executable=True)
    }
