"""The table of `docs/machines.md` agrees with the results file, and no cell of it is red without a reason."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.machines import matrix_page, matrix_results
from tests.machines.cells import CELLS, EngineSpec
from tests.machines.engine_kinds import FUSE_OVERLAYFS, PODMAN, ROOTLESS, Folders, command
from tests.machines.matrix_results import Row
from tests.machines.scenario import VERBS, Step

VERSIONS = {"engine": "28", "containerd": "2.1", "runc": "1.3", "kernel": "6.18", "cgroup": "1"}
GOOD = Row(
    "good", "Docker 28, overlay2", "root", VERSIONS,
    tuple(Step(verb, "ok", "frozen 0.21 s" if verb == "snapshot" else "") for verb in VERBS),
)  # fmt: skip
REFUSED = Row(
    "refused", "Podman 5", "root", VERSIONS,
    (Step("doctor", "refused", "the same"), Step("new", "refused", "it is | Podman")),
)  # fmt: skip
BAD = Row("bad", "Docker 30", "root", VERSIONS, (Step("doctor", "ok"), Step("new", "failed", "no answer")))


def test_the_documentation_is_that_of_the_results() -> None:
    """The table is written from `matrix.json`, and by no one else."""
    text = matrix_page.FILE.read_text(encoding="utf-8")
    assert text == matrix_page.of(text, matrix_results.load())


def test_every_declared_cell_was_run() -> None:
    """In their order, with all verbs."""
    rows = matrix_results.load()
    names = [cell.name for cell in CELLS]
    assert [row.cell for row in rows if row.cell in names] == names
    assert all([step.verb for step in row.steps] == list(VERBS) for row in rows)


def test_nothing_fails_or_is_refused_without_a_reason() -> None:
    """Every failure has a reason; steps that were not run follow from it."""
    for row in matrix_results.load():
        bad = [step for step in row.steps if step.result in ("failed", "refused")]
        assert all(step.note for step in bad)
        assert bad or all(step.result == "ok" for step in row.steps)


def test_the_readme_agrees_with_the_table() -> None:
    """The versions of engines and kernels on which all steps work, and the refused ones."""
    text = (matrix_page.FILE.parents[1] / "README.md").read_text(encoding="utf-8")
    needs = " ".join(text.partition("## Needs")[2].split())
    rows = [row for row in matrix_results.load() if all(step.result == "ok" for step in row.steps)]
    engines = sorted({_minor(row.versions["engine"]) for row in rows})
    kernels = {_minor(row.versions["kernel"]) for row in rows}
    first, last = (".".join(map(str, version)) for version in (engines[0], engines[-1]))
    assert f"Docker {first} to {last}" in needs
    assert all(f"{major}.{minor} with cgroup" in needs for major, minor in kernels)
    assert all(name in needs for name in ("Podman", "Docker without root", "`userns-remap`", "vfs"))


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def test_the_table_is_valid_and_complete() -> None:
    """Every row has as many cells as its heading; reasons are below."""
    text = matrix_page.table([GOOD, REFUSED, BAD])
    rows = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows[:5]} == {len(VERBS) + 3}
    assert {line.count("|") for line in rows[5:]} == {6}
    assert "3 cells: everything works in 1, 1 are refused, 1 have a failure." in text
    assert "frozen 0.21 s" in text
    assert "- Podman 5, root: new: it is \\| Podman" in text
    assert "- Docker 30, root: new: no answer" in text
    assert "**failed**" in text


def test_a_page_without_marks_is_not_written() -> None:
    """The text around the table stays as it is."""
    page = f"above\n{matrix_page.BEGIN}\nold\n{matrix_page.END}\nbelow\n"
    assert "old" not in matrix_page.of(page, [GOOD])
    assert matrix_page.of(page, [GOOD]).startswith("above\n")
    assert matrix_page.of(page, [GOOD]).endswith("below\n")
    with pytest.raises(ValueError, match="marks"):
        matrix_page.of("above", [GOOD])


def test_rows_are_kept_and_replaced_by_cell(tmp_path: Path) -> None:
    """In the order of the cells; rows without a cell are dropped."""
    file = tmp_path / "matrix.json"
    assert matrix_results.load(file) == []
    matrix_results.save([GOOD, BAD], file)
    assert matrix_results.load(file) == [GOOD, BAD]
    again = Row(**{**json.loads(json.dumps(asdict(BAD))), "steps": ()})
    assert matrix_results.merged(matrix_results.load(file), again, ["bad", "other"]) == [again]


def test_expectations_differ_by_engine() -> None:
    """An engine that is fit does it all; one that is not refuses; vfs says that it is slow; and on
    fuse-overlayfs there is something that cannot be captured.
    """
    names = [cell.name for cell in CELLS]
    assert len(set(names)) == len(names)
    fit = next(cell for cell in CELLS if cell.engine == EngineSpec("sid"))
    unfit = next(cell for cell in CELLS if cell.engine.kind == PODMAN)
    slow = next(cell for cell in CELLS if cell.engine.store == "vfs")
    trial = next(cell for cell in CELLS if cell.engine.store == FUSE_OVERLAYFS)
    refused = tuple(
        Step(verb, "refused" if verb in ("doctor", "new") else "ok" if verb == "rm" else "not run")
        for verb in VERBS
    )
    assert fit.wrong(GOOD.steps) == []
    assert unfit.wrong(refused) == []
    assert len(fit.wrong(refused)) == len(VERBS) - 1
    assert slow.wrong(GOOD.steps) == ["a slow freeze is reported by no step"]
    assert [line.partition(":")[0] for line in trial.wrong(GOOD.steps)] == [
        "doctor",
        "rewind",
        "a slow freeze is reported by no step",
    ]


def test_commands_start_the_cells_program() -> None:
    """Engines without root run as an ordinary user."""
    folders = Folders(Path("/r"), Path("/d"))
    assert command("docker", folders, "vfs", "g")[-4:] == ["--cgroup-parent", "/g", "--storage-driver", "vfs"]
    assert "--storage-driver" not in command("docker", folders, "containerd")
    assert command(ROOTLESS, folders, "overlay2")[0] == "setpriv"
    assert command(PODMAN, folders, "overlay2")[-1] == "unix:///r/docker.sock"
