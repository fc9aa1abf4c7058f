"""A foreign image configures nothing of a session; it brings its files and variables."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from holdfast.errors import ImageError
from holdfast.images import build
from holdfast.runtime.api.controller import Holdfast
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
