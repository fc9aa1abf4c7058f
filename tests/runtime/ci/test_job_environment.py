"""The variables of a job, and the text with which a shell sets the secret ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.ci import job_environment
from holdfast.runtime.ci.delivery import Deliveries, DeliveryTarget
from holdfast.runtime.ci.redaction import Redaction

HOST = {"GITHUB_SHA": "abc", "GITHUB_TOKEN": "ghs_12345", "LANG": "C", "BASH_FUNC_x%%": "() { :; }"}


def test_wishes_about_colors_are_passed_on() -> None:
    """The command sees a terminal, but the log of the job can be a file; an explicit value wins."""
    assert job_environment.chosen([], HOST | {"NO_COLOR": "1"})["NO_COLOR"] == "1"
    assert "NO_COLOR" not in job_environment.chosen([], HOST)
    assert job_environment.chosen(["NO_COLOR=0"], HOST | {"NO_COLOR": "1"})["NO_COLOR"] == "0"


def test_variables_are_chosen_by_name_pattern_or_value() -> None:
    """Variables that the host lacks are left out, and only the CI system's own variables come unasked."""
    found = job_environment.chosen(["GITHUB_*", "MISSING", "A=1=2", "EMPTY="], HOST)
    assert {k: v for k, v in found.items() if k not in job_environment.DEFAULTS} == {
        "GITHUB_SHA": "abc",
        "GITHUB_TOKEN": "ghs_12345",
        "A": "1=2",
        "EMPTY": "",
    }
    assert found["CI"] == "true"
    assert job_environment.chosen(["CI=false"], {})["CI"] == "false"


@pytest.mark.parametrize("name", ["a b", "1X", "=x", "A-B=1"])
def test_an_invalid_name_is_refused(name: str) -> None:
    """With the argument named."""
    with pytest.raises(InvalidArgument, match="not a valid variable name"):
        job_environment.chosen([name], HOST)


def test_any_python_finds_the_pytest_plugin_on_request() -> None:
    """After the job's own path; other jobs get none that they did not ask for."""
    assert job_environment.with_plugin({"A": "1"}, "pytest -x") == {"A": "1"}
    assert job_environment.with_plugin({}, "pytest --holdfast -x") == {"PYTHONPATH": job_environment.PLUGIN}
    found = job_environment.with_plugin({"PYTHONPATH": "src", "PYTEST_ADDOPTS": "-q --holdfast"}, "make test")
    assert found["PYTHONPATH"] == f"src:{job_environment.PLUGIN}"


def test_secret_variables_are_separated() -> None:
    """They are not among the recorded variables."""
    shown, hidden = job_environment.split({"A": "1", "GITHUB_TOKEN": "x", "B": "2"}, Redaction({}, ["B"]))
    assert (shown, hidden) == ({"A": "1"}, {"GITHUB_TOKEN": "x", "B": "2"})


def test_a_shell_has_them_for_one_command_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of any kind arrive; afterwards neither the variables nor the file are there."""
    place = tmp_path / "place"
    monkeypatch.setattr(job_environment, "PLACE", str(place))
    values = {"T_TOKEN": 'it\'s\n"$x" `y`', "U_KEY": " \\"}
    place.write_text(job_environment.script(values))
    text = job_environment.around('printf "%s|" "$T_TOKEN" "$U_KEY"; cd /; (exit 3)', values)
    after = 'echo "$? ${T_TOKEN-gone} ${U_KEY-gone} $PWD"'
    done = subprocess.run(["bash", "-c", f"{text}\n{after}"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{values['T_TOKEN']}|{values['U_KEY']}|3 gone gone /\n"
    assert not place.exists()


def test_more_than_the_kernel_takes_is_refused() -> None:
    """In advance, with advice."""
    with pytest.raises(InvalidArgument, match="more than"):
        job_environment.script({"A_KEY": "x" * 200_000})


def test_names_of_deliveries_are_plain_and_distinct() -> None:
    """Two tests of the same name do not overwrite each other."""
    deliveries = Deliveries(DeliveryTarget(Path("out")))
    first = deliveries.name("tests/test_a.py::test_b[x y]")
    assert first == "tests-test_a.py-test_b-x-y"
    assert deliveries.name("tests/test_a.py::test_b[x y]") == f"{first}-2"
    assert deliveries.name("../..") == "failure"
    assert deliveries.place("failure") == "out/failure.holdfast"


def test_references_of_deliveries() -> None:
    """The failure has the given one, other captures have their name in the tag."""
    tagged = Deliveries(DeliveryTarget(reference="host:5000/ci:run-7"))
    assert tagged.place("failure") == "host:5000/ci:run-7"
    assert tagged.place("a-test") == "host:5000/ci:run-7-a-test"
    plain = Deliveries(DeliveryTarget(reference="host:5000/ci"))
    assert plain.place("a-test") == "host:5000/ci:a-test"
    assert len((tagged.place("x" * 300) or "").rpartition(":")[2]) <= 128
