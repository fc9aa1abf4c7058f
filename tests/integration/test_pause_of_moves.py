"""The pause of a session that moves: only changes are sent, and the engines are asked a few times."""

from __future__ import annotations

import io
import shlex
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import clear_home

from holdfast.base.home import Home
from holdfast.base.ssh_command import SSH
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.storage import snapshot_image
from holdfast.snapshots.bundle import image_layers
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.layer import image

pytestmark = pytest.mark.timeout(300)

WRITTEN = 8 << 20


@pytest.fixture
def there(hf: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holdfast]:
    """A second home on this engine, which a move reaches as if it were on another machine."""
    home = Home(tmp_path / "there").create()
    Keys(home).trust(Keys(hf.home).sending()[0].public)
    Keys(hf.home).trust(Keys(home).sending()[0].public)
    script = tmp_path / "ssh"
    script.write_text(f'shift\nexport HOLDFAST_HOME={shlex.quote(str(home.root))}\nexec sh -c "$*"\n')
    monkeypatch.setenv(SSH, f"sh {shlex.quote(str(script))}")
    with Holdfast(home) as controller:
        yield controller
        clear_home(controller)


def test_a_paused_session_waits_for_its_changes_only(
    hf: Holdfast, there: Holdfast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files that were sent while it ran are not sent again, and its own engine makes no image meanwhile.

    A file that the session removed before its last snapshot does not leave the machine; one that it removed
    later does not leave the other machine, where both layers are still known as those of one container.
    """
    session = hf.new("moving")
    for number in range(5):  # so that the image of the first part is not below that of the second by itself
        session.exec(f"head -c 100000 /dev/urandom > /srv/f{number}; rm -f /srv/f{number - 1}")
        session.snapshot()
    session.exec(f"head -c {WRITTEN} /dev/urandom > /srv/large; echo kept > /srv/kept")
    asked: list[str] = []
    suspend = snapshot_service.suspend
    api: Any = hf.engine.client.api

    def suspended(*given: Any, **more: Any) -> Any:
        hf.session("moving").exec("rm /srv/f4; echo changed > /srv/kept")
        send = api.send

        def counted(request: Any, **options: Any) -> Any:
            asked.append(f"{request.method} {request.path_url.partition('?')[0]}")
            return send(request, **options)

        monkeypatch.setattr(api, "send", counted)
        return suspend(*given, **more)

    monkeypatch.setattr(snapshot_service, "suspend", suspended)
    moved = session.move("there", remote_command=f"{shlex.quote(sys.executable)} -m holdfast")
    monkeypatch.undo()
    assert moved.rest < WRITTEN // 2 < WRITTEN < moved.bytes
    # The snapshots of the move are removed after it, and each removal lists the images.
    removing = next(at for at, one in enumerate(asked) if one.endswith("/images/json"))
    assert not any(one.endswith("/images/load") for one in asked[:removing])
    assert removing < 20, asked

    here = there.session(moved.session_id)
    assert here.exec("cat /srv/kept; ls /srv").text.split() == ["changed", "kept", "large"]
    parent = there.store.snapshot(str(here.row.parent_snapshot_id))
    ref = snapshot_image.obtain(there.context, parent)
    facts = image_layers.look(there.engine, ref)
    parts = image.parts(facts.config, len(facts.layers))
    assert [end - first for first, end in parts][-1] == 2
    first, second = _names(there, ref, facts.layers[-2:])
    assert "srv/f4" in first
    assert "srv/f3" not in first | second

    taken = here.snapshot()
    taken.export(tmp_path / "later.tar")
    again = hf.import_(tmp_path / "later.tar")
    layers = image_layers.look(hf.engine, snapshot_image.obtain(hf.context, again.row)).layers
    assert len(layers) == len(parts) + 1  # both layers as one, and that of the session's container there
    left, _ = _names(hf, image.ref_of(again.id), layers[-2:])
    assert "srv/large" in left
    assert "srv/f4" not in left


def _names(controller: Holdfast, ref: str, layers: Sequence[str]) -> list[set[str]]:
    """Return the names of files in some layers of an image."""
    found: list[bytes] = []
    image_layers.each(controller.engine, ref, layers, lambda layer: found.append(b"".join(layer)))
    return [set(tarfile.open(fileobj=io.BytesIO(data)).getnames()) for data in found]
