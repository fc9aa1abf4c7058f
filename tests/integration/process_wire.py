"""A client of the wire for processes of one sandbox, of httpx and nothing else."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx
from tests.integration.served import Served

from holdfast.runtime.e2b.sandbox_access import SandboxTokens

_HEAD = struct.Struct(">BI")


def framed(*messages: Mapping[str, Any]) -> bytes:
    """Return messages as a request of a stream has them."""
    bodies = [json.dumps(each).encode() for each in messages]
    return b"".join(_HEAD.pack(0, len(body)) + body for body in bodies)


def end_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error with which a stream ends before it has brought anything."""
    assert answer.status_code == 200, (answer.status_code, answer.text)
    flags, size = _HEAD.unpack_from(answer.content)
    assert (flags, size) == (2, len(answer.content) - _HEAD.size)
    found: dict[str, Any] = json.loads(answer.content[_HEAD.size :])["error"]
    return found


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Followed:
    """The answer to a stream, as it arrives: the pid, the output, the end, the error."""

    def __init__(self, answer: httpx.Response) -> None:
        self._messages = self._read(answer.iter_raw())
        self.written = {"stdout": b"", "stderr": b"", "pty": b""}
        self.end: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.keepalives = 0
        first = next(self._messages)["event"]
        while "keepalive" in first:  # the start waits longer on a busy machine
            first, self.keepalives = next(self._messages)["event"], self.keepalives + 1
        self.pid = int(first["start"]["pid"])

    def _read(self, parts: Iterator[bytes]) -> Iterator[dict[str, Any]]:
        left = bytearray()
        for part in parts:
            left += part
            while len(left) >= _HEAD.size:
                flags, size = _HEAD.unpack_from(left)
                if len(left) < _HEAD.size + size:
                    break
                found = json.loads(left[_HEAD.size : _HEAD.size + size])
                del left[: _HEAD.size + size]
                if flags:
                    self.error = found.get("error")
                    assert not left
                    return
                yield found
        raise AssertionError("the stream has no end")

    @property
    def exit_code(self) -> int | None:
        """The exit code of its end."""
        return None if self.end is None else int(self.end["exitCode"])

    @property
    def status(self) -> str:
        """The status of its end."""
        return "" if self.end is None else str(self.end["status"])

    @property
    def trouble(self) -> str:
        """The code of the error that ended the stream."""
        return "" if self.error is None else str(self.error["code"])

    def step(self) -> bool:
        """Take one message; whether there was any."""
        message = next(self._messages, None)
        if message is None:
            return False
        event = message["event"]
        for stream, data in event.get("data", {}).items():
            self.written[stream] += base64.b64decode(data)
        self.end = event.get("end", self.end)
        self.keepalives += "keepalive" in event
        return True

    def until(self, stream: str, expected: bytes) -> bytes:
        """Read until this was written; return all that was."""
        while expected not in self.written[stream]:
            assert self.step(), (self.written, self.end, self.error)
        return self.written[stream]

    def all(self) -> Followed:
        """Read to the end."""
        while self.step():
            pass
        return self


class ProcessWire:
    """The processes of one sandbox, by its tokens."""

    def __init__(self, served: Served, sandbox: str, token_of: str | None = None) -> None:
        tokens = SandboxTokens(served.token)
        self.headers = {
            "e2b-sandbox-id": sandbox,
            "e2b-sandbox-port": "49983",
            "x-access-token": tokens.access(token_of or sandbox),
        }
        self.client = httpx.Client(base_url=served.url, headers=self.headers, timeout=60, trust_env=False)

    def ask(self, method: str, body: Any, status: int = 200, **headers: str) -> Any:
        """Return the answer to a request, which must have this status."""
        answer = self.client.post(f"/process.Process/{method}", json=body, headers=headers)
        assert answer.status_code == status, (answer.status_code, answer.text[:2000])
        return answer.json()

    @contextmanager
    def stream(
        self, method: str, body: Any, seconds: float = 0, headers: Mapping[str, str] | None = None
    ) -> Iterator[Followed]:
        """Yield the messages of a stream."""
        given = {"content-type": "application/connect+json", "connect-protocol-version": "1"}
        given |= headers or {}
        if seconds:
            given["connect-timeout-ms"] = str(round(seconds * 1000))
        path = f"/process.Process/{method}"
        with self.client.stream("POST", path, content=framed(body), headers=given) as answer:
            assert answer.status_code == 200, answer.read()
            yield Followed(answer)

    def refused(self, method: str, content: bytes | Iterator[bytes], **headers: str) -> str:
        """Return how a stream is refused."""
        given = {"content-type": "application/connect+json", **headers}
        answer = self.client.post(f"/process.Process/{method}", content=content, headers=given)
        told = end_of(answer)
        assert "\n" not in told["message"]
        return f"{told['code']}: {told['message']}"

    def bash(self, text: str, seconds: float = 0, **more: Any) -> AbstractContextManager[Followed]:
        """Start a script, as `commands.run` does, and yield the messages of its stream."""
        words = {"cmd": "/bin/bash", "args": ["-l", "-c", text], **more.pop("words", {})}
        headers = more.pop("headers", {})
        return self.stream("Start", {"process": words, "stdin": False, **more}, seconds, headers)

    def run(self, text: str, **more: Any) -> Followed:
        """Run a script to its end."""
        with self.bash(text, **more) as found:
            return found.all()

    def pids(self) -> list[int]:
        """Return the pids of the running processes."""
        return [each["pid"] for each in self.ask("List", {})["processes"]]

    def give(self, pid: int, data: bytes, status: int = 200, kind: str = "stdin", **headers: str) -> Any:
        """Give a process input."""
        body = {"process": {"pid": pid}, "input": {kind: b64(data)}}
        return self.ask("SendInput", body, status, **headers)

    def kill(self, pid: int, status: int = 200, name: str = "SIGNAL_SIGKILL") -> Any:
        """Send a signal to a process."""
        return self.ask("SendSignal", {"process": {"pid": pid}, "signal": name}, status)
