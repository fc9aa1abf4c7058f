"""The page agrees with the results file, and the declarations are valid."""

import dataclasses
import json
from pathlib import Path

import pytest
from tests.compat.projects import catalog, page, results
from tests.compat.projects.outcome import Capture, Outcome, all_good, from_dict
from tests.compat.projects.project import KINDS, Project

GOOD = Outcome(
    "good", "c", "its <suite> | all", 3, version="1.2", cases=1200, files=2, seconds=30.4,
    captures=(Capture(0.2, 6.1, 0.4), Capture(0.7, 20.0, 0.3)),
    copies=2, unsteady=("case a",), about={"CRIU": "4.3"},
)  # fmt: skip
BAD = dataclasses.replace(
    GOOD, name="bad", differences=tuple(f"copy: case {n}: passed, here failed" for n in range(20))
)
REFUSED = dataclasses.replace(GOOD, name="refused", captures=(Capture(0.2, 6.1, refused="traced"),), copies=0)
LOST = dataclasses.replace(GOOD, name="lost", captures=(), copies=0, error="cannot build it")


def test_the_documentation_is_that_of_the_results() -> None:
    """`docs/compat.md` is written from `results.json`, and by no one else."""
    assert page.FILE.read_text(encoding="utf-8") == page.of(results.load())


def test_the_results_match_the_declared_projects() -> None:
    """In the order of declaration; the page names the projects that have not been run."""
    ran = [one.name for one in results.load()]
    assert ran == [project.name for project in catalog.PROJECTS if project.name in ran]
    left = [project.name for project in catalog.PROJECTS if project.name not in ran]
    assert all(name in page.FILE.read_text(encoding="utf-8") for name in left)


def test_only_a_complete_run_without_differences_is_good() -> None:
    """A refused capture, a copy that did not end or an error is not a success."""
    assert GOOD.good
    assert all_good([GOOD])
    assert not all_good([GOOD, BAD])
    assert not any(one.good for one in (BAD, REFUSED, LOST, dataclasses.replace(GOOD, copies=1)))
    assert not dataclasses.replace(GOOD, captures=(), copies=0).good


def test_the_page_is_valid_and_complete() -> None:
    """Every row has as many cells as the heading; differences and errors are listed, long lists cut."""
    text = page.page([GOOD, BAD, REFUSED, LOST], {"bad": "a limit", "good": "unused"}, ["later"])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 6
    assert {line.replace("\\|", "").count("|") for line in rows} == {10}
    assert "nothing differs in 1, something in 2, 1 could not be tried to the end." in text
    assert "**20**" in text
    assert "8 more differences; the reason: a limit" in text
    assert "unused" not in text
    assert "Declared, and not run here yet: later." in text
    assert "refused at 6.1 s: traced" in text
    assert "not tried to the end: cannot build it" in text
    assert "its &lt;suite> \\| all" in text


def test_a_case_that_measured_the_wait_is_reported() -> None:
    """With both figures; and they come back from the results file."""
    clocked = dataclasses.replace(BAD, captures=(Capture(0.2, 6.1, 0.4, waited=8.9, measured=(9.7,)),))
    assert from_dict(json.loads(json.dumps(clocked.as_dict()))) == clocked
    text = page.page([clocked], {}, [])
    assert "took 9.7 s by the time of day; the snapshot had waited for at least 8.9 s" in text


def test_results_are_kept_and_replaced_by_name(tmp_path: Path) -> None:
    """A new run replaces its row, in the order of the declarations; others go."""
    file = tmp_path / "results.json"
    assert results.load(file) == []
    results.save([GOOD, BAD], file)
    assert results.load(file) == [GOOD, BAD]
    again = dataclasses.replace(BAD, differences=())
    assert results.merged(results.load(file), [again, LOST], ["lost", "bad"]) == [LOST, again]
    assert from_dict(REFUSED.as_dict()) == REFUSED


@pytest.mark.parametrize("project", catalog.PROJECTS, ids=lambda project: project.name)
def test_a_declaration_is_valid(project: Project) -> None:
    """Its reader exists, and something is compared."""
    assert project.faults() == []
    assert project.kind in KINDS


def test_faults_of_a_declaration_are_named() -> None:
    """All of them."""
    wrong = Project("A B", "c", "", "", reads="xml", files=("/etc/passwd",))
    assert len(wrong.faults()) == 4
    assert Project("ab", "c", "does", "true").faults() == ["it has neither cases nor files to compare"]


def test_every_kind_has_a_project_and_names_are_unique() -> None:
    """Projects are chosen by name or kind."""
    assert {project.kind for project in catalog.PROJECTS} == set(KINDS)
    assert len({project.name for project in catalog.PROJECTS}) == len(catalog.PROJECTS)
    assert {project.kind for project in catalog.chosen(["database"])} == {"database"}
    with pytest.raises(ValueError, match="no such project"):
        catalog.chosen(["emacs"])
