"""The generated files of a session, their makers, and the files that are not accounted for. Pure.

Patterns have the shell's form: `*` and `?` stay within a folder, `**` is any number of folders. One without
a slash at its beginning is below the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base.value_classes import as_table
from holdfast.errors import InvalidArgument
from holdfast.runtime.history.drift import authors
from holdfast.runtime.history.drift.changed_paths import FileChange
from holdfast.runtime.store.entry import Entry
from holdfast.runtime.task.task_record import TaskRecord

WORKSPACE = "/workspace"
MOST_PATTERNS = 20
LATE_SECONDS = 2.0
"""By which the entry of a start may come late: it is written when the shell's mark has been read."""


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A generated file that is not registered and not referred to.

    `entry` is the entry of the command that made it.
    """

    path: str
    bytes: int
    entry: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return as_table(self)


def patterns(text: str | None) -> list[re.Pattern[str]]:
    """Return the patterns of a record's policy, which are separated by blanks.

    Raises:
        InvalidArgument: there are too many, or one leads out of its folder.
    """
    words = (text or "").split()
    if len(words) > MOST_PATTERNS:
        raise InvalidArgument(f"cannot use {len(words)} patterns for artifacts: the limit is {MOST_PATTERNS}")
    for word in words:
        if ".." in word.split("/"):
            raise InvalidArgument(f"cannot use the pattern '{word}' for artifacts: it has `..`")
    return [_pattern(word if word.startswith("/") else f"{WORKSPACE}/{word}") for word in words]


def matching(files: Iterable[FileChange], wanted: Sequence[re.Pattern[str]]) -> list[FileChange]:
    """Return the files that were made or changed and that a pattern matches."""
    return [each for each in made(files) if any(pattern.fullmatch(each.path) for pattern in wanted)]


def made(files: Iterable[FileChange]) -> list[FileChange]:
    """Return the files, without folders, that are new or have different content."""
    return [each for each in files if each.change in ("new", "changed") and not each.folder]


def orphans(files: Iterable[FileChange], record: TaskRecord, tracked: Collection[str]) -> list[OrphanFile]:
    """Return new files that are neither registered, tracked by Git, nor named in the record.

    Args:
        files: what changed in the session since its beginning.
        record: its task's.
        tracked: paths that a version control has.
    """
    registered = {_absolute(each.path) for each in record.artifacts}
    texts = " ".join(_texts(record))
    return [
        OrphanFile(each.path, each.size, producer(each))
        for each in made(files)
        if each.change == "new"
        and "/.git/" not in each.path
        and each.path not in registered
        and each.path not in tracked
        and not _named(each.path, texts)
    ]


def producer(file: FileChange) -> str | None:
    """Return the journal entry that made or last changed a file."""
    known = [number for number in file.by if number > 0]
    return f"#{max(known)}" if known else None


def command_at(entries: Iterable[Entry], at: float) -> str | None:
    """Return the journal entry of the command that ran at a moment, in Unix seconds; None if there was none.

    Args:
        entries: starts and ends of commands and cells, oldest first.
        at: the moment.
    """
    running: dict[str, int] = {}
    for entry in entries:
        begins = entry.kind.endswith("_started")
        if begins and authors.began_at(entry.details, entry.at) > at + authors.SLACK:
            late = entry.at - at < LATE_SECONDS and not running
            return f"#{entry.seq}" if late else _last(running)
        if begins:
            running[str(entry.details.get("id", ""))] = entry.seq
        elif entry.at < at:
            running.pop(str(entry.details.get("id", "")), None)
    return _last(running)


def artifact_name(path: str) -> str:
    """Return the name of an artifact that a pattern found: its path below the workspace."""
    return path.removeprefix(f"{WORKSPACE}/")


def _last(running: Mapping[str, int]) -> str | None:
    return f"#{max(running.values())}" if running else None


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"{WORKSPACE}/{path}"


def _texts(record: TaskRecord) -> Iterable[str]:
    yield from (each.path for each in record.files)
    yield from (step.verify or "" for _, step in record.steps())
    yield from (each.text for each in record.decisions)
    yield from (each.text for each in (*record.notes, *record.questions, *record.risks))
    yield from (record.resume_at or "", record.policy.verify or "")


def _named(path: str, texts: str) -> bool:
    """Check whether a path, or its part below the workspace, is a word of the texts."""
    words = {path, artifact_name(path)}
    return any(re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w/-])", texts) for word in words)


def _pattern(glob: str) -> re.Pattern[str]:
    parts = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    return re.compile("".join(parts.get(word, re.escape(word)) for word in words), re.DOTALL)
