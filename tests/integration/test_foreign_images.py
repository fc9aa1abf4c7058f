"""A foreign image configures nothing of a session; it brings its files and variables."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.lifecycle.test_image_fields import ABOUT, saved_image, tar_of

from holdfast.errors import ImageError
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest import layout

pytestmark = pytest.mark.thorough

HOSTILE = """
FROM {base}
LABEL traefik.enable=true holdfast.home=forged holdfast.role=checkpointer
ENV LD_PRELOAD=/srv/evil.so BRINGS=this
USER nobody
WORKDIR /proc
EXPOSE 22
STOPSIGNAL SIGWINCH
SHELL ["/bin/false"]
ONBUILD RUN touch /srv/built
HEALTHCHECK --interval=1s CMD touch /srv/healthy
ENTRYPOINT ["/bin/false"]
CMD ["/bin/false"]
"""


@pytest.fixture
def images(hf: Holdfast) -> Iterator[dict[str, str]]:
    """Build images with and without a volume, like an attacker's."""
    client = hf.engine.client
    base = build.ensure(hf.engine.images, "session")
    made = {}
    for name, more in (("hostile", ""), ("volume", "VOLUME /data\n")):
        text = (HOSTILE.format(base=base) + more).encode()
        image, _ = client.images.build(
            rm=True, fileobj=io.BytesIO(text), tag=f"holdfast-test/{name}:{hf.home.digest}"
        )
        made[name] = str(image.tags[0])
    yield made
    for one in made.values():
        client.images.remove(one, force=True)


def test_nothing_but_files_and_variables_comes_from_an_image(hf: Holdfast, images: dict[str, str]) -> None:
    """Neither to a new session nor to a restored one; the engine would run the command of a health check."""
    with pytest.raises(ImageError, match=r"declares a volume at /data"):
        hf.new("never", image=images["volume"])
    parent = hf.new("parent", image=images["hostile"])
    taken = parent.snapshot("taken", kind="filesystem")

    for session in (parent, taken.restore("copy")):
        found = hf.engine.client.api.inspect_container(str(session.row.container_id))
        config = found["Config"]
        assert config["Healthcheck"]["Test"] == ["NONE"]
        assert "Health" not in found["State"]
        assert (config["User"], config["WorkingDir"], config["StopSignal"]) == (
            "0:0",
            "/",
            "SIGTERM",
        )
        (first,) = config["Entrypoint"]
        assert first.startswith(layout.FIRST_PROCESS)
        assert config["Cmd"] == ["start"]
        assert config["Labels"]["traefik.enable"] == ""
        assert config["Labels"]["holdfast.home"] == hf.home.digest
        assert config["Labels"]["holdfast.role"] == "session"
        assert found["NetworkSettings"]["Ports"] in ({}, {"22/tcp": None})
        assert not [one for one in found["Mounts"] if one["Type"] == "volume"]
        assert session.exec("echo $BRINGS; pwd; ls /srv 2>/dev/null").text.splitlines() == [
            "this",
            "/workspace",
        ]


# Each field of a configuration, as engines take it, with what would matter if it were heeded.
EVERY: dict[str, Any] = {
    "User": "0:0",
    "Env": ["PATH=/srv:/usr/bin", "LD_PRELOAD=/srv/x", "A", "A=1", "A=a\nb\x1b[2J\u202e", "B C=1", "é=2"],
    "Entrypoint": ["/srv/x", "\x1b[2J"],
    "Cmd": ["sh", "-c", "touch /srv/ran"],
    "WorkingDir": "/srv/../srv/\x1b[2J",
    "Volumes": {"/data": {}, "/srv/v\n": {}, "/sys/fs/cgroup": {}, "/proc/1": {}, "../x": {}},
    "ExposedPorts": {f"{port}/tcp": {} for port in range(1, 3000)},
    "Labels": {f"l{number}": "x" * 100 for number in range(3000)}
    | {"holdfast.home": "forged", "holdfast.role": "checkpointer", "holdfast.base-layers": "9" * 5000},
    "StopSignal": "SIGWINCH",
    "Healthcheck": {"Test": ["CMD-SHELL", "touch /srv/healthy"], "Interval": 1_000_000_000},
    "OnBuild": ["RUN touch /srv/built", "ADD http://127.0.0.1:1/x /"],
    "Shell": ["/srv/x"],
    "ArgsEscaped": True,
    "NetworkDisabled": True,
    "MacAddress": "02:42:ac:11:00:99",
    "Hostname": "forged",
    "Domainname": "forged",
    "Tty": True,
    "OpenStdin": True,
    "StopTimeout": 1,
}
REFUSED = {
    "User": "a\nb",
    "WorkingDir": "/srv/../proc/self/fd/8",
    "Volumes": {f"/v{number}": {} for number in range(101)},
}


@pytest.fixture
def load(hf: Holdfast, tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], str]]:
    """Load images of a stranger with these settings, from files."""
    made: list[str] = []

    def load(config: dict[str, Any]) -> str:
        path = tmp_path / f"{len(made)}.tar"
        path.write_bytes(tar_of(saved_image(ABOUT | {"config": config})))
        made.append(hf.images.load(path))
        return made[-1]

    yield load
    for session in hf.sessions():
        session.remove()
    for snapshot in hf.snapshots():
        snapshot.remove()
    hf.keeping.collect_garbage()
    for name in made:
        hf.engine.images.remove(name)
    hf.keeping.collect_garbage()


def _shown(hf: Holdfast, session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the description and rights of a session's container, except for its own values and its image's
    variables."""
    found = hf.engine.client.api.inspect_container(str(session.row.container_id))
    own = ("Hostname", "Image", "Labels", "Env", "Entrypoint", "ExposedPorts", "Shell", "ArgsEscaped")
    config = {key: value for key, value in found["Config"].items() if key not in own and value}
    assert found["Config"]["Hostname"] == session.name
    assert found["Config"]["Labels"]["holdfast.role"] == "session"
    assert not any(value for key, value in found["Config"]["Labels"].items() if key.startswith("l"))
    assert found["NetworkSettings"]["MacAddress"] != EVERY["MacAddress"]
    assert not any((found["NetworkSettings"]["Ports"] or {}).values())
    places = sorted(one["Target"].partition("/.holdfast")[0] for one in found["HostConfig"]["Mounts"])
    return config, {**found["HostConfig"], "Mounts": places}


def test_every_field_of_an_image_from_a_file_is_hostile(
    hf: Holdfast, load: Callable[[dict[str, Any]], str], tmp_path: Path
) -> None:
    """The container equals the container of an empty image configuration, also in a copy; a build on it is
    refused."""
    for field, value in REFUSED.items():
        name = load({field: value})
        with pytest.raises(ImageError, match=f"^cannot use image {name}: ") as refused:
            hf.new("never", image=name)
        assert str(refused.value).isprintable()
    assert hf.sessions() == []

    plain = hf.new("plain", image=load({}))
    hostile = hf.new("hostile", image=(name := load(EVERY)))
    copy = hostile.snapshot("files", kind="filesystem").restore("copy")
    for session in (hostile, copy):
        assert _shown(hf, session) == _shown(hf, plain)
        assert session.exec("echo $BASH_VERSION; echo /srv/ran* /srv/healthy*", timeout=60).text.endswith(
            "*\n"
        )
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {name}\n")
    with pytest.raises(ImageError, match=r"its image .* makes the engine fetch"):
        hf.images.build(folder, network="none")
