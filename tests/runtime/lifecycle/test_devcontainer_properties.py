"""Each property that a devcontainer.json can have, with values of an attacker, and its effect.

The properties come from the Development Containers Specification (its JSON schema), and from editors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.lifecycle.test_devcontainer import project, read

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.runtime.api import devcontainer_start
from holdfast.runtime.lifecycle import devcontainer
from holdfast.runtime.lifecycle.image_build import ImageBuild
from holdfast.runtime.sessions.session_options import SessionOptions

__all__ = ["project"]  # a fixture

READ = "${localEnv:SECRET} ${env:SECRET} ${localEnv:SECRET:}"
RUN = f"touch WITNESS; echo {READ}"
COMMANDS: tuple[object, ...] = (RUN, ["touch", "WITNESS", READ], {"a": RUN, "b": ["touch", "WITNESS", READ]})
MOUNTS = ["source=/,target=/host,type=bind", {"source": READ, "target": "/host", "type": "bind"}]

HEEDED: dict[str, tuple[object, ...]] = {
    "image": ("other",),
    "build": ({"dockerfile": "D", "args": {"A": READ}, "target": "t"},),
    "dockerFile": ("D",),
    "containerEnv": ({"A": READ},),
    "remoteEnv": ({"A": READ},),
    "containerUser": ("one",),
    "remoteUser": ("one",),
    "workspaceFolder": (f"/x/{READ}",),
    **dict.fromkeys(devcontainer.COMMANDS, COMMANDS),
}
"""Taken over, within the session."""
REFUSED: dict[str, tuple[object, ...]] = {
    "features": ({"ghcr.io/x/y:1": {"a": READ}},),
    "dockerComposeFile": ("docker-compose.yml", ["a.yml", "/etc/passwd"]),
}
NAMED: dict[str, tuple[object, ...]] = {
    "initializeCommand": COMMANDS,
    "postAttachCommand": COMMANDS,
    "overrideFeatureInstallOrder": (["x"],),
    "secrets": ({"SECRET": {"description": READ}},),
    "forwardPorts": ([22, "db:5432"],),
    "portsAttributes": ({"22": {"onAutoForward": "openBrowser"}},),
    "otherPortsAttributes": ({"onAutoForward": "openBrowser"},),
    "mounts": (MOUNTS,),
    "workspaceMount": ("source=/,target=/host,type=bind",),
    "init": (True,),
    "privileged": (True,),
    "capAdd": (["SYS_ADMIN"],),
    "securityOpt": (["seccomp=unconfined", "apparmor=unconfined"],),
    "runArgs": (
        ["--privileged", "--network=host", "-v=/:/host", f"--env=A={READ}", "--env-file=/etc/shadow"],
    ),
    "appPort": (22, "22:22", [22, "0.0.0.0:22:22"]),
    "shutdownAction": ("none",),
    "overrideCommand": (False, True),
    "userEnvProbe": ("loginInteractiveShell",),
    "hostRequirements": ({"cpus": 10**30, "memory": "9tb", "gpu": True},),
    "service": ("a",),
    "runServices": (["a"],),
    "devPort": (22,),
    "codespaces": ({},),
    "additionalProperties": ({},),
    "initializecommand": COMMANDS,
    "__proto__": ({"privileged": True},),
}
"""Without effect, and one line says so; the last two are of no specification."""
OF_EDITORS: dict[str, tuple[object, ...]] = {
    "$schema": ("file:///etc/passwd",),
    "name": (READ,),
    "customizations": ({"vscode": {"settings": {"a": READ}}},),
    "settings": ({"terminal.integrated.shell.linux": "/host/evil"},),
    "extensions": (["x.y"],),
    "updateRemoteUserUID": (True,),
    "waitFor": ("initializeCommand",),
    "context": ("..",),  # it means something with dockerFile only
}
"""Without effect, and not worth a line."""
OF_BUILDS: dict[str, tuple[object, ...]] = {
    "options": (["--network=host", "--secret=id=a,src=/etc/shadow", "--ssh=default"],),
    "cacheFrom": ("127.0.0.1:5000/x", ["x", "y"]),
    "contexts": ({"a": "/"},),
    "ssh": (["default"],),
}
"""Properties of `build`, without effect and named."""
Cases = list[tuple[str, object]]


def cases(table: Mapping[str, tuple[object, ...]]) -> Cases:
    return [(name, value) for name, values in table.items() for value in values]


@pytest.fixture(autouse=True)
def witness(monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    """A file that a command makes if it is run here, and a variable that projects must not read."""
    monkeypatch.setenv("SECRET", "its-value")
    monkeypatch.chdir(project)
    return project / "WITNESS"


def test_each_property_is_in_one_table() -> None:
    """A property that becomes heeded, or is passed over in silence, needs its line here."""
    tables = (HEEDED, REFUSED, NAMED, OF_EDITORS)
    assert len({name for table in tables for name in table}) == sum(map(len, tables))
    assert set(devcontainer._HEEDED) == {*HEEDED, "context"}
    assert set(devcontainer._NEEDED) == set(REFUSED)
    assert set(devcontainer._OF_EDITORS) | {"context"} == set(OF_EDITORS)


@pytest.mark.parametrize(("name", "value"), cases(HEEDED))
def test_heeded_properties_do_not_read_the_host(
    project: Path, witness: Path, name: str, value: object
) -> None:
    """Each variable of the host is named instead; no command runs here."""
    image = {} if name in ("image", "build", "dockerFile") else {"image": "a"}
    found = read(project, **image, **{name: value})
    plain = read(project, image="a")
    assert replace(found, left_out=()) != replace(plain, left_out=())
    assert "its-value" not in repr(found)
    named = [line for line in found.left_out if line.endswith("is not read; --env sets variables")]
    assert len(named) == json.dumps(value).count("SECRET")
    assert not witness.exists()


@pytest.mark.parametrize(("name", "value"), cases(REFUSED))
def test_compose_and_feature_projects_are_refused(project: Path, name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} is not available: ") as refused:
        read(project, image="a", **{name: value})
    assert "its-value" not in str(refused.value)


@pytest.mark.parametrize(("name", "value"), cases(NAMED))
def test_ignored_properties_change_nothing_and_are_named(
    project: Path, witness: Path, name: str, value: object
) -> None:
    found = read(project, image="a", **{name: value})
    assert found == replace(read(project, image="a"), left_out=(f"{name} is ignored",))
    assert not witness.exists()


@pytest.mark.parametrize(("name", "value"), cases(OF_EDITORS))
def test_editor_settings_are_ignored(project: Path, name: str, value: object) -> None:
    assert read(project, image="a", **{name: value}) == read(project, image="a")


@pytest.mark.parametrize(("name", "value"), cases(OF_BUILDS))
def test_a_build_has_no_other_properties(project: Path, name: str, value: object) -> None:
    found = read(project, build={name: value})
    assert found == replace(read(project, build={}), left_out=(f"build.{name} is ignored",))


def test_a_flood_of_settings_is_counted(project: Path) -> None:
    """A person sees what follows."""
    found = read(project, image="a", **{f"k{number}": 1 for number in range(5000)})
    assert len(found.left_out) == devcontainer.MOST_NAMED + 1
    assert found.left_out[-1] == f"{5000 - devcontainer.MOST_NAMED} more settings are ignored"


HOSTILE = {
    "half of a character": "\ud800",
    "NUL": "a\0b",
    "line": "a\nb",
    "escape": "a\x1b]52;c;x\x07",
    "bidi": "\u202eabc",
    "long": "x" * 5000,
    "option": "-x",
    "blank": " ",
    "above": "../..",
    "absolute": "/etc/passwd",
    "kernel": "/proc/self/fd/8",
    "assignment": "A=B",
    "variable": "${localEnv:SECRET}${containerEnv:A}",
}
PLACES: dict[str, Any] = {
    "image": lambda text: {"image": text},
    "user": lambda text: {"image": "a", "remoteUser": text},
    "folder": lambda text: {"image": "a", "workspaceFolder": text},
    "folder below": lambda text: {"image": "a", "workspaceFolder": f"/{text}"},
    "value": lambda text: {"image": "a", "containerEnv": {"A": text}},
    "variable": lambda text: {"image": "a", "remoteEnv": {text: "a"}},
    "command": lambda text: {"image": "a", "postStartCommand": text},
    "word": lambda text: {"image": "a", "postStartCommand": [text]},
    "name of a command": lambda text: {"image": "a", "postStartCommand": {text: "a"}},
    "dockerfile": lambda text: {"build": {"dockerfile": text}},
    "context": lambda text: {"build": {"context": text}},
    "argument": lambda text: {"build": {"args": {text: "a"}}},
    "argument's value": lambda text: {"build": {"args": {"A": text}}},
    "target": lambda text: {"build": {"target": text}},
    "property": lambda text: {"image": "a", text: text},
    "property of build": lambda text: {"build": {text: text}},
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("place", PLACES)
def test_a_hostile_text_is_harmless_or_refused_in_one_line(project: Path, place: str, text: str) -> None:
    """As text, or with a name: all that follows from the file before an engine is asked."""
    (project / ".devcontainer" / "Dockerfile").write_text("FROM a\n")
    refusal = ""
    try:
        found = read(project, **PLACES[place](text))
        if found.context is not None:
            ImageBuild.of(found.context, found.file, found.arguments, found.target)
        env = devcontainer_start._with_own(found.env, None)
        options = SessionOptions.parse(image=found.image, workdir=found.workspace, user=found.user, env=env)
    except HoldfastError as refused:
        refusal = str(refused)
    assert refusal.isprintable()
    assert "its-value" not in refusal
    if refusal:
        return
    assert all(line.isprintable() for line in (*found.left_out, *(name for name, _ in found.commands)))
    assert options.workdir is not None
    assert options.workdir.isprintable()
    assert not options.workdir.startswith(("/proc", "/sys", "/dev", "/run/holdfast", "/opt/holdfast"))
    assert options.env == dict(found.env)
    repr((found, options)).encode()
    assert "its-value" not in repr((found, options))


@pytest.mark.parametrize(
    "folder",
    [
        "/proc",
        "/proc/1/root/tmp",
        "/sys/x",
        "/dev/shm",
        "/run/holdfast",
        "//run/./holdfast/x",
        "/opt/holdfast/x",
    ],
)
def test_a_workspace_is_not_a_place_of_the_system(project: Path, folder: str) -> None:
    """The engine follows such paths, where it could find folders of its own (CVE-2024-21626)."""
    with pytest.raises(InvalidArgument, match="is not a folder for a project"):
        read(project, image="a", workspaceFolder=folder)


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * 500_000, "/* " * 340_000, '{"a": "' + "\\\\" * 500_000, '{"a": ' + '" /*' * 250_000],
    ids=["string", "comment", "escapes", "both"],
)
@pytest.mark.timeout(60)
def test_a_missing_end_is_looked_for_once(project: Path, text: str) -> None:
    """A search from each later quote would take hours."""
    (project / devcontainer.PLACES[0]).write_text(text)
    with pytest.raises(InvalidArgument, match="it is not readable"):
        devcontainer.read(project)


def test_the_file_is_one_of_the_project(project: Path, tmp_path: Path) -> None:
    """A link within the project is followed; none leads out of it, and nothing is waited for."""
    place, other = project / devcontainer.PLACES[0], project / "other.json"
    other.write_text('{"image": "a"}')
    place.symlink_to(other)
    assert devcontainer.read(project).image == "a"
    outside = tmp_path / "outside.json"
    outside.write_text('{"image": "its-value"}')
    pipe = project / "pipe"
    os.mkfifo(pipe)
    for target in (outside, Path("/proc/kmsg"), Path("/dev/zero"), pipe, project, place, project / "gone"):
        place.unlink()
        place.symlink_to(target)
        with pytest.raises(InvalidArgument) as refused:
            devcontainer.read(project)
        assert "its-value" not in str(refused.value)
        assert str(refused.value).isprintable()


def test_links_in_circles_are_refused(project: Path) -> None:
    (project / "circle").symlink_to("circle")
    found = read(project, build={"context": "../circle", "dockerfile": "../circle"})
    assert found.context is not None
    with pytest.raises(HoldfastError, match=r"^cannot build "):
        ImageBuild.of(found.context, found.file)
