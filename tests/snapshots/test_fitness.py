"""The possible restores of a snapshot on a different machine, and the reasons against others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.snapshots.fitness import Here, Needs, compare
from holdfast.snapshots.machine import MachineFeatures, Vdso
from holdfast.snapshots.manifest import Manifest, Processes

VDSO = Vdso(code=8192, data=16384, symbols={"__vdso_getrandom": 0xF40, "__vdso_time": 0xAC0})
MOVED = Vdso(code=8192, data=16384, symbols={"__vdso_getrandom": 0xF50, "__vdso_time": 0xAC0})
MACHINE = MachineFeatures(
    arch="x86_64",
    kernel="6.12.48+deb13-amd64",
    criu="4.3",
    processor="Some Processor",
    cpu=["avx2", "avx512f", "ibrs", "sse2"],
    xfeatures=0xE5,
    xsave_bytes=2432,
    page_bytes=4096,
    cgroup=2,
    has=["seccomp", "time_namespace"],
    vdso=VDSO,
)
NEEDS = Needs(live=True, machine=MACHINE, uses=["time_namespace"], memory_bytes=1 << 30, holdfast="0.1.0")
HERE = Here(machine=MACHINE, memory_bytes=8 << 30, platform="linux/amd64", holdfast="0.1.0")


def here(**machine: Any) -> Here:
    return HERE.model_copy(update={"machine": MACHINE.model_copy(update=machine)})


def test_on_the_same_machine_everything_is_possible() -> None:
    """Nothing is in the way, nothing is noted."""
    ladder = compare(NEEDS, HERE, commands=3)
    assert [(rung.name, rung.possible, rung.reasons, rung.notes) for rung in ladder.rungs] == [
        ("live", True, [], []),
        ("commands", True, [], []),
        ("files", True, [], []),
    ]
    assert ladder.best is ladder.rung("live")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"cpu": ["avx2", "ibrs", "sse2"]}, "this processor lacks avx512f"),
        ({"xfeatures": 0x7}, "cannot hold registers"),
        ({"xfeatures": 0x2E5, "xsave_bytes": 2440}, "registers take 2440 bytes here"),
        ({"page_bytes": 65536}, "in pages of 4096 bytes, this kernel's have 65536"),
        ({"kernel": "6.1.0-40-amd64"}, "this kernel (6.1.0-40-amd64) is older"),
        ({"criu": "4.2.1"}, "written by CRIU 4.3, which CRIU 4.2.1 perhaps cannot read"),
        ({"has": ["seccomp"]}, "this kernel lacks time_namespace"),
        ({"vdso": MOVED}, "call __vdso_getrandom in their kernel's vDSO"),
        ({"arch": "aarch64"}, "its processes are from a x86_64 machine, and this is aarch64"),
    ],
)
def test_memorys_needs_prevent_live_restores_only(other: dict[str, Any], why: str) -> None:
    """Each has a reason of its own, and its files can be had."""
    ladder = compare(NEEDS, here(**other), commands=3)
    live = ladder.rung("live")
    assert not live.possible
    assert len(live.reasons) == 1
    assert why in live.reasons[0]
    assert ladder.best is ladder.rung("commands")


@pytest.mark.parametrize(
    "other",
    [
        {"cpu": ["amx_tile", "avx2", "avx512f", "sse2"]},
        {"kernel": "6.12.1", "vdso": VDSO},
        {"kernel": "6.18.4"},
        {"criu": "4.4"},
        {"cgroup": 1},
        {"cpu": [], "xfeatures": None, "xsave_bytes": None, "vdso": None, "has": []},
    ],
)
def test_more_newer_and_unknown_are_not_in_the_way(other: dict[str, Any]) -> None:
    """A processor that can more, a newer kernel or CRIU; mitigations are the kernel's own business."""
    assert compare(NEEDS, here(**other)).rung("live").possible


def test_harmless_differences_are_noted() -> None:
    """A later reader of a difference finds it mentioned."""
    live = compare(NEEDS, here(kernel="6.18.4", criu="4.4", cgroup=1, processor="Another")).rung("live")
    assert live.possible
    assert len(live.notes) == 4


def test_all_reasons_are_reported_together() -> None:
    """They do not have to be solved one by one to see the next."""
    found = here(kernel="5.10", criu="4.0", cpu=["sse2"]).model_copy(update={"memory_bytes": 1 << 20})
    assert len(compare(NEEDS, found).rung("live").reasons) == 4


@pytest.mark.parametrize(
    "other",
    [
        VDSO.model_copy(update={"code": 4096}),
        Vdso(code=8192, data=16384, symbols={"__vdso_getrandom": 0xF50, "__vdso_time": 0xAD0}),
    ],
)
def test_a_vdso_that_criu_sees_to_be_another_does_not_matter(other: Vdso) -> None:
    """It keeps the old one then, and makes the clocks in it lead to the new one's. That is noted."""
    live = compare(NEEDS, here(vdso=other)).rung("live")
    assert live.possible
    assert "vDSO differs" in live.notes[0]


def test_programs_for_a_different_kind_of_processor_cannot_be_had_at_all() -> None:
    """Not even its files would run."""
    found = HERE.model_copy(update={"platform": "linux/arm64"})
    ladder = compare(NEEDS, found, commands=1)
    assert ladder.best is None
    assert ladder.rung("files").reasons == ["its programs are for amd64, this engine runs arm64"]


def test_a_snapshot_of_files_has_no_live_rung() -> None:
    """And says so, instead of looking at processors."""
    ladder = compare(NEEDS.model_copy(update={"live": False}), here(cpu=[]), commands=0)
    assert ladder.rung("live").reasons == ["it is a snapshot of files: it does not contain processes"]
    assert ladder.rung("commands").reasons == ["no commands are recorded with it"]
    assert ladder.best is ladder.rung("files")


def test_foreign_text_is_made_printable() -> None:
    """Names are part of the reasons."""
    foreign = MachineFeatures.model_validate(
        {**MACHINE.model_dump(), "cpu": ["avx\x1b]0;x\x07"], "kernel": "9\u202e"}
    )
    needs = Needs.model_validate({**NEEDS.model_dump(), "machine": foreign, "uses": ["\x1b[2J"]})
    reasons = compare(needs, HERE).rung("live").reasons
    assert len(reasons) == 3
    assert all(reason.isprintable() for reason in reasons)


def test_an_older_manifest_is_compared_by_its_fields() -> None:
    """Kind of machine, kernel and CRIU were always recorded; that the rest was not is noted."""
    processes = Processes(
        root_pid=2,
        last_pid=9,
        token="t",
        addresses=[],
        memory_bytes=5,
        criu="4.2",
        kernel="6.1.0",
        machine="x86_64",
    )
    kept = Manifest(
        id="a" * 12,
        kind="live",
        label=None,
        created_at=datetime.now(UTC),
        session="b" * 12,
        session_name="s",
        generation=0,
        parent=None,
        image="sha256:0",
        options={},
        processes=processes,
        files=[],
    )
    needs = kept.all_needs()
    assert (needs.live, needs.memory_bytes, needs.machine.criu) == (True, 5, "4.2")
    live = compare(needs, HERE).rung("live")
    assert live.possible
    assert any("not recorded" in note for note in live.notes)
