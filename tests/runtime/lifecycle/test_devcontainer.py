"""The requests of a devcontainer.json, the refused ones, and effects that a project cannot get by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.lifecycle import devcontainer
from holdfast.runtime.lifecycle.devcontainer import Devcontainer


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "My project"
    (made / ".devcontainer").mkdir(parents=True)
    return made


def read(project: Path, **given: Any) -> Devcontainer:
    (project / devcontainer.PLACES[0]).write_text(json.dumps(given))
    return devcontainer.read(project)


def test_all_heeded_properties(project: Path) -> None:
    """With comments, and commas before the end of a list, as editors write them."""
    (project / devcontainer.PLACES[0]).write_text(
        """\ufeff// A project
        {
            "name": "it", /* "image": "other", */
            "build": {
                "dockerfile": "../Dockerfile", "context": "..", "target": "t",
                "args": {"V": "7 // no comment"},
            },
            "containerEnv": {"A": "/* none */", "B": "1", "GONE": null},
            "remoteEnv": {"B": "${containerWorkspaceFolder}/${OTHER}", "C": "\\"// quoted, }"},
            "containerUser": "root", "remoteUser": "dev",
            "workspaceFolder": "/srv/${localWorkspaceFolderBasename}/",
            "postCreateCommand": {"one": "make", "two": ["make", "it, ]",],},
            "onCreateCommand": "echo ${x:-y}",
            "customizations": {"vscode": {}},
        }"""
    )
    assert devcontainer.read(project) == Devcontainer(
        folder=project,
        workspace="/srv/My project",
        image=None,
        context=project,
        file=project / "Dockerfile",
        arguments={"V": "7 // no comment"},
        target="t",
        env={"A": "/* none */", "B": "/srv/My project/${OTHER}", "C": '"// quoted, }'},
        user="dev",
        commands=(
            ("onCreateCommand", ("/bin/bash", "-c", "echo ${x:-y}")),
            ("postCreateCommand.one", ("/bin/bash", "-c", "make")),
            ("postCreateCommand.two", ("make", "it, ]")),
        ),
        left_out=(),
    )


def test_an_image_alone(project: Path) -> None:
    """The folder is where other tools have it."""
    found = read(project, image="debian:13")
    assert (found.image, found.context, found.file) == ("debian:13", None, None)
    assert (found.workspace, found.user, found.commands) == ("/workspaces/My project", None, ())


def test_builds_begin_beside_the_file(project: Path) -> None:
    """In today's form, and in the earlier one."""
    beside = project / ".devcontainer"
    assert read(project, build={}).file == beside / "Dockerfile"
    found = read(project, dockerFile="Other", context="..")
    assert (found.context, found.file) == (project, beside / "Other")


def test_the_file_can_be_in_the_folder_itself(project: Path) -> None:
    (project / ".devcontainer.json").write_text('{"image": "a"}')
    assert devcontainer.read(project).image == "a"
    (project / devcontainer.PLACES[0]).write_text('{"image": "b"}')
    assert devcontainer.read(project).image == "b"


def test_ignored_properties_are_named(project: Path) -> None:
    found = read(project, image="a", runArgs=["--privileged"], mounts=[], build=None, forwardPorts=[1])
    assert found.left_out == ("runArgs is ignored", "mounts is ignored", "forwardPorts is ignored")
    found = read(project, build={"cacheFrom": "x"})
    assert found.left_out == ("build.cacheFrom is ignored",)


@pytest.mark.parametrize("text", ["${localEnv:TOKEN}", "${env:TOKEN}", "${localEnv:TOKEN:}"])
def test_a_project_does_not_read_variables_of_the_host(
    project: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """It is named, so that its user can give it."""
    monkeypatch.setenv("TOKEN", "secret")
    found = read(project, image="a", containerEnv={"T": f"<{text}>"}, postCreateCommand=f"echo {text}")
    assert "secret" not in repr(found)
    assert found.env == {"T": "<>"}
    assert f"T: {text} is not read; --env sets variables" in found.left_out
    assert read(project, image="a", containerEnv={"T": "${localEnv:T:usual}"}).env == {"T": "usual"}


def test_a_project_does_not_build_of_other_folders(project: Path, tmp_path: Path) -> None:
    """Not by dots, by a full path, or by links."""
    (project / "out").symlink_to(tmp_path)
    for build in (
        {"context": "../.."},
        {"context": str(tmp_path)},
        {"context": "../out"},
        {"dockerfile": "../../Dockerfile"},
        {"dockerfile": "../out/Dockerfile"},
        {"dockerfile": "/etc/passwd"},
    ):
        with pytest.raises(InvalidArgument, match=r"build\.(context|dockerfile) leads out of "):
            read(project, build=build)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"image": "a", "features": {"x": {}}}, "features is not available: "),
        ({"dockerComposeFile": "x"}, "dockerComposeFile is not available: "),
        ({}, "it needs either an image or a build"),
        ({"image": "a", "build": {}}, "it needs either an image or a build"),
        ({"image": 1}, "image is not a text"),
        ({"image": "a\0"}, "image is not a text"),
        ({"build": []}, "build is not an object"),
        ({"build": {"args": []}}, "args is not an object"),
        ({"build": {"args": {"A": 1}}}, "A is not a text"),
        ({"image": "a", "workspaceFolder": "here"}, "workspaceFolder here is not a folder for a"),
        ({"image": "a", "workspaceFolder": "/../x"}, r"workspaceFolder /\.\./x is not a folder for a"),
        ({"image": "a", "workspaceFolder": "/"}, "workspaceFolder / is not a folder for a"),
        ({"image": "a", "postCreateCommand": 1}, "postCreateCommand is neither a text nor a list"),
        ({"image": "a", "postCreateCommand": ["a", 1]}, "postCreateCommand is neither a text nor a list"),
        (
            {"image": "a", "postCreateCommand": {"a": {}}},
            r"postCreateCommand\.a is neither a text nor a list",
        ),
        ({"image": "a", "postCreateCommand": "a\0b"}, "postCreateCommand is not a text"),
        ({"image": "a", "postCreateCommand": ["a", "\udfff"]}, "postCreateCommand is not a text"),
        ({"build": {"dockerfile": "a\udfff"}}, "dockerfile is not a text"),
        ({"image": "a", "containerEnv": {"A": "${containerEnv:B}"}}, "containerEnv:B} is not available"),
    ],
)
def test_unavailable_options_are_refused(project: Path, given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as refused:
        read(project, **given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '"' * 3, "[" * 100_000, "/*", "\0", "{} {}"])
def test_files_of_an_unexpected_form(project: Path, text: str) -> None:
    (project / devcontainer.PLACES[0]).write_text(text)
    with pytest.raises(InvalidArgument, match=r"^cannot use .*devcontainer\.json: it is "):
        devcontainer.read(project)


def test_files_that_are_missing_or_too_long(project: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"it does not contain a devcontainer\.json"):
        devcontainer.read(tmp_path)
    (project / devcontainer.PLACES[0]).write_bytes(b" " * (devcontainer.LONGEST + 1))
    with pytest.raises(InvalidArgument, match="longer than"):
        devcontainer.read(project)
    (project / devcontainer.PLACES[0]).write_bytes(b"\xff")
    with pytest.raises(InvalidArgument, match="not readable"):
        devcontainer.read(project)


@pytest.mark.parametrize("text", ['"' + '\\"' * 500_000, "/* " * 300_000, "[" + '"",' * 300_000 + '"'])
def test_strings_and_comments_without_end_take_no_time(project: Path, text: str) -> None:
    """In a file of the greatest length, a reader that looks for ends from each place needs hours."""
    assert devcontainer.LONGEST * 0.8 < len(text) <= devcontainer.LONGEST
    (project / ".devcontainer" / "devcontainer.json").write_text(text)
    with pytest.raises(InvalidArgument, match="it is not readable"):
        devcontainer.read(project)
