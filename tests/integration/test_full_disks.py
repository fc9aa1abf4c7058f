"""Disks filled by a session or a neighbour, and the verbs that still work then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.machines import ordinary_user

from holdfast.base import ballast
from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.doctor import doctor
from holdfast.runtime.sessions import shared_folder
from holdfast.snapshots.checkpointer.container import rooms

pytestmark = pytest.mark.thorough

FLOODS = {
    "bytes": "head -c 200M /dev/zero > /run/holdfast/fill",
    "inodes": "cd /run/holdfast; seq 5000 | xargs touch; cd /",
    # The engine would have these on its own disk.
    "hosts": "head -c 200M /dev/zero >> /etc/hosts",
    "hostname": "head -c 200M /dev/zero > /etc/hostname",
}
CLEAR = (
    ": > /etc/hosts; : > /etc/hostname; "
    "cd /run/holdfast; rm -f fill; ls | grep '^[0-9]*$' | xargs -r rm; cd /"
)
ENOSPC = "No space left on device"


def fill(path: Path) -> None:
    """Write to a file until its disk is full to the last page."""
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    assert os.statvfs(path).f_bavail == 0


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory,
    make_cli: Callable[[Home], Cli],
    clear: Callable[[Holdfast], None],
) -> Iterator[tuple[Holdfast, Session, Cli]]:
    """A session in a home on a small disk."""
    disk = tmp_path_factory.mktemp("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", disk], check=True)
    try:
        home = Home(disk / "home").create()
        with Holdfast(home) as controller:
            yield controller, controller.new("a"), make_cli(home)
            clear(controller)
        assert list(home.run.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_snapshot_that_is_too_large_leaves_nothing(small: tuple[Holdfast, Session, Cli]) -> None:
    """The error has the free space; the home is as it was, and so is the session."""
    hf, a, cli = small
    a.exec(
        'python3 -c \'import os, time; x = os.urandom(150 << 20); open("/tmp/is", "w"); time.sleep(999)\' &'
    )
    a.exec("until [ -e /tmp/is ]; do sleep 0.1; done", timeout=60)
    done = cli("snapshot", "a")
    first, hint = done.err.splitlines()

    assert done.code == 1
    assert f"no space left in {hf.home.root}: it takes more than the " in first
    assert first.endswith(" MiB that are free")
    assert "make room" in hint
    assert list(hf.home.staging.iterdir()) == []
    assert hf.snapshots() == []
    assert "alive" in a.exec("kill %1; wait; echo alive").text.splitlines()


@pytest.mark.parametrize("flood", FLOODS)
def test_a_session_cannot_fill_the_state_directory(small: tuple[Holdfast, Session, Cli], flood: str) -> None:
    """A flood of its shared folder ends with ENOSPC in the session; the home has the room it had."""
    hf, a, cli = small
    before = os.statvfs(hf.home.root)
    said = a.exec(f"{{ {FLOODS[flood]}; }} 2>&1 | tail -n 1", timeout=120)
    after = os.statvfs(hf.home.root)

    assert ENOSPC in said.text
    assert before.f_bavail - after.f_bavail < (1 << 20) // before.f_frsize
    assert before.f_ffree - after.f_ffree < 100
    # Everything else works: other rows, keyed commands of this very session, its journal.
    assert cli("exec", "--key", flood, "a", "echo written").out == "written\n"
    refused = cli("snapshot", "a", "--json")
    assert (refused.code, "/run/holdfast is full" in refused.error["message"]) == (1, True)
    assert a.exec(CLEAR).ok
    assert cli("snapshot", "a", "--kind", "filesystem", "--label", f"after-{flood}").code == 0


def test_removals_work_on_a_full_disk(small: tuple[Holdfast, Session, Cli]) -> None:
    """With the disk full to the last byte, `rmi`, `gc` and `rm` work; anything that needs room fails in one
    line.
    """
    hf, a, cli = small
    a.snapshot("old", "filesystem")
    filler = hf.home.root.parent / "filler"
    for verb in (["new"], ["snapshot", "a"], ["rmi", "old"], ["gc"], ["rm", "a"]):
        fill(filler)
        done = cli(*verb)
        if verb[0] in ("new", "snapshot"):
            first, _, hint = done.err.strip().partition("\n")
            assert done.code == 1
            assert first.startswith("holdfast: cannot use ")
            assert first.endswith("full")
            assert hint.strip().startswith("hint: ")
        else:
            assert (verb, done.code, "cannot" in done.err) == (verb, 0, False)
    filler.unlink()

    assert [session.name for session in hf.sessions()] == []
    assert "old" not in [snapshot.name for snapshot in hf.snapshots()]


def test_the_shared_folder_of_an_ordinary_user_is_bounded(
    tmp_path: Path, hf: Holdfast, clear: Callable[[Holdfast], None]
) -> None:
    """For a user without the right to mount, the checkpointer mounts; and unmounts it again."""
    home = ordinary_user.home_folder(tmp_path / "ours")
    program = (
        "import os\n"
        "from pathlib import Path\n"
        "from holdfast.runtime.sessions import shared_folder\n"
        "from holdfast.runtime.api.controller import Holdfast\n"
        "with Holdfast(Path(os.environ['HOLDFAST_HOME'])) as hf:\n"
        "    folder = shared_folder.make(hf.engine, hf.home, 'a' * 12, print)\n"
        "    try:\n"
        "        (folder / 'fill').write_bytes(bytes(200 << 20))\n"
        "    except OSError as error:\n"
        "        print(os.geteuid(), error.strerror)\n"
        "    shared_folder.remove(hf.engine, hf.home, 'a' * 12)\n"
        "    print(list(hf.home.run.iterdir()))\n"
    )
    try:
        said = subprocess.run(
            [*ordinary_user.prefix(), sys.executable, "-c", program],
            env={**os.environ, "HOLDFAST_HOME": str(home), "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert said.stdout.splitlines() == [f"{ordinary_user.UID} {ENOSPC}", "[]"], said.stderr
    finally:
        for container in hf.engine.containers(holdfast_home=Home(home).digest):
            hf.engine.kill_remove(container)


def test_doctor_says_whether_shared_folders_are_bounded(hf: Holdfast) -> None:
    """Here they are; in a mount namespace of its own they are not, and doctor reports it."""
    assert shared_folder.trouble(hf.engine, hf.home) == ""
    program = (
        "import json\n"
        "from holdfast.runtime.sessions import shared_folder\n"
        "from holdfast.runtime.api.controller import Holdfast\n"
        "with Holdfast() as hf:\n"
        "    print(json.dumps(shared_folder.trouble(hf.engine, hf.home)))\n"
    )
    said = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", program],
        env={**os.environ, "HOLDFAST_HOME": str(hf.home.root)},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert "not visible from here" in json.loads(said.stdout)


def test_garbage_collection_removes_unused_shared_folders(hf: Holdfast) -> None:
    """`gc` unmounts and removes a shared folder whose session has been removed."""
    folder = shared_folder.make(hf.engine, hf.home, "f" * 12)
    assert rooms.mounted(folder.parent)

    found = hf.keeping.collect_garbage()

    assert [one.name for one in found if one.kind == "folder"] == ["run/" + "f" * 12]
    assert not rooms.mounted(folder.parent)
    assert list(hf.home.run.iterdir()) == []


def test_the_ballast_is_restored(tmp_path: Path) -> None:
    """Ballast released on a full disk is made again when there is room."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "none", tmp_path], check=True)
    try:
        home = Home(tmp_path / "home").create()
        file, filler = home.root / ballast.NAME, tmp_path / "filler"
        assert file.stat().st_blocks * 512 == ballast.SIZE
        fill(filler)
        with ballast.given_up(home.root) as roomy:
            assert roomy
            assert not file.exists()
        assert file.stat().st_size >= ballast.ENOUGH
        file.unlink()
        filler.unlink()
        home.create()
        assert file.stat().st_size == ballast.SIZE
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_an_unsupported_disk_limit_is_refused(small: tuple[Holdfast, Session, Cli]) -> None:
    """An engine without quotas makes no session that needs one; `doctor` says which kind it is."""
    hf, _, _ = small
    hf.engine.__dict__["disk_fault"] = "its storage, overlay2 on extfs, does not support quotas"
    with pytest.raises(InvalidArgument, match=r"cannot limit .* 1073741824 bytes: its storage"):
        hf.new("limited", disk="1g")
    del hf.engine.__dict__["disk_fault"]

    said = doctor._disk_limit(hf.context)
    assert said.ok
    assert ("can fill" in said.detail) == bool(hf.engine.disk_fault)
