"""Sessions as sandboxes of Inspect (inspect.aisi.org.uk): `sandbox="holdfast"`, or `("holdfast", SNAPSHOT)`.

Inspect finds it by the entry point of this package. A sample that starts from a snapshot starts with the
processes, variables and files of that instant.
"""

from __future__ import annotations

import errno
import os
import posixpath
from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from pydantic import BaseModel, ConfigDict

from holdfast.errors import (
    GuestDisconnected,
    InvalidArgument,
    ServerUnavailable,
    SessionError,
    SessionFileError,
    SessionFileNotFound,
)
from holdfast.runtime.client.aio.async_holdfast import AsyncHoldfast
from holdfast.runtime.client.aio.async_session import AsyncSession
from holdfast.runtime.files.session_file import SessionFile
from holdfast.runtime.guest_rpc.program_result import ProgramResult

NOT_STARTED = 127
"""The exit code of a shell for a program that it cannot start."""
_READ, _WRITE = 0o444, 0o222


class HoldfastConfig(BaseModel):
    """The options for the session of a sample, as `Holdfast.new` takes them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str | None = None
    image: str | None = None
    network: str | None = None
    domains: tuple[str, ...] | None = None
    memory: str | int | None = None
    cpus: float | None = None
    user: str | None = None
    env: dict[str, str] | None = None
    workdir: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the chosen options."""
        return self.model_dump(exclude_none=True)


@sandboxenv(name="holdfast")
class HoldfastSandboxEnvironment(SandboxEnvironment):
    """One session, of the server of HOLDFAST_URL or of this machine. `session` is its handle."""

    def __init__(self, controller: AsyncHoldfast, session: AsyncSession, directory: str) -> None:
        super().__init__()
        self.session = session
        self._controller, self._directory = controller, directory

    @classmethod
    async def of(cls, controller: AsyncHoldfast, session: AsyncSession) -> HoldfastSandboxEnvironment:
        """Wrap a session as an Inspect sandbox; relative paths begin in the directory of its shell."""
        return cls(controller, session, (await session.shell()).cwd)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Make a session for a sample."""
        chosen = config if isinstance(config, HoldfastConfig) else HoldfastConfig(template=config)
        controller = AsyncHoldfast(os.environ.get("HOLDFAST_URL"))
        try:
            session = await controller.new(**chosen.options())
            return {"default": await cls.of(controller, session)}
        except BaseException:
            await controller.close()
            raise

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Remove the sessions of a sample."""
        for each in environments.values():
            await each.as_type(HoldfastSandboxEnvironment).end()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Read a configuration."""
        return HoldfastConfig(**config)

    async def end(self) -> None:
        """Remove the session."""
        try:
            await self.session.remove()
        finally:
            await self._controller.close()

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """Return how a person attaches to it."""
        return SandboxConnection(type="holdfast", command=f"holdfast attach {self.session.name}")

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002  (as the base class names it)
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a program. After a timeout, it ends with all its children, and is not run again."""
        try:
            result = await self.session.run(
                cmd, input=input, cwd=self._place(cwd or ""), env=env, user=user, timeout=timeout
            )
        except InvalidArgument as error:
            if "permission denied" in str(error):
                raise PermissionError(errno.EACCES, str(error)) from error
            return ExecResult(success=False, returncode=NOT_STARTED, stdout="", stderr=f"{error}\n")
        except (SessionError, GuestDisconnected, ServerUnavailable) as error:
            raise SandboxUnavailableError(str(error)) from error
        if result.timed_out:
            raise TimeoutError(f"{cmd[0]} took more than {timeout} s, and was ended")
        return _told(result)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file; the folders above it are made."""
        path = self._place(file)
        try:
            there = await self.session.files.stat(path)
        except SessionFileNotFound:
            await self.session.files.make_folder(posixpath.dirname(path), parents=True)
        else:
            _check(there, file, _WRITE)
        await self.session.files.write(path, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Read a file."""
        path = self._place(file)
        found = await self.session.files.stat(path)
        _check(found, file, _READ)
        if found.size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        data = bytearray()
        async for part in self.session.files.parts(path):
            data += part
        return data.decode() if text else bytes(data)

    def _place(self, path: str) -> str:
        return posixpath.join(self._directory, path)


def _check(found: SessionFile, file: str, bits: int) -> None:
    """Refuse paths that are not files, and files whose permissions forbid access, even for root."""
    if found.kind == "folder":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
    if found.kind != "file":
        raise SessionFileError(f"cannot use {file!r}: it is a {found.kind}")
    if not found.mode & bits:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)


def _told(result: ProgramResult) -> ExecResult[str]:
    most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
    if result.dropped or max(len(result.stdout), len(result.stderr)) > most:
        kept = (result.stdout or result.stderr)[-most:].decode("utf-8", "replace")
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, kept)
    code = result.exit_code
    if code is None:
        code = 128 + (result.signal or 0)
    return ExecResult(
        success=code == 0,
        returncode=code,
        stdout=result.stdout.decode("utf-8", "replace"),
        stderr=result.stderr.decode("utf-8", "replace"),
    )
