"""A server with teams is backed up, lost, and restored on a machine without anything of it.

The commands are those of docs/teams.md, with the places of the test. The machine loses the home, its
containers and its images; only the images that every installation has stay.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving

from holdfast.base.home import Home
from holdfast.engine.engine import Engine
from holdfast.runtime.access import teams
from holdfast.runtime.api.controller import Holdfast

PAGE = Path(__file__).parents[2] / "docs" / "teams.md"
TEAMS = ("red", "blue")


def _steps() -> str:
    """Return the section of the page."""
    found = re.search(r"^## Backup and restore of a server\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert found
    return found[1]


def _command(beginning: str) -> str:
    """Return the command of the page that begins like this."""
    (found,) = (each for each in re.findall(r"`([^`]+)`", _steps()) if each.startswith(beginning))
    return str(found)


def _as(server: Served, key: str, method: str, path: str, **more: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    return server.client.request(method, path, headers=headers, timeout=300, **more)  # type: ignore[arg-type]


def _said(server: Served, key: str, session: str, command: str) -> str:
    answer = _as(server, key, "POST", f"/v1/sessions/{session}/exec", json={"command": command})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["output"])


def _lose(homes: list[Home]) -> None:
    """Take from this machine what a new one would not have."""
    engine = Engine.connect()
    try:
        for each in homes:
            for container in engine.containers(holdfast_home=each.digest):
                engine.client.api.remove_container(str(container), force=True, v=True)
            for image in engine.images.listed(holdfast_home=each.digest):
                engine.client.api.remove_image(image.id, force=True)
    finally:
        engine.close()
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in mounts:
        if Path(point).is_relative_to(homes[0].root):
            subprocess.run(["umount", "-l", point], check=True)
    shutil.rmtree(homes[0].root)


def _images_of(homes: list[Home]) -> list[str]:
    engine = Engine.connect()
    try:
        return [
            tag
            for each in homes
            for image in engine.images.listed(holdfast_home=each.digest)
            for tag in image.tags
        ]
    finally:
        engine.close()


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_lost_server_is_restored_from_its_backup(
    home: Home, cli: Cli, clear: Callable[[Holdfast], None], tmp_path: Path
) -> None:
    """Suspended sessions continue, keys and quotas count, trails and snapshots verify; others are lost."""
    homes = [home, *(teams.create(home, name).home for name in TEAMS)]
    keys = {
        name: cli("--team", name, "access", "new", "ci", "--role", "maintainer").out.strip() for name in TEAMS
    }
    cli("--team", "red", "quota", "set", "--running", "3")
    token = ""
    try:
        with serving(cli, home, "--audit") as server:
            token = server.token
            for name in TEAMS:
                for session in ("kept", "ran"):
                    made = _as(
                        server, keys[name], "POST", "/v1/sessions", json={"name": session, "network": "none"}
                    )
                    assert made.status_code == 201, made.text
                    _said(server, keys[name], session, f"X={name}-{session}; echo $X > /srv/file")
                taken = _as(server, keys[name], "POST", "/v1/sessions/ran/snapshots", json={"label": "point"})
                assert taken.status_code == 201, taken.text
            # 1. Sessions that are to be in the backup are suspended.
            assert "`holdfast suspend`" in _steps()
            for name in TEAMS:
                cli("--team", name, "suspend", "kept")
        # 2. The server has stopped.
        heads = {}
        for name in TEAMS:
            done = cli("--team", name, *_command("holdfast gc").split()[1:])
            assert done.code == 0, done.err
            heads[name] = cli("--team", name, "audit", "verify").out.strip()
        # 3. and 4.
        backup, images = tmp_path / "backup.tar", tmp_path / "images.tar"
        tar = _command("tar ").replace("/root/.local/state", str(home.root.parent))
        tar = tar.replace("backup.tar", str(backup)).removesuffix("holdfast") + home.root.name
        subprocess.run(tar.split(), check=True, timeout=300)
        tags = _images_of(homes)
        if tags:
            subprocess.run(
                [*_command("docker save").split(), "-o", str(images), *tags], check=True, timeout=300
            )
        _lose(homes)
        assert not home.root.exists()
        assert _images_of(homes) == []

        subprocess.run(
            ["tar", "--acls", "--xattrs", "-C", str(home.root.parent), "-xpf", str(backup)], check=True
        )
        if tags:
            subprocess.run([*_command("docker load").split(), "-i", str(images)], check=True, timeout=300)
        with serving(cli, home, "--audit") as server:
            assert server.token == token
            for name, other in zip(TEAMS, reversed(TEAMS), strict=True):
                key = keys[name]
                assert _as(server, key, "POST", "/v1/sessions/kept/resume").status_code in (200, 201)
                assert _said(server, key, "kept", "echo $X; cat /srv/file").split() == [f"{name}-kept"] * 2
                lost = _as(server, key, "POST", "/v1/sessions/ran/exec", json={"command": "true"})
                assert lost.status_code >= 400, lost.text
                assert cli("--team", name, "rm", "ran").code == 0
                again = _as(server, key, "POST", "/v1/snapshots/point/restore", json={"name": "again"})
                assert again.status_code == 201, again.text
                assert _said(server, key, "again", "echo $X").strip() == f"{name}-ran"
                listed = {each["name"]: each["id"] for each in _as(server, key, "GET", "/v1/sessions").json()}
                assert set(listed) == {"kept", "again"}
                assert _as(server, keys[other], "GET", f"/v1/sessions/{listed['kept']}").status_code == 404
                assert cli("--team", name, *_command("holdfast verify").split()[1:]).code == 0
                checked = cli("--team", name, "audit", "verify", "--head", heads[name])
                assert checked.code == 0, checked.err
            assert "of 3" in cli("--team", "red", "quota").out
    finally:
        for each in homes:
            if each.root.exists():
                with Holdfast(each) as holdfast:
                    clear(holdfast)
