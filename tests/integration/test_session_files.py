"""Files of real sessions: copied both ways, as a user, across captures, whatever is in the way."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    InvalidArgument,
    SessionFileDenied,
    SessionFileError,
    SessionFileNotFound,
)
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

ODD = os.fsdecode(b"no \xff utf-8\n")


@pytest.fixture
def place(shared: Session) -> str:
    """Return an empty folder of the session."""
    shared.exec("rm -rf /srv/files; mkdir /srv/files; cd /srv/files", timeout=60)
    return "/srv/files"


def _tree(folder: Path) -> Path:
    (folder / "tree" / "inner").mkdir(parents=True)
    (folder / "tree" / "inner" / "program").write_bytes(os.urandom(5 << 20))
    (folder / "tree" / "inner" / "program").chmod(0o750)
    (folder / "tree" / "link").symlink_to("inner/program")
    (folder / "tree" / ODD).write_text("odd")
    os.utime(folder / "tree" / ODD, ns=(10**18 + 1, 10**18 + 1))
    os.mkfifo(folder / "tree" / "fifo")
    return folder / "tree"


def _facts(folder: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        told = path.lstat()
        content: object = path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        mtime = told.st_mtime_ns if path.is_file() and not path.is_symlink() else 0
        if path.name != "fifo":
            found[str(path.relative_to(folder))] = (oct(told.st_mode), mtime, content)
    return found


def test_a_tree_comes_back_as_it_was(work: Session, place: str, tmp_path: Path) -> None:
    """Contents, modes, times, links and names of any bytes; entries that are not files are named."""
    tree = _tree(tmp_path)

    into = work.files.upload(tree, f"{place}/there")
    out = work.files.download("there", tmp_path / "back")

    assert list(into.left_out) == [str(tree / "fifo")]
    assert (into.files, into.folders, into.links, into.changed) == (2, 1, 1, [])
    assert out.as_dict() == into.as_dict() | {"left_out": {}}
    assert _facts(tmp_path / "back") == _facts(tree)
    assert work.exec("sha256sum < there/link", timeout=60).ok
    odd = ODD if isinstance(work, Session) else ODD.replace("\udcff", "\ufffd")  # JSON has no such texts
    assert [file.name for file in work.files.list("there")] == sorted(["inner", "link", odd])


def test_single_files_are_read_written_moved_and_removed(work: Session, place: str) -> None:
    files = work.files
    files.write("script", "#!/bin/sh\necho one\n", mode=0o755)
    files.write("script", "#!/bin/sh\necho two\n")
    assert work.exec("./script", timeout=60).text == "two\n"
    assert files.read("script", 2, 3) == b"/bi"
    assert files.stat("script").mode == 0o755
    files.make_folder("a/b/c", parents=True)
    files.move("script", "a/b/c/moved")
    work.exec("ln -s a/b/c/moved link", timeout=60)
    assert files.stat("link").kind == "file"
    link = files.stat("link", follow=False)
    assert (link.kind, link.target) == ("link", "a/b/c/moved")
    files.write("link", b"through the link")
    assert files.read(f"{place}/a/b/c/moved") == b"through the link"
    with pytest.raises(SessionFileError, match="not empty"):
        files.remove("a")
    files.remove("a", recursive=True)
    files.remove("a", recursive=True, missing_ok=True)
    assert [file.name for file in files.list()] == ["link"]
    told = [entry.details for entry in work.journal() if entry.kind == "files"]
    noted = [(details["what"], details["path"]) for details in told]
    assert noted[-3:] == [("wrote", "link"), ("removed", "a"), ("removed", "a")]


def test_reading_and_writing_fail_with_the_errors_of_open(work: Session, place: str) -> None:
    files = work.files
    work.exec("mkfifo fifo; mkdir folder; truncate -s 300M large", timeout=60)
    for path in ("fifo", "/dev/zero", "folder"):
        with pytest.raises(SessionFileError, match=r"^cannot read .*, not a file"):
            files.read(path)
        with pytest.raises(SessionFileError, match=r"^cannot write"):
            files.write(path, b"x")
    with pytest.raises(FileNotFoundError, match="no such file"):
        files.read("nothing")
    with pytest.raises(SessionFileNotFound):
        files.write("nothing/file", b"x")
    with pytest.raises(InvalidArgument, match="314572800 bytes"):
        files.read("large")
    with pytest.raises(InvalidArgument, match=r"^cannot .*\bpath\b"):
        files.stat("a\0b")
    with pytest.raises(InvalidArgument, match="no such user"):
        files.as_user("stranger").list()
    assert [file.name for file in files.list()] == ["fifo", "folder", "large"]


def test_a_user_has_the_users_rights(work: Session, place: str) -> None:
    """Its groups count, and files it writes belong to it."""
    work.exec("id -u ann || useradd -m -G daemon ann; chmod 711 .; mkdir -m 777 open", timeout=60)
    work.exec("echo x > secret; chmod 600 secret; echo y > grouped; chmod 640 grouped", timeout=60)
    work.exec("chgrp daemon grouped", timeout=60)
    ann = work.files.as_user("ann")

    assert ann.read(f"{place}/grouped") == b"y\n"
    for attempt in (lambda: ann.read("secret"), lambda: ann.write("new", b""), lambda: ann.list()):
        with pytest.raises(SessionFileDenied):
            attempt()
    ann.write("open/mine", b"")
    ann.write("~/home", b"")
    assert work.exec("stat -c %U open/mine ~ann/home", timeout=60).text == "ann\nann\n"
    assert work.files.read("secret") == b"x\n"


@pytest.mark.thorough
def test_a_copy_goes_on_across_captures(hf: Holdfast, tmp_path: Path) -> None:
    """Both ways, while snapshots are taken; and nothing of it is left in the session but the file."""
    session = hf.new("copied")
    source = tmp_path / "source"
    source.write_bytes(os.urandom(200 << 20))
    done = threading.Event()
    taken = []

    def capture() -> None:
        while not done.is_set():
            taken.append(session.snapshot())

    capturing = threading.Thread(target=capture)
    capturing.start()
    try:
        while len(taken) < 3:
            session.files.upload(source, "/srv/file")
            session.files.download("/srv/file", tmp_path / "back")
            assert (tmp_path / "back").read_bytes() == source.read_bytes()
    finally:
        done.set()
        capturing.join()
    assert [file.name for file in session.files.list("/srv")] == ["file"]
    copy = taken[-1].restore("copy")
    assert copy.files.stat("/srv").kind == "folder"


def test_tar_streams_go_both_ways(work: Session, place: str, tmp_path: Path) -> None:
    work.files.upload(_tree(tmp_path), "tree")
    stream = io.BytesIO()
    out = work.files.write_tar("tree", stream)
    stream.seek(0)
    into = work.files.read_tar(stream, "unpacked/here")

    assert (out.files, into.files, into.left_out) == (2, 2, {})
    told = work.exec("diff -r --no-dereference tree unpacked/here && stat -c %a unpacked/here/inner/program")
    assert told.text == "750\n"


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out"])
def test_a_tar_that_leads_out_is_refused(work: Session, place: str, name: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    stream.seek(0)
    with pytest.raises(InvalidArgument, match="leads out of the folder"):
        work.files.read_tar(stream, "to")
    with pytest.raises(InvalidArgument, match="not a complete tar"):
        work.files.read_tar(io.BytesIO(b"x" * 2000), "to")
    assert work.files.list("to") == []


def test_the_command_copies_as_cp_does(shared: Session, shared_cli: Any, place: str, tmp_path: Path) -> None:
    """Into a folder under its own name; folders with -r; every mistake is one line."""
    tree = _tree(tmp_path)
    name = shared.name
    assert "it is a folder" in shared_cli("cp", str(tree), f"{name}:").err
    made = shared_cli("cp", "-r", str(tree), f"{name}:", "--json")
    assert made.code == 0
    assert (made.json["files"], list(made.json["left_out"])) == (2, [str(tree / "fifo")])
    assert "it is a folder" in shared_cli("cp", f"{name}:tree", str(tmp_path)).err
    (tmp_path / "to").mkdir()
    assert shared_cli("cp", "-r", f"{name}:{place}/tree", str(tmp_path / "to")).code == 0
    assert _facts(tmp_path / "to" / "tree") == _facts(tree)
    for words, said in (
        (("a", "b"), "exactly one of the two must be SESSION:PATH"),
        ((f"{name}:a", f"{name}:b"), "exactly one"),
        ((f"{name}:nothing", "."), "no such file"),
        ((str(tmp_path / "nothing"), f"{name}:"), "no such file"),
        ((f"{name}:tree/link", str(tmp_path / "no" / "x")), "no such file"),
        ((str(tree / "link"), f"{name}:no/x/"), "no such file"),
        ((str(tree / "fifo"), f"{name}:"), "not a regular file"),
        (("nosession:x", "."), "cannot find"),
    ):
        failed = shared_cli("cp", *words)
        assert (failed.code, failed.err.count("cannot ")) == (1, 1), failed.err
        assert said in failed.err
        assert "Traceback" not in failed.err
