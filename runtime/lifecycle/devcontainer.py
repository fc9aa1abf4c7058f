"""The requests of a devcontainer.json, as far as sessions support them. Pure but for reading the file.

The file comes with a project, and is not trusted: nothing outside of its folder is read for it, and no
variables of the host. Ignored requests are named, and indispensable ones are refused. The Development
Containers Specification defines the form.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.guest import layout
from holdfast.runtime.lifecycle.dockerfile_context import USUAL_FILE
from holdfast.runtime.sessions import writable_places

PLACES = (".devcontainer/devcontainer.json", ".devcontainer.json")
LONGEST = 1 << 20
"""Bytes of the file; those of real projects have a few thousand."""
MOST_NAMED = 40
"""Settings that are named because they are not heeded; the others are counted."""
COMMANDS = ("onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand")
"""In the order in which they run."""
_NEEDED = {
    "dockerComposeFile": "sessions have one container",
    "features": "they would run as root while an image is made",
}
"""Properties that cannot be left out without changing the result."""
_HEEDED = frozenset(
    (
        *(
            "image",
            "build",
            "dockerFile",
            "context",
            "containerEnv",
            "remoteEnv",
            "containerUser",
            "remoteUser",
        ),
        *("workspaceFolder", *COMMANDS),
    )
)
_OF_EDITORS = frozenset(
    ("$schema", "name", "customizations", "settings", "extensions", "updateRemoteUserUID", "waitFor")
)
"""Properties without a meaning outside an editor, or here."""
# Strings first: what looks like a comment within one stays. One without an end is taken to the end of the
# text, and left to the parser: looking for its end again at each later quote takes the square of the length.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
_TOKENS = re.compile(rf"({_STRING}|/\*(?!.*?\*/).*)|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NamedCommand = tuple[str, tuple[str, ...]]
"""A command as messages call it, and the program with its arguments."""
_VARIABLE = re.compile(r"\$\{([^{}:]*)(?::([^{}:]*))?(?::([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Devcontainer:
    """A session as a project describes it.

    Attributes:
        folder: the project.
        workspace: where it is in the session.
        image: the name of an image, if none is built.
        context: the folder that an image is built of; None for an image with a name.
        file: its Dockerfile.
        arguments: values of ARG.
        target: the stage to build.
        env: variables of the session.
        user: of shell, cells and commands.
        commands: what to run when the session is there, each with its name: programs with their arguments.
        left_out: settings that are not heeded, one line each.
    """

    folder: Path
    workspace: str
    image: str | None
    context: Path | None
    file: Path | None
    arguments: Mapping[str, str]
    target: str | None
    env: Mapping[str, str]
    user: str | None
    commands: tuple[NamedCommand, ...]
    left_out: tuple[str, ...]


def read(folder: str | Path) -> Devcontainer:
    """Read the requests of a folder.

    Raises:
        InvalidArgument: it has no such file, that has another form, or it needs what sessions have not.
    """
    project = Path(folder).expanduser().resolve()
    path = next((project / place for place in PLACES if os.path.lexists(project / place)), None)
    if path is None:
        raise InvalidArgument(
            f"cannot use {plain(str(folder), 200)}: it does not contain a devcontainer.json",
            hint=f"it would be {PLACES[0]}",
        )
    return _Reader(project, path, _parsed(path, _content(project, path))).result()


def _content(project: Path, path: Path) -> bytes:
    """Return the content of the file, which can be a link to a different file of the project."""
    place = _followed(path)
    if not place.is_relative_to(project):
        raise _wrong(path, f"it leads out of {project}")
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _wrong(path, "it is not a regular file")
            data = file.read(LONGEST + 1)
    except OSError as error:
        raise InvalidArgument(f"cannot read {plain(str(path), 200)}: {error.strerror}") from error
    if len(data) > LONGEST:
        raise _wrong(path, f"it is longer than {LONGEST} bytes")
    return data


def _followed(path: Path) -> Path:
    """Return the target of a path; for circular or overlong ones, as far as it can be resolved."""
    return Path(os.path.realpath(path))


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        text = _TOKENS.sub(lambda found: found[1] or " ", data.decode("utf-8-sig"))
        found = json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", text))
    except RecursionError as error:
        raise _wrong(path, "it is nested too deeply") from error
    except ValueError as error:
        raise _wrong(path, f"it is not readable ({error})") from error
    if not isinstance(found, dict):
        raise _wrong(path, "it is not an object")
    return found


def _wrong(path: Path, why: str) -> InvalidArgument:
    return InvalidArgument(f"cannot use {plain(str(path), 200)}: {plain(why, 200)}")


class _Reader:
    def __init__(self, project: Path, path: Path, given: dict[str, Any]) -> None:
        self._project = project
        self._path = path
        self._given = given
        self._left_out: list[str] = []
        self._workspace = ""
        self._workspace = self._folder_of_session()

    def result(self) -> Devcontainer:
        for key, why in _NEEDED.items():
            if self._given.get(key):
                raise _wrong(self._path, f"{key} is not available: {why}")
        for key in self._given:
            if key not in _HEEDED | _OF_EDITORS | set(_NEEDED):
                self._left_out.append(f"{plain(key, 60)} is ignored")
        image, build = self._text(self._given, "image"), self._build()
        if (image is None) == (build is None):
            raise _wrong(self._path, "it needs either an image or a build")
        context, file = (None, None) if build is None else self._places(build)
        env = self._texts(self._given, "containerEnv") | self._texts(self._given, "remoteEnv")
        return Devcontainer(
            self._project,
            self._workspace,
            image,
            context,
            file,
            self._texts(build or {}, "args"),
            self._text(build or {}, "target"),
            env,
            self._text(self._given, "remoteUser") or self._text(self._given, "containerUser"),
            tuple(each for key in COMMANDS for each in self._commands(key)),
            self._named(),
        )

    def _named(self) -> tuple[str, ...]:
        more = len(self._left_out) - MOST_NAMED
        last = (f"{more} more settings are ignored",) if more > 0 else ()
        return (*self._left_out[:MOST_NAMED], *last)

    def _folder_of_session(self) -> str:
        chosen = self._text(self._given, "workspaceFolder") or f"/workspaces/{self._project.name}"
        with suppress(ValueError):
            place = writable_places.plain(chosen)
            if plain(place, len(place)) == place and not f"{place}/".startswith(f"{layout.RUN_DIR}/"):
                return place
        raise _wrong(self._path, f"workspaceFolder {plain(chosen, 60)} is not a folder for a project")

    def _build(self) -> dict[str, Any] | None:
        build = self._given.get("build")
        old = {"dockerfile": self._given.get("dockerFile"), "context": self._given.get("context")}
        if build is None:
            return {key: value for key, value in old.items() if value} if old["dockerfile"] else None
        if not isinstance(build, dict):
            raise _wrong(self._path, "build is not an object")
        for key in set(build) - {"dockerfile", "context", "args", "target"}:
            self._left_out.append(f"build.{plain(key, 60)} is ignored")
        return build

    def _places(self, build: dict[str, Any]) -> tuple[Path, Path]:
        """Return the context and the Dockerfile; both are relative to the file."""
        beside = self._path.parent
        found = []
        for key, usual in (("context", "."), ("dockerfile", USUAL_FILE)):
            path = _followed(beside / (self._text(build, key) or usual))
            if not path.is_relative_to(self._project):
                raise _wrong(self._path, f"build.{key} leads out of {self._project}")
            found.append(path)
        return found[0], found[1]

    def _commands(self, key: str) -> list[NamedCommand]:
        """Return the programs of a command: a text for a shell, a list, or an object with several."""
        value = self._given.get(key)
        if not value:
            return []
        named = (
            {f"{key}.{name}": each for name, each in value.items()}
            if isinstance(value, dict)
            else {key: value}
        )
        found: list[NamedCommand] = []
        for name, each in named.items():
            shown = plain(name, 100)
            if isinstance(each, str):
                found.append((shown, ("/bin/bash", "-c", self._replaced(each, shown))))
            elif isinstance(each, list) and each and all(isinstance(word, str) for word in each):
                found.append((shown, tuple(self._replaced(word, shown) for word in each)))
            else:
                raise _wrong(self._path, f"{shown} is neither a text nor a list of texts")
        return found

    def _text(self, values: Mapping[str, Any], key: str) -> str | None:
        value = values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise _wrong(self._path, f"{key} is not a text")
        return self._replaced(value, key) or None

    def _texts(self, values: Mapping[str, Any], key: str) -> dict[str, str]:
        found = {} if values.get(key) is None else values[key]
        if not isinstance(found, dict):
            raise _wrong(self._path, f"{key} is not an object")
        if unfit := next((name for name in found if not _NAME.fullmatch(name)), None):
            raise _wrong(self._path, f"{key} has '{plain(unfit, 60)}', which is not the name of a variable")
        # A variable that is null is one to remove, which a session has not.
        return {name: self._text(found, name) or "" for name in found if found[name] is not None}

    def _replaced(self, text: str, where: str) -> str:
        """Replace variables of the specification; a project cannot read the host's own.

        Every used text of the file passes through here: a lone surrogate cannot be encoded.
        """
        if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
            raise _wrong(self._path, f"{where} is not a text")
        known = {
            "localWorkspaceFolder": str(self._project),
            "localWorkspaceFolderBasename": self._project.name,
            "containerWorkspaceFolder": self._workspace,
            "containerWorkspaceFolderBasename": self._workspace.rpartition("/")[2],
        }

        def one(found: re.Match[str]) -> str:
            if found[1] in known:
                return known[found[1]]
            if found[1] in ("localEnv", "env"):
                self._left_out.append(
                    f"{plain(where, 100)}: {plain(found[0], 100)} is not read; --env sets variables"
                )
                return found[3] or ""
            if found[1] in ("containerEnv", "devcontainerId"):
                raise _wrong(self._path, f"{where}: {found[0]} is not available")
            return found[0]  # of a shell

        return _VARIABLE.sub(one, text)
