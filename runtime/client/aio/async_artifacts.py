"""The artifacts of a home over a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from holdfast.runtime.artifacts.kept_artifact import KeptArtifact, SavedArtifact
from holdfast.runtime.client import client_values, task_values
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.http_call import HttpCall, given, place


class AsyncArtifacts:
    """What sessions have registered as artifacts, as `HomeArtifacts` has it."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, session: str | None = None) -> list[KeptArtifact]:
        """Return all artifacts, or only a session's (its name or id), oldest first."""
        told = await self._transport.ask(self._call("GET", session=session))
        return [task_values.artifact(each) for each in client_values.tables(told)]

    async def find(self, name: str, session: str | None = None) -> KeptArtifact:
        """Return the artifact of a name; `session` is a name or id, also of a removed session."""
        call = self._call("GET", "entry", name=name, session=session)
        return task_values.artifact(await self._transport.ask(call))

    async def parts(self, name: str, session: str | None = None) -> AsyncIterator[bytes]:
        """Yield the content of an artifact as it comes."""
        call = self._call("GET", "content", name=name, session=session)
        async with self._transport.bytes_of(call, {}) as body:
            async for part in body:
                yield part

    async def save(self, name: str, to: Path | str, *, session: str | None = None) -> Path:
        """Save an artifact as a file, or into a folder, and return its path."""
        found = await self.find(name, session)
        with SavedArtifact(found, to) as file:
            async for part in self.parts(name, found.session_id):
                file.write(part)
        return file.place

    async def remove(self, name: str, session: str | None = None) -> KeptArtifact:
        """Remove an artifact, and return what it was."""
        call = self._call("DELETE", name=name, session=session)
        return task_values.artifact(await self._transport.ask(call))

    def _call(self, method: str, *what: str, **params: Any) -> HttpCall:
        return HttpCall(method, place("artifacts", *what), given(**params))
