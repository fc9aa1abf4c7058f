"""Secrets of a session in an export: none in our own texts; the rest is reported, or stops the export."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.forging import Forgery, Thin
from tests.integration.conftest import Cli
from tests.machines.registry import Registry
from tests.runtime.scrubbing.samples import SECRETS

from holdfast.base.home import Home
from holdfast.errors import SecretsFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.storage import snapshot_image
from holdfast.runtime.transfer import send
from holdfast.runtime.transfer.outgoing_parts import KINDS, Remembered
from holdfast.runtime.transfer.send import Sent
from holdfast.runtime.transfer.transfer_options import SendOptions
from holdfast.snapshots.bundle import image_layers, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.keys import Keys
from holdfast.snapshots.failure import Failure

TOKEN, FLOOD, HIDDEN = SECRETS["github token"][0], SECRETS["npm token"][0], SECRETS["gitlab token"][0]
VALUE = "a-value-of-no-known-form"


@dataclass(frozen=True)
class Moment:
    """A captured session that has a token everywhere; `sent` is the report on a bundle of it."""

    hf: Holdfast
    taken: Snapshot
    file: Path
    sent: Sent
    pid: int

    @property
    def told(self) -> dict[tuple[str, str], str]:
        """Findings: kind and text, by rule and place."""
        return {(one.rule, one.where): one.kind for one in self.sent.findings}


@pytest.fixture(scope="module")
def moment(shared_hf: Holdfast, tmp_path_factory: pytest.TempPathFactory) -> Moment:
    session: Session = shared_hf.new("holder", env={"DEPLOY_PASSWORD": VALUE})
    session.exec(f"echo {TOKEN} > /root/token; echo {TOKEN} > /dev/shm/token")
    # In front of a secret: a flood of others, and a hole.
    session.exec(f"yes {FLOOD} | head -n 5000 > /srv/flood")
    session.exec(f"truncate -s 64M /srv/sparse; echo {HIDDEN} >> /srv/sparse")
    session.exec(f"python3 -c 'import time; time.sleep(1000)' {TOKEN} & sleep 0.1")
    pid = int(session.exec("echo $!").text)
    session.cell(f"held = '{TOKEN}'")
    failed = Failure(reason="asked", command=f"deploy {TOKEN}", tail=f"with {TOKEN}\n")
    taken = session.snapshot("holder-one", failure=failed)
    keys = Keys(shared_hf.home)
    keys.new()
    known = Remembered(shared_hf.home.root / "cache" / "layers.json")
    for layer in image_layers.look(
        shared_hf.engine, snapshot_image.obtain(shared_hf.context, taken.row)
    ).layers:
        packed = BlobDescriptor(media.LAYER_ZSTD, layer, 1000, {media.RAW_BYTES: "5000"})
        known.add(f"{KINDS['zstd'][2]} {layer}", packed)
    file = tmp_path_factory.mktemp("scrubbed") / "one.tar"
    with Thin(file) as destination:
        sent = send.send(
            shared_hf.context, taken.row, destination, SendOptions(sign=keys.signer(), compression="zstd")
        )
    return Moment(shared_hf, taken, file, sent, pid)


@pytest.fixture(scope="module")
def elsewhere(
    tmp_path_factory: pytest.TempPathFactory, clear: Callable[[Holdfast], None]
) -> Iterator[Holdfast]:
    """Another home on the same engine."""
    with Holdfast(Home(tmp_path_factory.mktemp("elsewhere") / "home").create()) as other:
        yield other
        clear(other)


def test_no_text_that_we_write_into_a_bundle_has_a_secret(moment: Moment) -> None:
    """Journal, records, manifest, configs, byte by byte; they had it, as their counts show."""
    bundle = Forgery(moment.file)
    texts = {
        "config": json.dumps(bundle.config),
        "image config": json.dumps(bundle.image_config),
        "annotations": json.dumps(bundle.annotations),
        **{
            name: gzip.decompress(bundle.files[name]).decode()
            for name in ("journal.jsonl.gz", "record.json.gz", "baseline.json.gz")
        },
    }
    with tarfile.open(moment.file) as archive:
        texts |= {name: name for name in archive.getnames()}

    for name, text in texts.items():
        for secret in (TOKEN, FLOOD, HIDDEN, VALUE):
            assert secret not in text, name
    for name in ("config", "journal.jsonl.gz", "record.json.gz"):
        assert "[scrubbed: github token]" in texts[name], name
    assert moment.sent.scrubbed["github token"] >= 5
    assert any(text.startswith("scrubbed from its journal") for text in moment.sent.warnings)


def test_unalterable_matches_are_reported_by_rule_and_place(moment: Moment) -> None:
    """Files in layers, shared memory, memory by program and pid; never the value."""
    memory = {rule: where for (rule, where), kind in moment.told.items() if kind == "memory"}

    assert moment.told["github token", "/root/token"] == "layer"
    assert moment.told["github token", "/token"] == "shared memory"
    assert moment.told["github token", f"memory of python3 (pid {moment.pid})"] == "memory"
    assert "value of DEPLOY_PASSWORD" in memory
    text = " ".join([*moment.sent.warnings, *map(str, moment.sent.findings)])
    assert "1 × github token in /root/token (layer)" in text
    assert "found: " in text
    for secret in (TOKEN, FLOOD, HIDDEN, VALUE):
        assert secret not in text


def test_decoys_in_front_hide_nothing(moment: Moment) -> None:
    """A flood of secrets is counted up to a limit, and reported as such; a secret after a hole is found."""
    more = {(one.rule, one.where): one.more for one in moment.sent.findings}

    assert more["npm token", "/srv/flood"]
    assert not more["github token", "/root/token"]
    assert moment.told["gitlab token", "/srv/sparse"] == "layer"


def test_a_scrubbed_bundle_is_imported_and_continues(moment: Moment, elsewhere: Holdfast) -> None:
    """Digests and signature are of the scrubbed bytes; memory and files are unchanged."""
    Keys(elsewhere.home).trust(str(moment.sent.signed_by), "friend")
    taken = elsewhere.import_(moment.file)
    assert taken.failure is not None
    assert taken.failure.command == "deploy [scrubbed: github token]"

    back = taken.restore("back")

    assert back.verification is not None
    assert [str(one) for one in back.verification.deviations] == []
    assert back.cell("held").text == repr(TOKEN)
    assert back.exec("cat /root/token").text.strip() == TOKEN
    assert TOKEN not in " ".join(str(entry) for entry in back.journal(all_timelines=True) if entry.seq < 5)


def test_a_refused_export_leaves_nothing(
    moment: Moment, make_cli: Callable[[Home], Cli], tmp_path: Path
) -> None:
    """Exit code 1, the places for people and programs, no file of any name, and no value."""
    cli = make_cli(moment.hf.home)
    done = cli("export", "holder-one", str(tmp_path / "one.tar"), "--secrets", "refuse", "--json")

    assert done.code == 1
    assert done.error["code"] == "secrets_found"
    found = {(one["rule"], one["where"], one["kind"]) for one in done.error["findings"]}
    assert ("github token", "/root/token", "layer") in found
    assert list(tmp_path.iterdir()) == []
    for secret in (TOKEN, FLOOD, HIDDEN, VALUE):
        assert secret not in done.out + done.err
    assert list(moment.hf.home.staging.iterdir()) == []


def test_a_refused_push_sends_nothing(moment: Moment, registry: Registry) -> None:
    """Not even parts that nothing names."""
    with pytest.raises(SecretsFound, match="cannot export holder-one: it holds secrets"):
        moment.taken.push(f"{registry.address}/refused:one", secrets="refuse")

    assert httpx.get(f"http://{registry.address}/v2/refused/tags/list").status_code == 404
    assert "refused" not in httpx.get(f"http://{registry.address}/v2/_catalog").json()["repositories"]


def test_rules_of_the_home_count(moment: Moment, tmp_path: Path) -> None:
    """Named files are found, allowed text is not a secret, omitted rules have no matches."""
    told = {"files": ["/srv/sparse"], "allow": [TOKEN], "without": ["npm token", "gitlab token"]}
    with _rules(moment, json.dumps(told)), Thin(tmp_path / "one.tar") as destination:
        sent = send.send(moment.hf.context, moment.taken.row, destination, SendOptions(compression="zstd"))

    found = {(one.rule, one.where) for one in sent.findings}
    assert ("credential file", "/srv/sparse") in found
    assert {rule for rule, _ in found} == {"credential file", "value of DEPLOY_PASSWORD"}
    assert set(sent.scrubbed) <= {"value of DEPLOY_PASSWORD"}


def test_a_mistake_in_the_rules_sends_nothing(
    moment: Moment, make_cli: Callable[[Home], Cli], registry: Registry, tmp_path: Path
) -> None:
    """One line that names the file."""
    cli = make_cli(moment.hf.home)
    with _rules(moment, '{"without": ["github token"'):
        exported = cli("export", "holder-one", str(tmp_path / "one.tar"))
        pushed = cli("push", "holder-one", f"{registry.address}/refused:two")

    for done in (exported, pushed):
        assert done.code == 1
        assert done.err.splitlines()[0].startswith(
            f"holdfast: cannot use {moment.hf.home.root / 'scrub.json'}"
        )
    assert list(tmp_path.iterdir()) == []
    assert "refused" not in httpx.get(f"http://{registry.address}/v2/_catalog").json()["repositories"]


@contextmanager
def _rules(moment: Moment, text: str) -> Iterator[None]:
    path = moment.hf.home.root / "scrub.json"
    path.touch(mode=0o600)
    path.write_text(text)
    try:
        yield
    finally:
        path.unlink()
