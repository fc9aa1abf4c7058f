"""The ways of finding ipykernel, by interpreter, and their effect on the path."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.images.build import IMAGES


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, IMAGES / "portable" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with ipykernel as ours is laid out: it says what it was started with."""
    kernel = _loaded("image_kernel")
    for each in kernel.folders(sys.version_info, kernel.has_gnu()):
        folder = tmp_path / Path(each).relative_to(kernel.PLACE)
        folder.mkdir(parents=True)
    _package(folder, "ours")
    (tmp_path / "python").mkdir()
    text = (IMAGES / "portable" / "image_kernel.py").read_text()
    (tmp_path / "image_kernel.py").write_text(text.replace(kernel.PLACE, str(tmp_path)))
    (tmp_path / "start_kernel.py").write_text("import sys; print(sys.argv[1:])")
    return tmp_path


def _package(folder: Path, name: str) -> None:
    package = folder / "ipykernel"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "kernelapp.py").write_text(
        "import json, sys\n"
        "def launch_new_instance():\n"
        f"    print(json.dumps(['{name}', sys.path, sys.argv]))\n"
    )


def _started(place: Path, way: str, packages: Path) -> str:
    """Return the output of a program in the place of the next attempt, or of ipykernel."""
    start = [sys.executable, str(place / "start_kernel.py")]
    code = _loaded("start_kernel").BECOME
    words = [sys.executable, "-S", "-c", code, way, "4", str(len(start)), *start, "-f", "file"]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_ipykernel_of_the_image_is_used_alone(place: Path, tmp_path: Path) -> None:
    """Ours is not even on the path."""
    packages = tmp_path / "image"
    _package(packages, "theirs")
    name, path, arguments = json.loads(_started(place, "theirs", packages))
    assert name == "theirs"
    assert [each for each in path if each.startswith(str(place / "kernels"))] == []
    assert arguments == [
        "ipykernel_launcher",
        "-f",
        "file",
        "--HistoryManager.hist_file=:memory:",
        "--ext=holdfast_session",
    ]


def test_without_one_ours_comes_last_and_leaves_nothing(place: Path, tmp_path: Path) -> None:
    """At the end of the path, and no compiled form of it is written."""
    packages = tmp_path / "image"
    packages.mkdir()
    name, path, _ = json.loads(_started(place, "theirs", packages))
    assert name == "ours"
    assert [each.startswith(str(place)) for each in path[-3:]] == [True, True, True]
    assert path.index(str(packages)) < path.index(str(place / "python"))
    assert list((place / "kernels").rglob("*.pyc")) == []


def test_a_failing_interpreter_gives_way_to_the_next(place: Path, tmp_path: Path) -> None:
    """The number of the attempt grows; ours is put in front in the end."""
    packages = tmp_path / "image"
    _package(packages, "theirs")
    (packages / "ipykernel" / "kernelapp.py").write_text("import none.such\n")
    assert _started(place, "theirs", packages) == "['--attempt=5', '-f', 'file']\n"
    assert _started(place, "behind", packages) == "['--attempt=5', '-f', 'file']\n"
    name, path, _ = json.loads(_started(place, "before", packages))
    assert name == "ours"
    assert path[0].startswith(str(place))


def test_an_attempt_that_was_skipped_counts(place: Path, tmp_path: Path) -> None:
    """Without an ipykernel of the image the first way is the second."""
    packages = tmp_path / "image"
    packages.mkdir()
    for each in (place / "kernels").rglob("kernelapp.py"):
        each.write_text("raise RuntimeError\n")
    assert _started(place, "theirs", packages) == "['--attempt=6', '-f', 'file']\n"


@pytest.mark.parametrize(
    ("version", "gnu", "found"),
    [
        ((3, 8), True, ["cp38-gnu", "python3.8"]),
        ((3, 10), False, ["cp310-musl", "python3.8"]),
        ((3, 11), True, ["cp311-gnu", "python3.11"]),
        ((3, 14), False, ["cp312-musl", "python3.11"]),
    ],
)
def test_which_packages_a_version_gets(version: tuple[int, int], gnu: bool, found: list[str]) -> None:
    """Compiled ones by version and C library, others by age."""
    assert [Path(each).name for each in _loaded("image_kernel").folders(version, gnu)] == found


@pytest.mark.parametrize(
    ("program", "why"),
    [("/bin/sh", "it is not Python"), ("none/such", "it is not Python")],
)
def test_a_chosen_program_other_than_python_is_refused(program: str, why: str) -> None:
    """In one line, and it is given nothing to run."""
    words = [sys.executable, str(IMAGES / "portable" / "start_kernel.py"), "-f", "file"]
    environment = {**os.environ, "HOLDFAST_PYTHON": program}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"cannot run cells in {program}: {why}\n")


def test_a_chosen_interpreter_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fallback would be acceptable."""
    monkeypatch.setenv("HOLDFAST_PYTHON", "/chosen")
    assert {each for each, _ in _loaded("start_kernel").attempts()} == {"/chosen"}


def test_each_interpreter_on_the_path_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python` first, then `python3` if that is a different one; ours is not one of them."""
    for name in ("python", "python3"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = list(_loaded("start_kernel").attempts())
    assert [way for _, way in found] == ["theirs", "behind", "before"] * 2
    assert list(dict.fromkeys(each for each, _ in found)) == [
        str(tmp_path / "python"),
        str(tmp_path / "python3"),
    ]
    (tmp_path / "python").unlink()
    (tmp_path / "python3").unlink()
    assert list(_loaded("start_kernel").attempts()) == []
