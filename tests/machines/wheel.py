"""The package as others install it: a wheel and a source archive, built from a copy of the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import holdfast

PACKAGE = Path(holdfast.__file__).parent
ROOT = PACKAGE.parent.parent
_LEFT_BEHIND = ("__pycache__", "*.pyc", "*.egg-info", ".*")
_BUILT_FROM = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"),
    *("setup/blocking", "src/holdfast_pytest_option.py"),
)


def copy_source(to: Path) -> Path:
    """Copy the files of a build to a folder, and return the package in it.

    The parts are links in the checkout; there they are folders, as in the built package. Modules that are
    made of others are left out, as in a fresh clone.
    """
    package = to / "src" / "holdfast"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))
    for path in made_modules(package):
        path.unlink()
    (to / "setup").mkdir()
    for name in _BUILT_FROM:
        shutil.copy2(ROOT / name, to / name)
    return package


def made_modules(package: Path) -> list[Path]:
    """Return the modules of a package that `setup/blocking` has made."""
    modules = (package / "runtime" / "client" / "blocking").glob("*.py")
    return [path for path in modules if path.read_text().startswith("# Made by setup/blocking ")]


def copy_tests(to: Path) -> None:
    """Copy the tests' files next to the installed package to a folder."""
    ignored = shutil.ignore_patterns(*_LEFT_BEHIND)
    for name in ("tests", "docs", "images"):
        shutil.copytree(ROOT / name, to / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(ROOT / name, to / name)


def build_archive(source: Path, into: Path) -> Path:
    """Build the source archive of a copied source."""
    program = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    into.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", program, into], cwd=source, stdout=subprocess.DEVNULL, check=True)
    (archive,) = into.glob("holdfast-*.tar.gz")
    return archive


def build(source: Path, into: Path) -> Path:
    """Build the wheel of a copied source, or of a source archive."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", into, source], check=True)
    (wheel,) = into.glob("holdfast-*.whl")
    return wheel
