"""The artifacts of a home, and those of a session: files kept in the home, found by rule; and orphans.

Reports of the session about a file are checked: one that is not a plain file, is too large, or changes while
it is read is refused. The bytes that were read are kept. Those of a home are listed, read, saved as files and
removed without a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from holdfast.base.quantities import size_text
from holdfast.base.text import plain
from holdfast.errors import GuestError, InvalidArgument
from holdfast.runtime.artifacts import generated_files
from holdfast.runtime.artifacts.artifact_store import ArtifactStore
from holdfast.runtime.artifacts.generated_files import OrphanFile
from holdfast.runtime.artifacts.kept_artifact import LARGEST, KeptArtifact, SavedArtifact
from holdfast.runtime.task import task_form
from holdfast.runtime.task.task_record import TaskArtifact, TaskRecord

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.api.session_insight import SessionInsight
    from holdfast.runtime.guest_rpc.program_result import ProgramResult
    from holdfast.runtime.history.drift.changed_paths import FileChange
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


class HomeArtifacts:
    """The artifacts that sessions have registered. The home keeps each until `remove`."""

    def __init__(self, home: Home) -> None:
        self._store = ArtifactStore(home)

    def list(self, session: str | None = None) -> list[KeptArtifact]:
        """Return all artifacts, or only a session's (its name or id), oldest first.

        Raises:
            StoreError: the index cannot be read.
        """
        return self._store.listed(session)

    def find(self, name: str, session: str | None = None) -> KeptArtifact:
        """Return the artifact of a name; `session` is a name or id, also of a removed session.

        Raises:
            ArtifactNotFound: there is none.
            InvalidArgument: several sessions have one.
        """
        return self._store.find(name, session)

    def parts(self, name: str, session: str | None = None) -> Iterator[bytes]:
        """Yield the content of an artifact; it is checked against its digest at the end.

        Raises:
            ArtifactNotFound, InvalidArgument: as `find`.
            StoreError: the content is damaged.
        """
        return self._store.content(self.find(name, session))

    def save(self, name: str, to: Path | str, *, session: str | None = None) -> Path:
        """Save an artifact as a file, or into a folder, and return its path.

        A file of that name is replaced, in one step.

        Raises:
            ArtifactNotFound, InvalidArgument: as `find`, or it cannot be written there.
            StoreError: the content is damaged; nothing was written.
        """
        found = self.find(name, session)
        with SavedArtifact(found, to) as file:
            for part in self._store.content(found):
                file.write(part)
        return file.place

    def remove(self, name: str, session: str | None = None) -> KeptArtifact:
        """Remove an artifact and return its description. Records that name it keep its digest.

        Raises:
            ArtifactNotFound, InvalidArgument: as `find`.
        """
        found = self.find(name, session)
        self._store.remove(found)
        return found


MOST_AT_ONCE = 100
"""Files that one search by rule registers."""
_AT_ONCE = 4 << 20
_TRIES = 3
_TRACKED_SECONDS = 30.0
_MOST_ASKED = 500
_TRACKED = """
for f; do
    git -C "${f%/*}/" ls-files --error-unmatch -- "$f" >/dev/null 2>&1 && printf '%s\\0' "$f"
done
true"""
"""Prints those of its arguments that are in a git repository."""


class SessionArtifacts:
    """The files of one session that are, or could be, artifacts of its task."""

    def __init__(
        self,
        context: Context,
        session: SessionRow,
        insight: SessionInsight,
        files: SessionFiles,
        run: Callable[..., ProgramResult],
        record: Callable[[], TaskRecord],
        register: Callable[[TaskArtifact], TaskRecord],
    ) -> None:
        """Prepare for a session.

        `record` returns the task's record, or raises InvalidArgument; `register` enters an artifact into it.
        """
        self._session, self._context, self._insight = session, context, insight
        self._files, self._run = files, run
        self._record, self._register = record, register
        self._store = ArtifactStore(context.home)

    def keep(self, name: str, path: str, *, entry: str | None = None) -> TaskRecord:
        """Register a file that the work has produced, and keep it beyond the session's life.

        Args:
            name: unique among the artifacts; one of the same name is replaced.
            path: in the session.
            entry: the journal entry of the command that made it, such as `#12`; by default that of the
                command that ran when it was last changed.

        Raises:
            SessionFileError: it cannot be read.
            InvalidArgument: there is no task, a value is not valid, or it is no plain file, larger than
                1 GiB, or changes.
            StoreError: it cannot be kept.
        """
        self._record()
        with self._registering():
            return self._enter(name, path, entry, self._receive(path))

    @contextmanager
    def _registering(self) -> Iterator[None]:
        """Keep contents from being collected; afterwards remove the leftovers of a failure."""
        try:
            with self._store.registering():
                yield
        except BaseException:
            self._store.sweep()
            raise

    def _enter(self, name: str, path: str, entry: str | None, received: tuple[str, int, float]) -> TaskRecord:
        digest, size, changed = received
        try:
            made = TaskArtifact(
                name=name, path=path, digest=digest, bytes=size, entry=entry or self._command_at(changed)
            )
        except ValidationError as error:
            raise InvalidArgument(f"cannot register artifact: {task_form.why(error)}") from error
        record = self._register(made)
        self._store.keep(self._kept(made, record))
        return record

    def collect(self) -> list[str]:
        """Register the files that the policy's patterns match, new or changed; return their names.

        Files that cannot be kept are reported as progress, and left out.

        Raises:
            InvalidArgument: the session lacks a task, a pattern is not valid, or too many files match.
        """
        record = self._record()
        wanted = generated_files.patterns(record.policy.artifacts)
        if not wanted:
            return []
        found = generated_files.matching(self._changes(), wanted)
        if len(found) > MOST_AT_ONCE:
            raise InvalidArgument(
                f"cannot register {len(found)} files by rule: at most {MOST_AT_ONCE}",
                hint="`holdfast task set S --artifacts` with patterns that match fewer",
            )
        names: list[str] = []
        known = {each.name: each.digest for each in record.artifacts}
        for each in found:
            name = generated_files.artifact_name(each.path)
            try:
                with self._registering():
                    received = self._receive(each.path, follow=False)
                    if received[0] != known.get(name):
                        self._enter(name, each.path, generated_files.producer(each), received)
                        names.append(name)
            except (InvalidArgument, GuestError) as error:
                self._context.progress(f"artifact {plain(name, 80)} was left out: {error}")
        return names

    def orphans(self) -> list[OrphanFile]:
        """Return generated files of the session that nothing accounts for.

        They are neither artifacts, nor under version control, nor named by the record.

        Raises:
            InvalidArgument: the session does not have a task.
        """
        record = self._record()
        found = generated_files.orphans(self._changes(), record, ())
        tracked = self._tracked([each.path for each in found[:_MOST_ASKED]])
        return [each for each in found if each.path not in tracked]

    def locate(self, snapshot: str) -> None:
        """Note in the index which snapshot has the record's artifacts that were registered before it."""
        record = self._record()
        of_this = {each.name: each for each in self._store.listed(self._session.id)}
        for each in record.artifacts:
            kept = of_this.get(each.name)
            if each.snapshot == snapshot and kept is not None and kept.digest == each.digest:
                self._store.keep(kept.model_copy(update={"snapshot": snapshot}))

    def _kept(self, made: TaskArtifact, record: TaskRecord) -> KeptArtifact:
        return KeptArtifact(
            name=made.name,
            session_id=self._session.id,
            session=self._session.name,
            path=made.path,
            digest=made.digest or "",
            bytes=made.bytes or 0,
            at=datetime.now(UTC),
            by=record.by,
            entry=made.entry,
        )

    def _receive(self, path: str, *, follow: bool = True) -> tuple[str, int, float]:
        """Keep the content of a file; return its digest, its size, and when it was changed (Unix seconds)."""
        files = self._files
        for _ in range(_TRIES):
            before = files.stat(path, follow=follow)
            if before.kind != "file":
                raise InvalidArgument(f"cannot register artifact: {plain(path, 200)} is a {before.kind}")
            if before.size > LARGEST:
                raise InvalidArgument(
                    f"cannot register artifact: {plain(path, 200)} has more than {size_text(LARGEST)}"
                )
            digest, size = self._store.receive(_parts(files, path, before.size))
            if files.stat(path, follow=follow).version == before.version and size == before.size:
                return digest, size, before.mtime_ns / 1e9
        raise InvalidArgument(
            f"cannot register artifact: {plain(path, 200)} changes while it is read",
            hint="wait until the program that writes it has ended",
        )

    def _command_at(self, at: float) -> str | None:
        kinds = ("command_started", "command_ended", "cell_started", "cell_ended")
        return generated_files.command_at(self._insight.journal(kinds=kinds), at)

    def _changes(self) -> tuple[FileChange, ...]:
        first = self._insight.journal(limit=None)[:1]
        return self._insight.drift(f"#{first[0].seq}").files if first else ()

    def _tracked(self, paths: list[str]) -> set[str]:
        """Return the given paths that a git repository in the session tracks."""
        if not paths:
            return set()
        argv = ["sh", "-c", _TRACKED, "sh", *paths]
        said = self._run(argv, timeout=_TRACKED_SECONDS).stdout
        return set(said.decode("utf-8", "replace").split("\0")) & set(paths)


def _parts(files: SessionFiles, path: str, size: int) -> Iterator[bytes]:
    """Yield a file up to its initial size, so that a file that keeps growing also ends."""
    offset = 0
    while offset < size and (part := files.read(path, offset, min(_AT_ONCE, size - offset))):
        offset += len(part)
        yield part
