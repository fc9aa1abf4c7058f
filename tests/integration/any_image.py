"""Images that were not made for sessions, and the capabilities that must work in all of them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.lifecycle import fitting

OWN_PYTHON = "/opt/holdfast/bin/python"
_LATE = '--aptopt=Acquire::Check-Valid-Until "false"'
"""Mirrors of sid may be behind for longer than their lists are valid."""


@pytest.fixture
def image(hf: Holdfast) -> Iterator[Callable[..., str]]:
    """Make images; with the last of them the adapted image also goes."""
    client = hf.engine.client
    made: list[str] = []

    def make(
        name: str, recipe: str = "", files: dict[str, bytes] | None = None, archive: Path | None = None
    ) -> str:
        tag = f"holdfast-test/{name}:{hf.home.digest}"
        if files is not None:
            archive = hf.home.root / f"{name}.tar"
            archive.write_bytes(_tar(files))
        if archive is not None:
            hf.engine.images.import_files(archive, tag, [])
            archive.unlink()
        else:
            known = {"base": build.obtain_base(hf.engine.images, print)}
            known["session"] = build.ensure(hf.engine.images, "session")
            text = recipe.format(**known).encode()
            client.images.build(rm=True, forcerm=True, fileobj=io.BytesIO(text), tag=tag)
        made.append(tag)
        return tag

    yield make
    sources = {hf.engine.images.id(each) for each in made}
    for each in made:
        client.images.remove(each, force=True)
    for session in hf.sessions():
        session.remove()
    for snapshot in hf.snapshots():
        snapshot.remove()
    ids = {each.id for each in hf.engine.images.listed()}
    hf.keeping.collect_garbage()
    # Other tests may still use what was fitted for them.
    left = {each.labels.get(fitting.SOURCE_LABEL) for each in hf.engine.images.listed()}
    assert left & sources - {None} - ids == set()


def release(hf: Holdfast, image: Callable[..., str], suite: str, packages: str) -> str:
    """Make an image of a release of Debian with these packages, and their dependencies."""
    archive = hf.home.root / "release.tar"
    options = ["--variant=minbase", f"--include={packages}", _LATE]
    subprocess.run(["mmdebstrap", *options, suite, str(archive)], check=True, capture_output=True)
    return image(suite, archive=archive)


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def works(session: Session, python: str, user: int = 0) -> list[Session]:
    """Leave live state in a shell and a kernel, capture it, and find it in copies that go separate ways."""
    assert session.exec("cd /; held=kept; f() { echo $held-$1; }; set -o noclobber").ok
    assert session.exec("exit 3 | cat 2>/dev/null; (exit 4)").exit_code == 4
    assert session.exec("read -r -p 'name? ' name", timeout=60).waiting
    assert session.answer("ada\n").ok
    assert session.cell("import os, sys; grown = [1]; sys.executable").text == repr(python)
    assert session.cell("os.getuid()").text == str(user)
    # Told of captures, and without a file that a copy could not write.
    known = "'holdfast_session' in sys.modules, get_ipython().history_manager.hist_file"
    assert session.cell(known).text == "(True, ':memory:')"
    taken = session.snapshot()
    assert taken.kind == "live"
    copies = [*session.fork(2), taken.restore()]
    for number, copy in enumerate(copies):
        assert copy.exec(f"held=${{held}}{number}; f $name; pwd; echo $-").text.splitlines()[:2] == [
            f"kept{number}-ada",
            "/",
        ]
        assert copy.cell(f"grown.append({number}); grown").text == f"[1, {number}]"
        assert [each.name for each in copy.pulse().kernels] == ["main"]
    assert session.exec("f x").text == "kept-x\n"
    return copies
