"""Our own texts in a bundle have no secrets in them, whatever field they are in."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.base.home import Home
from holdfast.runtime.egress import vault
from holdfast.runtime.scrubbing.known_forms import RULES
from holdfast.runtime.scrubbing.rule import Matcher
from holdfast.runtime.scrubbing.scrubber import Scrubber
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.transfer import describe
from holdfast.runtime.transfer.inspection import Inspection
from holdfast.snapshots.bundle import form
from holdfast.snapshots.bundle.image_layers import ImageFacts
from holdfast.snapshots.failure import Failure
from holdfast.snapshots.manifest import Manifest, StoredFile

TOKEN = SECRETS["github token"][0]
IMAGE = ImageFacts("amd64", "linux", {"Env": ["PATH=/bin", f"TOKEN={TOKEN}", "A=1"]}, (f"sha256:{'0' * 64}",))


def _manifest(label: str | None, session: str) -> Manifest:
    return Manifest(
        id="0" * 12,
        kind="live",
        label=label,
        created_at=datetime.now(UTC),
        session="1" * 12,
        session_name=session,
        generation=0,
        parent=None,
        image="sha256:1",
        options={"env": {"A": "2"}, "workdir": f"/srv/{TOKEN}", "memory": 1 << 30},
        processes=None,
        files=[StoredFile(name="record.json.gz", bytes=1, blake3="0" * 64)],
        failure=Failure(reason="failed", command=f"deploy {TOKEN}"),
    )


@pytest.mark.parametrize("named", [TOKEN, "plain"])
def test_no_field_of_a_config_has_a_secret(named: str) -> None:
    """Options, labels, names, failures; numbers and everything else are unchanged."""
    kept = _manifest(named, named)
    stored = [StoredFile(name="record.json.gz", bytes=2, blake3="1" * 64)]
    details = SnapshotDetails({"failure": {"message": f"with {TOKEN}"}, "memory_bytes": 5, "other": 1})

    data = describe.config(kept, IMAGE, [], [], details, Scrubber(Matcher(RULES)), stored)

    assert TOKEN.encode() not in data
    found = form.parse(form.Config, data, "config")
    assert found.snapshot.files == stored
    assert found.snapshot.options == {"workdir": "/srv/[scrubbed: github token]", "memory": 1 << 30}
    assert found.details == {"failure": {"message": "with [scrubbed: github token]"}, "memory_bytes": 5}
    assert found.snapshot.label == (None if named == TOKEN else "plain")
    assert found.snapshot.session_name == ("1" * 12 if named == TOKEN else "plain")


def test_variables_of_an_image_are_scrubbed() -> None:
    """Those of the session are not sent at all."""
    config = json.loads(describe.image_config(_manifest(None, "x"), IMAGE, Scrubber(Matcher(RULES))))

    assert config["config"]["Env"] == ["PATH=/bin", "TOKEN=[scrubbed: github token]"]


def test_values_of_secrets_that_the_gateway_has_do_not_leave(tmp_path: Path) -> None:
    """A session has none of them, unless a server sent one in a form that the gateway did not recognize."""
    home = Home(tmp_path / "home").create()
    first, second = (vault.parse(f"DEPLOY@a.example={word}-by-hand-4711") for word in ("one", "two"))
    vault.keep(home, [first, second])

    scrubber = Inspection(home, _manifest(None, "s"), None, {}).scrubber

    for each in (first, second):
        name = f"value of DEPLOY {each.placeholder}"[:60]
        encoded = base64.b64encode(each.value.encode()).decode()
        assert scrubber.text(f"it said {each.value} and {encoded}") == (
            f"it said [scrubbed: {name}] and [scrubbed: {name}]"
        )
