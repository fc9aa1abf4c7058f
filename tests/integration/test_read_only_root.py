"""Sessions with a read-only root: the writable places, their capture, attacks on the image's files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.any_image import OWN_PYTHON, image
from tests.machines.second import Machine

from holdfast.errors import HoldfastError, InvalidArgument, SessionError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast
from holdfast.snapshots.bundle.keys import Keys

__all__ = ["image"]  # a fixture

ATTACK = Path(__file__).parent / "attacks" / "write_to_root.py"
WRITABLE = ("/workspace", "/tmp", "/var/tmp", "/run")
ODD = """
FROM {base}
RUN rm -rf /tmp /var/tmp && ln -s ../srv /var/tmp && ln -s /nowhere /workspace
WORKDIR /app
RUN chmod 777 .
USER 1000
VOLUME /data/deep
"""


def refused(session: Session, *paths: str) -> bool:
    """Check that a session cannot make files in these folders, for this reason."""
    said = [session.exec(f"touch {path}/planted") for path in paths]
    return all(one.exit_code == 1 and "Read-only file system" in one.text for one in said)


def changed(hf: Holdfast, session: Session) -> list[str]:
    """Return the changes that the engine finds in a container's files."""
    found = hf.engine.client.api.diff(str(session.row.container_id))
    return sorted(one["Path"] for one in found)


def outside(paths: list[str], *places: str) -> list[str]:
    """Return the paths that are neither in these folders nor above them."""
    own = ("/var/lib/holdfast", *places)
    return [
        path
        for path in paths
        if not any(f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in own)
    ]


def attacks(session: Session) -> tuple[list[str], list[str]]:
    """Run the attacks in a session; return those that succeed under a writable root, and under this one."""
    session.files.write("/tmp/attack.py", ATTACK.read_bytes())
    lines = session.exec("python3 /tmp/attack.py", timeout=120).text.splitlines()
    head, *plain = lines[0].split()
    assert (head, len(plain) > 20) == ("plain:", True), lines
    return plain, [line.removeprefix("won: ") for line in lines[1:]]


@pytest.mark.thorough
def test_root_writes_to_no_file_of_the_image(hf: Holdfast) -> None:
    """In none of many ways, in a session and a copy; where the root is writable, all plain ones succeed."""
    session = hf.new("held", read_only=True)
    assert attacks(session)[1] == []
    copy = session.snapshot().restore("copy")
    assert attacks(copy)[1] == []
    for one in (session, copy):
        assert outside(changed(hf, one), *WRITABLE) == []
        with pytest.raises(HoldfastError, match="read-only file system"):
            one.files.as_user("0").write("/etc/planted", b"")
    plain, won = attacks(hf.new("free"))
    assert won == plain


def test_a_session_works_and_its_copies_continue(hf: Holdfast) -> None:
    """Shell, cells, open files and shared memory, in live copies; files in file-only copies."""
    session = hf.new("work", read_only=True, writable=["/srv/data/"])
    for place in (*WRITABLE, "/srv/data", "/dev/shm"):
        assert session.exec(f"echo {place} >{place}/kept").ok
    assert refused(session, "/", "/etc", "/usr/bin", "/root", "/srv", "/opt/holdfast", "/var/lib")
    assert session.exec("echo >>/etc/hosts").exit_code == 1
    assert session.exec("held=kept; exec 7<>/workspace/seven 8>/tmp/gone; rm /tmp/gone; echo 7 >&7").ok
    assert session.exec("read -r -p 'name? ' name", timeout=60).waiting
    assert session.answer("ada\n").ok
    assert session.cell("f = open('/srv/data/f', 'w'); print('quiet')").stderr == ""
    assert session.check().blocks == ()
    taken, files = session.snapshot(), session.snapshot(kind="filesystem")
    assert taken.kind == "live"
    places = " ".join(f"{place}/kept" for place in (*WRITABLE, "/srv/data"))
    copies = [*taken.fork(3), session, files.restore("later")]
    for copy in copies:
        assert copy.exec(f"cat {places}").text.split() == [*WRITABLE, "/srv/data"]
        assert refused(copy, "/etc", "/srv")
        assert copy.row.options["read_only"] is True
    for copy in copies[:4]:
        assert copy.exec(
            "echo $held-$name; echo again >&7; cat /workspace/seven; cat /dev/shm/kept"
        ).text.split() == [
            "kept-ada",
            "7",
            "again",
            "/dev/shm",
        ]
        assert copy.cell("f.write('more'), f.flush(), open(f.name).read()").text == "(4, None, 'more')"
    session.exec("echo now >/srv/data/new")
    assert [one.path for one in session.drift(taken.id, everything=True).files if one.path.endswith("/new")]


def test_a_session_stays_so_when_it_is_suspended_and_taken_back(hf: Holdfast) -> None:
    """The root of each of its containers is read-only."""
    session = hf.new("work", read_only=True, network="none")
    session.exec("held=kept; echo first >/workspace/file")
    taken = session.snapshot()
    session.exec("held=lost; echo second >/workspace/file")
    session.suspend()
    session.resume()
    assert session.exec("echo $held").text == "lost\n"
    assert refused(session, "/etc")
    session.rewind(taken.id)
    assert session.exec("echo $held; cat /workspace/file").text.split() == ["kept", "first"]
    assert refused(session, "/etc")


def test_mounts_have_their_options(hf: Holdfast, tmp_path: Path) -> None:
    """Over a folder that would be writable, below one, or elsewhere; its files are the host's."""
    mine, other, read = (tmp_path / name for name in ("mine", "other", "read"))
    for folder in (mine, other, read):
        folder.mkdir()
    mounts = [f"{mine}:/tmp", f"{other}:/workspace/other", f"{read}:/srv/read:ro"]
    session = hf.new("work", read_only=True, mounts=mounts, writable=["/srv"])
    assert session.exec("touch /tmp/a /workspace/other/b /workspace/c /srv/d").ok
    assert ([*mine.glob("?")], [*other.iterdir()]) == ([mine / "a"], [other / "b"])
    assert refused(session, "/srv/read", "/etc")
    copy = session.snapshot().restore("copy")
    assert copy.exec("touch /tmp/2 /workspace/other/2; ls /workspace /srv").text.split() == [
        *("/srv:", "d", "read"),
        *("/workspace:", "c", "other"),
    ]
    assert refused(copy, "/srv/read", "/etc")


@pytest.mark.thorough
def test_an_image_without_the_usual_folders(hf: Holdfast, image: Callable[..., str]) -> None:
    """Those that are missing are made, links are left alone, and its volumes stay folders of the session."""
    session = hf.new("odd", image=image("odd", ODD), read_only=True)
    assert session.exec("id -u; touch /tmp/a /data/deep/b && ls -ld /tmp").text.split()[:2] == [
        "1000",
        "drwxrwxrwt",
    ]
    assert refused(session, "/app")
    assert session.exec("touch /srv/x /nowhere/x").exit_code == 1
    assert (
        session.cell("import os, sys; grown = [1]; os.getuid(), sys.executable").text
        == f"(1000, '{OWN_PYTHON}')"
    )
    copy = session.snapshot().restore("copy")
    assert copy.cell("grown.append(2); grown").text == "[1, 2]"
    assert outside(changed(hf, copy), "/tmp", "/data/deep", "/run") == []


def test_a_user_has_the_workspace_and_folders_that_are_made(hf: Holdfast) -> None:
    """As without the option, the workspace belongs to the user; a folder that was missing is for all."""
    session = hf.new("work", read_only=True, user="1000", writable=["/cache/pip"])
    assert session.exec("touch /workspace/a /cache/pip/b; stat -c %u /workspace").text == "1000\n"
    assert refused(session, "/usr")


@pytest.mark.parametrize("place", ["/bin/deeper", "/etc/passwd"])
def test_a_folder_that_cannot_be_writable_is_named(hf: Holdfast, place: str) -> None:
    """A link would make a different folder writable than the named one; a file is refused."""
    with pytest.raises(SessionError, match=rf"^cannot start session: .*{place}.* cannot be writable"):
        hf.new("work", read_only=True, writable=[place])
    assert hf.sessions() == []


@pytest.mark.thorough
def test_a_running_session_cannot_become_read_only(hf: Holdfast) -> None:
    """A copy has the root of the captured session, from wherever it is started."""
    hf.new("free").snapshot(label="ready")
    with pytest.raises(InvalidArgument, match="read_only"):
        hf.new("work", template="ready", read_only=True)
    assert hf.new("warm", warm=True, read_only=True).exec("touch /etc/x").exit_code == 1


@pytest.mark.thorough
def test_a_read_only_root_travels(hf: Holdfast, second: Machine, tmp_path: Path) -> None:
    """Into a bundle, and out of it on another engine, live and as files."""
    Keys(hf.home).new("mine")
    session = hf.new("work", read_only=True, writable=["/data"])
    session.exec("held=kept; exec 7>/data/file; echo seven >&7")
    bundle = tmp_path / "it.holdfast"
    exported = session.snapshot().export(bundle)
    Keys(second.home).trust(str(exported.signed_by), f"of-{hf.home.digest}")
    with second.holdfast() as there:
        try:
            for require in ("live", "files"):
                thawed = there.thaw(bundle, require=require).session
                assert thawed.exec("cat /data/file && touch /data/more").text == "seven\n"
                assert refused(thawed, "/etc", "/")
        finally:
            for one in there.sessions():
                one.remove()
            for snapshot in reversed(there.snapshots()):
                snapshot.remove()


@pytest.mark.thorough
def test_a_read_only_root_is_an_option_of_the_command_line(hf: Holdfast, cli: Any, tmp_path: Path) -> None:
    """Also for a project with a devcontainer.json, whose folder stays writable."""
    said = cli("new", "work", "--read-only", "--writable", "/srv/data")
    assert said.code == 0, said.err
    assert hf.session("work").exec("touch /srv/data/x").ok
    assert refused(hf.session("work"), "/srv")
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text("print('hello')\n")
    asked = {"image": hf.session("work").image, "remoteUser": "1000", "postCreateCommand": "touch made"}
    (project / ".devcontainer.json").write_text(json.dumps(asked))
    said = cli("new", "it", "--devcontainer", str(project), "--read-only", "--writable", "/srv/data")
    assert said.code == 0, said.err
    assert hf.session("it").exec("ls; python3 main.py").text.split() == ["made", "main.py", "hello"]
    assert hf.session("it").exec("touch /srv/data/x").ok
    assert refused(hf.session("it"), "/workspaces", "/etc")
    said = cli("new", "other", "--writable", "/srv/data")
    assert (said.code, "add --read-only" in said.err) == (1, True), said.err


@pytest.mark.thorough
def test_a_read_only_root_is_an_option_over_a_url(shared_hf: Holdfast, remote: RemoteHoldfast) -> None:
    """As in a program on the machine itself; errors are also reported there."""
    with remote.new("held", read_only=True, writable=["/srv/data"], remove=True):
        assert shared_hf.session("held").exec("touch /srv/data/x").ok
        assert refused(shared_hf.session("held"), "/srv", "/etc")
    with pytest.raises(InvalidArgument, match="add --read-only"):
        remote.new("never", writable=["/srv/data"])
