"""A release is made from its tag alone, by a script that workflows run as people do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from holdfast.base.version import VERSION

ROOT = Path(__file__).parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
FILES = ("setup/release", "setup/common.sh", "src/holdfast/base/version.py")


def git(folder: Path, *words: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository that is ready for its release, and has its tag."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} 2026-12-01\n")
    (tmp_path / "setup" / "page").write_text("#!/bin/sh\necho the page is built; exit 3\n")
    (tmp_path / "setup" / "page").chmod(0o755)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "tag", f"v{VERSION}")
    return tmp_path


def release(checkout: Path, tag: str = f"v{VERSION}") -> tuple[int, str]:
    done = subprocess.run(
        ["setup/release", tag], cwd=checkout, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_a_tag_of_the_version_is_built(checkout: Path) -> None:
    """The checks pass, and the first step of the build runs."""
    assert release(checkout) == (3, "the page is built\n")


def test_a_tag_that_is_not_the_version_is_refused(checkout: Path) -> None:
    code, said = release(checkout, "v9.9.9")
    assert (code, said.count("\n")) == (1, 1)
    assert f"has version {VERSION}" in said


def test_a_release_without_its_heading_in_the_changelog_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    code, said = release(checkout)
    assert (code, said.count("\n")) == (1, 1)
    assert "CHANGELOG.md" in said


def test_changes_since_the_tag_are_refused(checkout: Path) -> None:
    """A changed file, a new one, and a later commit."""
    (checkout / "new").write_text("")
    assert "changes since the commit" in release(checkout)[1]
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "two")
    code, said = release(checkout)
    assert code == 1
    assert "not the tag of this commit" in said


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_run_scripts_of_the_checkout(path: Path) -> None:
    """Each script that a step names is there, and executable."""
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    words = " ".join(step.get("run", "") for job in jobs for step in job["steps"]).split()
    scripts = {word for word in words if word.startswith(("setup/", ".ci/"))}
    assert scripts
    assert {word for word in scripts if not os.access(ROOT / word, os.X_OK)} == set()


def test_both_systems_try_each_python_with_locked_and_lowest_packages() -> None:
    """Also the versions that the package permits."""
    github = yaml.safe_load((WORKFLOWS / "ci.yml").read_text())["jobs"]["pure"]["strategy"]["matrix"]
    gitlab = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())["pure"]["parallel"]["matrix"][0]
    assert github == {"python": PYTHONS, "packages": ["locked", "lowest"]}
    assert gitlab == {"PYTHON_VERSION": PYTHONS, "PACKAGES": ["", "--lowest"]}
    assert f'requires-python = ">={PYTHONS[0]}"' in (ROOT / "pyproject.toml").read_text()


def test_the_lowest_packages_are_within_the_bounds_of_the_package() -> None:
    """Nearly all are exactly at their bound; a few need something newer themselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements-lowest.lock").read_text()
    named = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    exact = 0
    for requirement in map(Requirement, named):
        found = re.search(rf"(?m)^{requirement.name.lower()}(?:\[\w+\])?==([\d.]+)", lock)
        assert found, requirement
        assert requirement.specifier.contains(found[1]), (str(requirement), found[1])
        bound = next(each.version for each in requirement.specifier if each.operator == ">=")
        exact += (found[1] + ".0.0").startswith(bound + ".")
    assert exact >= len(named) - 3
