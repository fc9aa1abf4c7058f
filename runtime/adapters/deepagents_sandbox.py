"""A session as the sandbox backend of LangChain's Deep Agents."""

from __future__ import annotations

import posixpath

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from holdfast.errors import HoldfastError, SessionFileDenied, SessionFileNotFound
from holdfast.runtime.adapters import merged_command
from holdfast.runtime.api.session import Session
from holdfast.runtime.client.blocking.remote_session import RemoteSession


class HoldfastSandbox(BaseSandbox):
    """A session that agents use; it is not removed with this object.

    Args:
        session: of this machine, or over a URL.
        timeout: seconds that a command may take, if the agent does not say; it is then ended.
    """

    def __init__(self, session: Session | RemoteSession, *, timeout: float = 1800.0) -> None:
        self.session = session
        self._timeout = timeout

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.session.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command in a shell of its own."""
        seconds = float(timeout) if timeout else self._timeout
        result = self.session.run(merged_command.words(command, login=False), timeout=seconds)
        return ExecuteResponse(
            output=merged_command.text(result),
            exit_code=merged_command.exit_code(result),
            truncated=result.dropped > 0,
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files; one that cannot be written stops no other."""
        return [FileUploadResponse(path=path, error=self._written(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files; one that cannot be read stops no other."""
        return [self._read(path) for path in paths]

    def _written(self, path: str, data: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            if self._is_folder(path):
                return "is_directory"
            self.session.files.make_folder(posixpath.dirname(path), parents=True)
            self.session.files.write(path, data)
        except HoldfastError as error:
            return _name(error)
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, content=None, error="invalid_path")
        try:
            if self._is_folder(path):
                return FileDownloadResponse(path=path, content=None, error="is_directory")
            found = self.session.files.stat(path)
            if not found.mode & 0o444:
                return FileDownloadResponse(path=path, content=None, error="permission_denied")
            return FileDownloadResponse(path=path, content=self.session.files.read(path), error=None)
        except HoldfastError as error:
            return FileDownloadResponse(path=path, content=None, error=_name(error))

    def _is_folder(self, path: str) -> bool:
        try:
            return self.session.files.stat(path).kind == "folder"
        except SessionFileNotFound:
            return False


def _name(error: HoldfastError) -> str:
    """Return the name that Deep Agents has for an error, else its message."""
    if isinstance(error, SessionFileNotFound):
        return "file_not_found"
    return "permission_denied" if isinstance(error, SessionFileDenied) else str(error)
