"""Nothing of a home is accessible to other users of the machine, at any time and under any umask."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.runtime.api.controller import Holdfast
from holdfast.snapshots import service
from holdfast.snapshots.bundle.keys import Keys

pytestmark = pytest.mark.thorough

OTHER = 4322
"""A user who may use the engine, but not this home."""


@pytest.fixture(scope="module")
def home_in_the_open(
    make_cli: Callable[[Home], Cli], clear: Callable[[Holdfast], None]
) -> Iterator[tuple[Home, Cli]]:
    """A home in a folder that everyone can enter, made and used with umask 0."""
    above = Path(tempfile.mkdtemp(dir="/var/tmp"))
    above.chmod(0o755)
    before = os.umask(0)
    try:
        home = Home(above / "home")
        cli = make_cli(home)
        for verb in (
            ["new", "--name", "a"],
            ["exec", "--key", "k", "a", "sleep 1000 & cat /run/holdfast/session.json >/dev/null"],
            ["snapshot", "a", "--label", "live"],
            ["snapshot", "a", "--label", "files", "--kind", "filesystem"],
            ["journal", "a"],
            ["quota", "10G"],
            ["export", "files", str(above / "files.holdfast"), "--compression", "zstd"],
        ):
            done = cli(*verb)
            assert done.code == 0, done.err
        # The last one made a signing key, and said which.
        assert f"`holdfast key trust {Keys(home).known()[0].public}`\n" in done.err
        yield home, cli
    finally:
        os.umask(before)
        with Holdfast(home) as controller:
            clear(controller)
        shutil.rmtree(above)


def test_a_home_is_accessible_to_its_owner_alone(home_in_the_open: tuple[Home, Cli]) -> None:
    """With umask 0: no file, folder or socket has a right for anyone else, and folders are 0700."""
    home, _ = home_in_the_open
    found = [home.root, *home.root.rglob("*")]

    # Programs of any user read a session's resolv.conf and hosts; on this host, their folders are closed.
    names = ("hosts", "hostname")
    read_inside = {
        path
        for path in found
        if path.parent.name == "resolvers" or (path.parent.name == "room" and path.name in names)
    }
    assert len(read_inside) == 3
    assert {path.lstat().st_mode & 0o777 for path in read_inside} == {0o644}
    open_to_others = [str(path) for path in found if path.lstat().st_mode & 0o077 and path not in read_inside]
    assert len(found) > 50
    assert open_to_others == []


def test_another_user_has_no_access_to_a_home(home_in_the_open: tuple[Home, Cli]) -> None:
    """A user of the group docker can neither read, write nor enter anything of another user's home."""
    home, cli = home_in_the_open
    doors = [home.root, *home.root.rglob("*")]
    assert {"holdfast.db", "guest.sock", "checkpointer.sock"} <= {path.name for path in doors}
    docker = Path("/var/run/docker.sock").stat().st_gid
    as_other = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", f"--groups={docker}"]

    def opened(paths: list[Path]) -> str:
        script = 'for path; do test -r "$path" -o -w "$path" -o -x "$path" && echo "$path"; done; true'
        command = [*as_other, "sh", "-c", script, "sh", *map(str, paths)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert opened([home.root.parent]) == f"{home.root.parent}\n"
    assert opened(doors) == ""
    assert cli("exec", "a", "echo still here").out == "still here\n"


def test_a_home_of_another_user_is_refused(home_in_the_open: tuple[Home, Cli], tmp_path: Path) -> None:
    """Even root does not use a home that another user could change in the meantime."""
    _, cli = home_in_the_open
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, OTHER, OTHER)

    done = cli("ls", "--json", HOLDFAST_HOME=str(foreign))

    assert (done.code, done.error["message"]) == (
        1,
        f"cannot use state directory {foreign}: it belongs to user {OTHER}",
    )
    assert list(foreign.iterdir()) == []


def test_a_narrow_umask_takes_nothing_from_a_session(home_in_the_open: tuple[Home, Cli]) -> None:
    """With umask 0077 everything works that the session's own users need files of the host for."""
    _, cli = home_in_the_open
    before = os.umask(0o077)
    try:
        assert cli("restore", "live", "--name", "b").code == 0
        assert cli("exec", "b", "jobs; touch /workspace/x; stat -c %a /workspace/x").out.endswith("644\n")
        assert cli("rm", "b").code == 0
    finally:
        os.umask(before)


def test_the_checkpointer_has_limits(home_in_the_open: tuple[Home, Cli]) -> None:
    """On memory, processes and its own tmpfs: its work for one session must not starve the machine."""
    home, _ = home_in_the_open
    engine = Engine.connect()
    try:
        (found,) = engine.containers(holdfast_home=home.digest, holdfast_role="checkpointer")
        config = engine.client.api.inspect_container(found)["HostConfig"]
    finally:
        engine.close()

    assert config["Memory"] == config["MemorySwap"] == service.memory_limit()
    assert config["PidsLimit"] == service.PIDS
    assert config["Tmpfs"] == {"/run": f"size={service.TMPFS}", "/tmp": f"size={service.TMPFS}"}
