"""What the tool for tasks says of artifacts, and how it brings one into a session. It registers none."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import PurePosixPath

from holdfast.base.quantities import size_text
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, SessionFileNotFound
from holdfast.runtime.api.home_artifacts import HomeArtifacts
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.session_task import SessionTask

_WANTED = re.compile(r"(?P<name>.+?)(?: of (?P<session>\S+))?(?: to (?P<path>\S.*))?", re.DOTALL)


def listed(kept: HomeArtifacts, task: SessionTask) -> str:
    """Return the artifacts of all sessions of the home, one a line, and the orphans of one session."""
    lines = [
        f"{plain(each.name, 100)} of {each.session}: {size_text(each.bytes)}, {plain(each.path, 200)}"
        + (f", by {each.entry}" if each.entry else "")
        + (f", before {each.snapshot}" if each.snapshot else "")
        for each in kept.list()
    ]
    if task.record() is not None:
        lines += [
            f"nothing accounts for {plain(each.path, 200)}, {size_text(each.bytes)}"
            for each in task.orphans()
        ]
    return "\n".join(lines) or "there are no artifacts"


def fetch(kept: HomeArtifacts, session: Session, wanted: str) -> str:
    """Write an artifact into a session: `NAME`, `NAME of SESSION`, each also with `to PATH`; say where.

    Without a path it gets the last part of its name, in the directory of the shell.

    Raises:
        ArtifactNotFound: there is none of that name.
        InvalidArgument: several sessions have one, or something is at the place.
    """
    told = _WANTED.fullmatch(wanted.strip())
    if told is None:
        raise InvalidArgument("cannot fetch an artifact without its name", hint="such as `report of work`")
    found = kept.find(told["name"], told["session"])
    place = told["path"] or PurePosixPath(found.name).name
    with suppress(SessionFileNotFound):
        session.files.stat(place, follow=False)
        raise InvalidArgument(
            f"cannot fetch artifact {plain(found.name, 100)}: there is something at {plain(place, 200)}",
            hint="name another place: `NAME to PATH`",
        )
    size = session.files.write_parts(place, kept.parts(found.name, found.session_id))
    return f"fetched {plain(found.name, 100)} to {plain(place, 200)}, {size_text(size)}"
