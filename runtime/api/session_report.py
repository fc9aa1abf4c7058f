"""A test report that a verification writes in a session: only what was written meanwhile counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument, SessionFileError
from holdfast.runtime.task.failure_evidence import MOST_REPORT

if TYPE_CHECKING:
    from holdfast.runtime.api.session_files import SessionFiles
    from holdfast.runtime.files.session_file import SessionFile


class SessionReport:
    """The report at a path, as it is before the verification runs.

    Raises:
        InvalidArgument: something other than a file is there.
    """

    def __init__(self, files: SessionFiles, path: str) -> None:
        self._files, self.path = files, path
        self._before = self._look()
        if self._before is not None and self._before.kind != "file":
            raise InvalidArgument(f"cannot read a test report at {path!r}: that is a {self._before.kind}")

    def written(self) -> bytes | None:
        """Return the report, at most one byte more than is ever read of one; None if it was not written."""
        now = self._look()
        if now is None or now.kind != "file" or now == self._before:
            return None
        try:
            return self._files.read(self.path, 0, MOST_REPORT + 1)
        except SessionFileError:
            return None

    def _look(self) -> SessionFile | None:
        try:
            return self._files.stat(self.path)
        except SessionFileError:
            return None
