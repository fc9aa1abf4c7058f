"""The possible kinds of builds, and the names of their results."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine import buildkit_command
from holdfast.errors import ImageError, InvalidArgument
from holdfast.runtime.lifecycle.image_build import ImageBuild, lost_step, provided_name

PROXY = "http://user:password@proxy:1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    return tmp_path


def test_a_folder_has_its_own_dockerfile(folder: Path, tmp_path: Path) -> None:
    """A different one could be outside of it."""
    assert ImageBuild.of(folder) == ImageBuild(folder, folder / "Dockerfile", {}, None)
    other = tmp_path / "other"
    other.write_text("FROM scratch\n")
    assert ImageBuild.of(folder, other, {"A": "b"}, "last") == ImageBuild(folder, other, {"A": "b"}, "last")


def test_missing_parts_are_named(tmp_path: Path) -> None:
    for given, why in (
        ("none", "the folder does not exist"),
        ("file", "it is not a folder"),
        ("", "no Dockerfile"),
    ):
        (tmp_path / "file").touch()
        with pytest.raises(ImageError, match=rf"^cannot build [^:]*: {why}|there is {why}"):
            ImageBuild.of(tmp_path / given)


def test_names_are_checked_before_anything_is_sent(folder: Path) -> None:
    with pytest.raises(InvalidArgument, match="'A B' is not the name of an argument"):
        ImageBuild.of(folder, arguments={"A B": "c"})
    with pytest.raises(InvalidArgument, match="'--x' is not the name of a stage"):
        ImageBuild.of(folder, target="--x")


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("My App", "holdfast/provided:my-app-0123456789ab"),
        ("...", "holdfast/provided:image-0123456789ab"),
        ("übung_1", "holdfast/provided:bung-1-0123456789ab"),
        ("x" * 200, f"holdfast/provided:{'x' * 40}-0123456789ab"),
    ],
)
def test_images_are_named_after_their_source(called: str, name: str) -> None:
    assert provided_name(called, "sha256:0123456789abcdef") == name


def test_a_build_with_a_removed_step_is_distinguished() -> None:
    """It is built once more; a missing base image, or a step that fails, is an error immediately."""
    lost = "cannot build /x: unable to find image"
    assert lost_step(f"{lost} sha256:{'0a' * 32}")
    assert lost_step(f'{lost} "sha256:{"0a" * 32}"')
    assert lost_step(f"cannot build /x: No such image: sha256:{'0a' * 32}")
    for said in ("failed to export image: failed to set parent", "failed to get digest"):
        assert lost_step(f"cannot build /x: {said} sha256:{'0a' * 32}: unknown parent")
    assert not lost_step(f"{lost} 'nowhere:latest' locally")
    assert not lost_step("cannot build /x: The command '/bin/sh -c false' returned a non-zero code: 1")


@pytest.mark.parametrize(
    ("version", "plugin", "found"),
    [("18.09.1", False, True), ("20.10.24", False, True), ("23.0.1", False, False), ("28.2.2", True, True)],
)
def test_the_command_has_buildkit_or_not(tmp_path: Path, version: str, plugin: bool, found: bool) -> None:
    """From version 23 on it needs a plugin."""
    command = tmp_path / "docker"
    last = "echo github.com/docker/buildx v0.1" if plugin else "exit 1"
    command.write_text(
        f"#!/bin/sh\n[ $1 != --version ] || exec echo Docker version {version}, build 1\n{last}\n"
    )
    command.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert buildkit_command.find(environ) == (str(command) if found else None)
    assert buildkit_command.find(environ | {"DOCKER_BUILDKIT": "0"}) is None
    assert buildkit_command.find({"PATH": str(tmp_path / "none")}) is None


def test_values_of_a_project_are_arguments_and_the_callers_stay_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a project is in the environment; a caller's value is, unless its name decides something."""
    command, folder = tmp_path / "docker", tmp_path / "folder"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\n")
    command.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/words\nenv >{tmp_path}/environment\n'
        'while [ "$1" != --iidfile ]; do shift; done\necho sha256:1 >"$2"\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "unix:///own")
    monkeypatch.setenv("SOMETHING", "else")
    project = {"DOCKER_HOST": "tcp://evil:1", "LD_PRELOAD": "/x.so", "VERSION": "3", "BASH_ENV": "/x"}
    private = {"TOKEN": "hidden", "PATH": "/chosen", "HTTPS_PROXY": PROXY, "https_proxy": PROXY}
    made = buildkit_command.build(
        str(command), folder, folder / "Dockerfile", project, None, print, private=private
    )
    assert made == "sha256:1"
    words = (tmp_path / "words").read_text().splitlines()
    given = {words[at + 1] for at, word in enumerate(words) if word == "--build-arg"}
    assert given == {
        *("DOCKER_HOST=tcp://evil:1", "LD_PRELOAD=/x.so", "VERSION=3", "BASH_ENV=/x"),
        *("TOKEN", "PATH=/chosen", "HTTPS_PROXY", "https_proxy"),
    }
    environment = dict(
        line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines() if "=" in line
    )
    assert environment["TOKEN"] == "hidden"
    assert environment["DOCKER_HOST"] == "unix:///own"
    assert {"LD_PRELOAD", "BASH_ENV", "VERSION", "SOMETHING"}.isdisjoint(environment)
    assert environment["https_proxy"] == PROXY
    assert not {"hidden", PROXY} & set(" ".join(words).split("="))
