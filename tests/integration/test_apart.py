"""Every form of copy has the files that an image cannot have, and holes cost nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

HOLE = 3 << 30
"""More than the suite's machine writes in a while."""
MADE = f"""
import os
os.chdir("/srv")
with open("map", "wb") as file:
    file.write(b"begin")
    file.seek({HOLE} // 2)
    file.write(b"middle")
    file.truncate({HOLE})
os.link("map", "again")
os.makedirs(".wh.cache/sub")
for name in (".wh.lake", ".wh.cache/sub/file", "attributes"):
    open(name, "w").write(name)
os.setxattr("attributes", "user.a=b", b"value")
os.setxattr("attributes", "user.empty", b"")
os.utime("attributes", ns=(0, -1_750_000_000))
open("log", "w").write("log")
os.link("log", "log again")
os.mkfifo("pipe")
os.symlink("map", "link")
for name in ("pipe", "link"):
    os.link(name, name + " again", follow_symlinks=False)
os.setxattr("/etc", "user.overlay.opaque", b"y")
here = os.open("/srv", os.O_RDONLY)
for number in range(120):
    os.mkdir("p" * 50, dir_fd=here)
    here = os.open("p" * 50, os.O_RDONLY, dir_fd=here)
os.write(os.open("down", os.O_CREAT | os.O_WRONLY, dir_fd=here), b"deep")
os.utime("/srv", ns=(7, 1_600_000_000_000_000_007))
"""
SEEN = f"""
import json, os
os.chdir("/srv")
found = os.stat("map")
end = os.open("pipe", os.O_RDWR | os.O_NONBLOCK)
os.write(os.open("pipe again", os.O_WRONLY | os.O_NONBLOCK), b"through")
log = open("log", "r+")
log.truncate(0)
log.write("written by one name")
log.close()
file = open("map", "rb")
file.seek({HOLE} // 2)
here = os.open("/srv", os.O_RDONLY)
for number in range(120):
    here = os.open("p" * 50, os.O_RDONLY, dir_fd=here)
print(json.dumps([
    os.path.samefile("map", "again"), found.st_size, found.st_blocks < 100, file.read(8).decode(),
    open(".wh.lake").read(), open(".wh.cache/sub/file").read(),
    {{name: os.getxattr("attributes", name).decode() for name in os.listxattr("attributes")}},
    open("log again").read(), os.read(end, 9).decode(),
    [os.path.samestat(os.lstat(name), os.lstat(name + " again")) for name in ("pipe", "link")],
    os.stat("attributes").st_mtime_ns, os.path.exists("/etc/passwd"),
    os.getxattr("/etc", "user.overlay.opaque").decode(),
    os.read(os.open("down", os.O_RDONLY, dir_fd=here), 9).decode(), os.stat("/srv").st_mtime_ns,
]))
"""


def seen(session: Session) -> list[object]:
    done = session.exec(f"python3 -c '{SEEN}'")
    assert done.exit_code == 0, done.output
    return list(json.loads(done.output))


@pytest.fixture
def session(hf: Holdfast) -> Session:
    made = hf.new("has")
    done = made.exec(f"python3 -c '{MADE}'; precious=42; cd /srv/.wh.cache")
    assert done.exit_code == 0, done.output
    return made


def test_copies_have_files_that_images_cannot_hold(hf: Holdfast, session: Session, tmp_path: Path) -> None:
    """Restored live and as files, imported, suspended and resumed; and a copy of a copy."""
    expected = seen(session)
    assert expected[1:4] == [HOLE, True, "middle\0\0"]
    taken = session.snapshot("taken")
    assert taken.size < 200 << 20
    copy = taken.restore("live")
    assert seen(copy) == expected
    again = copy.snapshot("again", kind="filesystem")
    copy.remove()
    bundle = tmp_path / "bundle.tar"
    again.export(bundle)
    assert bundle.stat().st_size < HOLE // 8
    again.remove()
    arrived = hf.import_(bundle, label="arrived").restore("files")
    assert seen(arrived) == expected
    arrived.remove()
    session.suspend()
    session.resume()
    assert seen(session) == expected
    assert session.exec("echo $precious $PWD").output.split() == [b"42", b"/srv/.wh.cache"]
