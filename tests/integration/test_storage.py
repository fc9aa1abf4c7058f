"""Snapshots in packs: their cost, their restoration from packs, and the report on damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import packing

from holdfast.errors import SnapshotDamaged
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.snapshots import raw_cache


def digest(session: Session) -> str | None:
    return session.cell("import hashlib; hashlib.sha256(heap).hexdigest()", timeout=60).text


def stored(snapshot: Snapshot) -> dict[str, int]:
    found = snapshot.pack().row.details["storage"]
    assert isinstance(found, dict)
    return found


def test_a_changed_heap_costs_its_changes_and_comes_back(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 % of its pages, scattered, cost at most 5 %; restored from packs alone, on demand, it is the same."""
    session = hf.new("parent")
    session.cell("import os, random; heap = bytearray(os.urandom(96 << 20))", timeout=60)
    first = session.snapshot("first")
    session.cell("for page in random.sample(range(24576), 245): heap[page * 4096 + 9] ^= 1", timeout=60)
    second = session.snapshot("second")
    assert stored(first)["own"] < 1.1 * stored(first)["raw"]
    assert stored(second)["raw"] > 96 << 20
    assert stored(second)["own"] < 0.05 * stored(second)["raw"]

    assert packing.settled(hf.home)  # it keeps the images that it reads
    raw_cache.evict(hf.home.snapshots, 0)
    assert not list(hf.home.snapshots.glob("*/images"))
    monkeypatch.setenv(raw_cache.VARIABLE, "0")
    first.remove()
    assert digest(second.restore("copy")) == digest(session)
    assert next(s for s in hf.snapshots() if s.name == "second").size > 96 << 20


def test_a_suspended_session_is_packed(hf: Holdfast) -> None:
    """After its processes have ended; it continues from the packs alone."""
    session = hf.new("sleeper")
    session.exec("kept=yes")
    session.suspend()
    assert packing.settled(hf.home)
    snapshot = hf.snapshots()[0]
    assert stored(snapshot)["own"] < 0.6 * stored(snapshot)["raw"]

    raw_cache.evict(hf.home.snapshots, 0)
    assert session.resume().exec("echo $kept").text == "yes\n"


Damage = Callable[[Holdfast, Path, Path, Path], object]


def flip(pack: Path) -> None:
    data = bytearray(pack.read_bytes())
    data[5000] ^= 1
    pack.write_bytes(data)


def swap(one: Path, other: Path) -> None:
    first, second = (one / "recipe").read_bytes(), (other / "recipe").read_bytes()
    (one / "recipe").write_bytes(second)
    (other / "recipe").write_bytes(first)


DAMAGES: dict[str, tuple[Damage, set[str], str]] = {
    "a bit": (lambda _hf, pack, _bad, _good: flip(pack), {"bad"}, "pages of pack .* damaged"),
    "cut": (lambda _hf, pack, _bad, _good: os.truncate(pack, 9000), {"bad"}, "is damaged or cut short"),
    "gone": (lambda _hf, pack, _bad, _good: pack.unlink(), {"bad"}, "is missing"),
    "swapped": (lambda _hf, _pack, bad, good: swap(bad, good), {"bad", "good"}, "its recipe belongs to"),
    "recipe": (lambda _hf, _pack, bad, _good: (bad / "recipe").write_bytes(b""), {"bad"}, "recipe is dam"),
    "manifest": (lambda _hf, _pack, bad, _good: (bad / "manifest.json").write_text("{"), {"bad"}, "manifest"),
    "baseline": (lambda _hf, _pack, bad, _good: (bad / "baseline.json.gz").unlink(), {"bad"}, "baseline"),
    "index": (lambda hf, _pack, _bad, _good: (hf.home.root / "chunks" / "index").unlink(), set(), ""),
}


@pytest.mark.thorough
def test_each_damage_is_found_and_affects_only_its_snapshots(
    hf: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by `verify` and refused; the others are intact. Repaired ones are intact again."""
    monkeypatch.setenv(raw_cache.VARIABLE, "0")
    session = hf.new("parent")
    good = session.snapshot("good").pack()
    session.cell("import os; heap = os.urandom(2 << 20)", timeout=60)
    packs = hf.home.root / "chunks" / "packs"
    before = set(packs.iterdir())
    bad = session.snapshot("bad").pack()
    assert packing.settled(hf.home)
    (pack,) = set(packs.iterdir()) - before
    parts = (hf.home.snapshots, hf.home.root / "chunks")
    for part in parts:
        shutil.copytree(part, tmp_path / "whole" / part.name)
    assert hf.verify().findings == []

    for name, (damage, hurt, said) in DAMAGES.items():
        damage(hf, pack, hf.home.snapshots / bad.id, hf.home.snapshots / good.id)
        found = hf.verify()
        assert set(found.damaged) == hurt, name
        assert {s.name for s in hf.snapshots() if s.state == "damaged"} == hurt, name
        for label in hurt:
            with pytest.raises(SnapshotDamaged, match=said):
                hf.snapshot(label).restore("never")
        assert found.ok == (not hurt)
        for part in parts:
            shutil.rmtree(part)
            shutil.copytree(tmp_path / "whole" / part.name, part)
        again = hf.verify()
        assert again.ok, name
        assert len(again.findings) == len(hurt), name
        assert all(finding.repaired for finding in again.findings), name

    pack.unlink()
    hf.engine.images.remove(f"holdfast/snapshot:{bad.id}")
    assert hf.verify("bad").damaged == ["bad"]
    assert hf.snapshot("good").restore("from-good").exec("echo here").text == "here\n"
    assert [s.name for s in hf.sessions()] == ["parent", "from-good"]


@pytest.mark.thorough
def test_one_intact_form_repairs_the_other(hf: Holdfast) -> None:
    """Plain images are packed again when packs are damaged, and made again from packs when they are."""
    session = hf.new("parent")
    snapshot = session.snapshot("one").pack()
    images = hf.home.snapshots / snapshot.id / "images"
    packs = hf.home.root / "chunks" / "packs"
    flip(next(packs.iterdir()))
    found = hf.verify()
    assert found.ok
    assert any("packed again" in finding.text for finding in found.findings)
    assert hf.verify().findings == []

    (images / "inventory.img").unlink()
    os.truncate(max(images.glob("pages-*.img"), key=lambda path: path.stat().st_size), 4096)
    found = hf.verify()
    assert found.ok
    assert any("made again" in finding.text for finding in found.findings)
    assert hf.verify().findings == []


@pytest.mark.thorough
def test_data_of_a_newer_version_is_left_as_it_is(hf: Holdfast, cli: Any) -> None:
    """Neither checked, nor used, nor collected; it can be removed."""
    snapshot = hf.new("parent").snapshot("later", kind="filesystem")
    path = hf.home.snapshots / snapshot.id / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 4'))
    before = path.read_bytes()
    said = cli("verify")
    assert (said.code, "1 not checked" in said.out) == (0, True), said.out
    assert cli("verify", "--json").json["newer"] == ["later"]
    for verb in (["restore", "later"], ["export", "later", "-"], ["fits", "later"]):
        refused = cli(*verb)
        assert refused.code != 0, verb
        assert "a newer version of Holdfast wrote it (form 4; this one reads 3)" in refused.err, refused.err
    assert cli("gc").code == 0
    assert cli("snapshots").code == 0
    assert path.read_bytes() == before
    assert hf.snapshot("later").state == "ready"
    assert cli("rmi", "later").code == 0


def test_the_command_says_it(hf: Holdfast, cli: Any) -> None:
    """Exit code 0 and one line if all is intact; 1 and the affected snapshots if not."""
    hf.new("parent").snapshot("files", kind="filesystem")
    whole = cli("verify")
    assert (whole.code, "all whole" in whole.out) == (0, True)
    hf.engine.images.remove(f"holdfast/snapshot:{hf.snapshot('files').id}")
    hurt = cli("verify", "files", "--json")
    assert (hurt.code, hurt.json["damaged"]) == (1, ["files"])
    assert cli("verify").out.startswith("snapshot files: its image was removed")
