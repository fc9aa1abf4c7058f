"""A log file with a size limit: the older half is kept beside it."""

from __future__ import annotations

import logging
from pathlib import Path

LIMIT = 512 << 10


class BoundedFileHandler(logging.Handler):
    """Appends records to a file; at the limit the file becomes `<name>.old` and a new one begins.

    The file is opened for every record: none is open when the process is captured, and records are rare.
    """

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        super().__init__()
        self._path = path
        self._limit = limit

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. A full disk does not stop the supervisor."""
        try:
            line = self.format(record) + "\n"
            with self._path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(line)
                size = file.tell()
            if size > self._limit:
                self._path.replace(self._path.with_suffix(".old"))
        except OSError:
            return


def log_to(path: Path) -> None:
    """Send the log of this process to path."""
    handler = BoundedFileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
