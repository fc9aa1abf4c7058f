"""The files of a snapshot: each unchanged, however it is kept, after any number of generations."""

from __future__ import annotations

import pytest

from holdfast.engine import image_store
from holdfast.engine.image_store import ImageStore
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.snapshots import filing

# Every kind of change: to files of the image and to new ones.
MAKE = r"""
set -e
mkdir -p tree/deep && cd tree
echo one > plain; ln plain second; ln -s ../missing link; mkfifo pipe; chmod 2750 deep
printf 'bytes' > "$(printf 'odd\377\nname')"
truncate -s 100M sparse; printf end >> sparse
python3 - <<'P'
import os
os.utime("plain", ns=(1, 1_500_000_000_123_456_789))
os.setxattr("plain", "user.note", b"\0\xff")
os.chown("sparse", 1234, 5678)
P
cd ..
rm /etc/motd; chmod 600 /etc/issue; echo more >> /etc/debian_version
rm -r /usr/share/doc/bash; mkdir /usr/share/doc/bash; echo new > /usr/share/doc/bash/new
mv /usr/share/doc/tar /usr/share/doc/tape
"""
LOOK = r"""
cd /workspace; python3 - <<'P'
import hashlib, os, stat
for root, folders, files in os.walk(b"tree"):
    for name in sorted(folders + files):
        path = os.path.join(root, name)
        s = os.lstat(path)
        text = hashlib.md5(open(path, "rb").read()).hexdigest() if stat.S_ISREG(s.st_mode) else ""
        link = os.readlink(path) if stat.S_ISLNK(s.st_mode) else ""
        when = s.st_mtime_ns if not stat.S_ISFIFO(s.st_mode) else 0
        kept = {n: os.getxattr(path, n) for n in os.listxattr(path)} if text else {}
        print(path, oct(s.st_mode), s.st_uid, s.st_gid, s.st_nlink, s.st_size, when, text, link, kept)
print(os.lstat("tree/plain").st_ino == os.lstat("tree/second").st_ino)
P
ls /etc/motd 2>&1; stat -c %a /etc/issue; md5sum /etc/debian_version
ls /usr/share/doc/bash; ls -d /usr/share/doc/ta*
"""


@pytest.fixture(scope="module")
def written(shared: Session) -> Session:
    """A session whose files differ from its image in every way."""
    done = shared.exec(MAKE)
    assert done.exit_code == 0, done.text
    return shared


@pytest.fixture(params=["live", "filesystem"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave like an engine whose layers cannot be read."""
    monkeypatch.setattr(image_store, "kind", lambda _info: ImageStore.OTHER)


def seen(session: Session) -> str:
    return session.exec(LOOK).text


def test_every_file_is_unchanged(written: Session, kind: str) -> None:
    """Contents, times, modes, owners, links, attributes, deletions, replaced and moved directories."""
    snapshot = written.snapshot(kind="live" if kind == "live" else "filesystem")
    assert seen(snapshot.restore()) == seen(written)


@pytest.mark.usefixtures("engine_commits")
def test_the_engine_keeps_files_whose_layers_cannot_be_read(written: Session) -> None:
    """It takes longer, inside the freeze; the result is the same except for the files that the engine
    leaves out."""
    copy = written.snapshot().restore()
    assert copy.exec("cat tree/plain; ls /etc/motd 2>&1; ls /usr/share/doc/bash").text == (
        "one\nls: cannot access '/etc/motd': No such file or directory\nnew\n"
    )


def layers(hf: Holdfast, session: Session) -> int:
    found = hf.engine.client.images.get(session.image)
    return len(found.attrs["RootFS"]["Layers"])


@pytest.mark.thorough
def test_generations_do_not_accumulate_layers(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of snapshots are merged when there are many; their effect stays the same."""
    monkeypatch.setattr(filing, "MOST_LAYERS", 2)
    session = hf.new("gen-0")
    base = layers(hf, session)
    session.exec("mkdir keep; echo 0 > keep/0; mkdir dropped; echo x > dropped/x; rm /etc/motd")
    counts = []
    for number in range(1, 6):
        snapshot = session.snapshot(kind="filesystem" if number == 3 else "live")
        session = snapshot.restore(f"gen-{number}")
        counts.append(layers(hf, session) - base)
        session.exec(f"cd /workspace; echo {number} > keep/{number}; rm -rf dropped; mkdir dropped")
    assert max(counts) <= 2
    assert session.exec("cat keep/* | tr '\\n' ' '; ls dropped; ls /etc/motd 2>&1").text == (
        "0 1 2 3 4 5 ls: cannot access '/etc/motd': No such file or directory\n"
    )
