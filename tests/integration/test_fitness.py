"""The handling of a snapshot that cannot continue on this machine."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import LiveUnsupported
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.snapshots import manifest
from holdfast.snapshots.bundle import form, media
from holdfast.snapshots.bundle.oci_layout import FileDestination


class Foreign:
    """Rewrites a snapshot as if it came from a machine with more features than this one."""

    def __init__(self, hf: Holdfast, snapshot: Snapshot) -> None:
        self._path = hf.home.snapshots / snapshot.id / manifest.FILE
        self._own = self._path.read_text()

    def make(self) -> None:
        told = json.loads(self._own)
        told["needs"]["machine"]["cpu"].append("avx512_of_tomorrow")
        told["needs"]["machine"]["kernel"] = "999.1"
        told["processes"]["kernel"] = "999.1"
        self._path.write_text(json.dumps(told))

    def undo(self) -> None:
        self._path.write_text(self._own)


@pytest.fixture(scope="module")
def taken(shared_hf: Holdfast, shared: Session) -> Snapshot:
    """A session with a variable, a directory, a file, a cell, and hidden input that was typed."""
    assert shared.exec("mkdir -p /srv/here; cd /srv/here; export MODE=test; echo kept > file").ok
    assert shared.cell("number = 41").ok
    asked = shared.exec("read -s -p 'Password: ' word; [ -n \"$word\" ]")
    assert asked.waiting
    assert shared.answer("correct horse\n").ok
    return shared.snapshot("moment")


@pytest.fixture
def foreign(shared_hf: Holdfast, taken: Snapshot) -> Iterator[Snapshot]:
    made = Foreign(shared_hf, taken)
    made.make()
    yield taken
    made.undo()


def test_a_snapshot_knows_the_machine_it_was_taken_on(shared_hf: Holdfast, taken: Snapshot) -> None:
    """Everything that is compared was recorded, and it fits where it was taken."""
    machine = manifest.read(shared_hf.home.snapshots / taken.id).all_needs().machine
    assert machine.cpu
    assert machine.vdso
    assert machine.vdso.symbols
    assert all((machine.arch, machine.kernel, machine.criu, machine.page_bytes, machine.has))
    if machine.arch == "x86_64":
        assert machine.xfeatures
        assert machine.xsave_bytes
    ladder = taken.fits()
    assert [(rung.name, rung.reasons) for rung in ladder.rungs] == [
        ("live", []),
        ("commands", []),
        ("files", []),
    ]


def test_an_incompatible_snapshot_is_refused_before_anything_starts(
    shared_hf: Holdfast, shared_cli: Any, foreign: Snapshot
) -> None:
    """With all reasons and the command for a possible restore; exit code 3; no session, no container."""
    before = shared_hf.engine.containers(holdfast_home=shared_hf.home.digest, holdfast_role="session")
    refused = shared_cli("restore", foreign.name, "--require", "live", "--json")
    assert refused.code == 3
    assert "lacks avx512_of_tomorrow" in refused.error["message"]
    assert "is older" in refused.error["message"]
    assert "--as commands" in refused.error["hint"]
    assert [one["rung"] for one in refused.error["findings"]] == ["live", "live"]
    with pytest.raises(LiveUnsupported):
        foreign.fork(2)
    after = shared_hf.engine.containers(holdfast_home=shared_hf.home.digest, holdfast_role="session")
    assert after == before
    assert [session.name for session in shared_hf.sessions()] == ["shared"]

    told = shared_cli("fits", foreign.name, "--json")
    assert (told.code, told.json["best"]) == (0, "commands")
    assert shared_cli("fits", foreign.name, "--require", "live").code == 3
    assert "yes  files" in shared_cli("fits", foreign.name).out


def test_restore_takes_the_best_possible_rung_from_the_required_one_up(
    shared_hf: Holdfast, shared_cli: Any, foreign: Snapshot
) -> None:
    """As `thaw` does."""
    restored = shared_cli("restore", foreign.name, "--require", "files", "--name", "lower", "--json")
    assert restored.code == 0, restored.err
    session = shared_hf.session("lower")
    try:
        assert session.exec("test -e /var/lib/holdfast/recorded-commands.sh").exit_code == 0
    finally:
        session.remove()


def described(kept: manifest.Manifest, path: Path) -> Path:
    """Return a bundle's description, the only part read to judge it."""
    config = form.BundleConfig(snapshot=kept, base=1, segments=[], files=[]).model_dump_json().encode()
    told = form.described(media.SNAPSHOT_CONFIG, config)
    image = form.image_manifest(form.described(media.IMAGE_CONFIG, b"{}"), [])
    about_image = form.described(media.MANIFEST, image)
    snapshot = form.snapshot_manifest(told, [], about_image)
    about = form.described(media.MANIFEST, snapshot)
    with FileDestination(path) as file:
        for blob, data in ((told, config), (about_image, image), (about, snapshot)):
            file.put(blob, io.BytesIO(data))
        file.finish(form.index(about_image, about, ("linux", "amd64"), {}))
    return path


def test_a_bundle_is_judged_before_it_is_imported(
    shared_hf: Holdfast, shared_cli: Any, foreign: Snapshot, tmp_path: Path
) -> None:
    """By its description alone, no matter who signed it."""
    kept = manifest.read(shared_hf.home.snapshots / foreign.id)
    file = described(kept, tmp_path / "moment.holdfast")
    told = shared_cli("fits", str(file), "--json")
    assert (told.code, told.json["best"]) == (0, "commands"), told.err
    assert "avx512_of_tomorrow" in told.json["rungs"][0]["reasons"][0]
    assert [snapshot.name for snapshot in shared_hf.snapshots()] == ["moment"]
    (tmp_path / "other").write_bytes(b"no bundle")
    assert shared_cli("fits", str(tmp_path / "other"), "--json").code == 1


def test_the_files_of_an_unfit_snapshot_come_with_its_history(
    shared_hf: Holdfast, shared_cli: Any, foreign: Snapshot
) -> None:
    """The history is a script that nothing has run: the shell is new. Run on request, it makes the rest
    again.
    """
    made = foreign.restore("only", rung="commands")
    try:
        assert made.exec("cat /srv/here/file; echo [$MODE] $PWD").text == "kept\n[] /workspace\n"
        text = made.exec("cat /var/lib/holdfast/recorded-commands.sh").text
        assert "export MODE=test" in text
        assert "something hidden" in text
        assert "horse" not in text
        assert made.journal(kinds=["restored"])[-1].details["only"] == "commands"
    finally:
        made.remove()

    again = shared_cli(
        "restore", foreign.name, "--name", "again", "--as", "commands", "--run-commands", "--json"
    )
    assert again.code == 0, again.err
    ran = [(one["kind"], one["same"], one["left_out"]) for one in again.json["commands"]]
    assert ran[:2] == [("command", True, ""), ("cell", True, "")]
    assert ran[2][:2] == ("command", False)
    assert "Password" in ran[2][2]
    session = shared_hf.session("again")
    try:
        assert session.exec("echo [$MODE] $PWD").text == "[test] /srv/here\n"
        assert session.cell("number + 1").text == "42"
        # What it continues from is its files: only what was run in it is recorded of it.
        later = session.snapshot("later", "filesystem")
        assert "number + 1" in [one.text for one in later.recorded()]
        later.remove()
    finally:
        session.remove()


def test_a_suspended_session_stays_suspended_if_it_cannot_continue(
    shared_hf: Holdfast, shared_cli: Any
) -> None:
    """And continues where it can."""
    session = shared_hf.new("sleeper")
    session.suspend()
    snapshot = shared_hf.snapshot(str(session.refresh().row.parent_snapshot_id))
    made = Foreign(shared_hf, snapshot)
    made.make()
    with pytest.raises(LiveUnsupported, match="lacks avx512_of_tomorrow"):
        session.resume()
    assert session.refresh().state == "suspended"
    made.undo()
    session.resume()
    assert session.exec("echo on").text == "on\n"
    session.remove()
    snapshot.remove()
