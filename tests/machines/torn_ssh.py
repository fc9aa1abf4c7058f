"""An ssh whose connection fails at a chosen request: `python torn_ssh.py FOLDER COMMAND...`.

FOLDER/fault says where, as JSON, once: `{"do": REQUEST, "nth": N, "when": WHEN}`. `before`: the request is
not delivered. `middle`: half of its payload is. `delivered`: the connection ends without waiting for the
reply. `answered`: the reply is lost. `killed`: the receiver is killed a moment after the request. `held`:
FOLDER/held appears, and nothing happens until the source ends. FOLDER/unreachable makes the host so, and
FOLDER/lost does from the fault on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

UNREACHABLE = 255
MOMENT = 0.3
"""Seconds that a receiver has for a request before it is killed."""


class Torn:
    """One connection."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self._folder = folder
        self._receiver = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._to = cast("BinaryIO", self._receiver.stdin)
        self._from = cast("BinaryIO", self._receiver.stdout)
        self._mute = threading.Event()
        self._answered = threading.Event()
        self._seen = 0

    def run(self) -> int:
        """Pass on requests and replies up to the fault; return the exit code."""
        replies = threading.Thread(target=self._pass_on_replies, daemon=True)
        replies.start()
        while request := sys.stdin.buffer.readline():
            fields = json.loads(request)
            when = self._fault(fields)
            if when == "before":
                return UNREACHABLE
            if when == "held":
                (self._folder / "held").touch()
                sys.stdin.buffer.read()
                return UNREACHABLE
            if when == "answered":
                self._mute.set()
                self._answered.clear()
            size = int(fields.get("bytes", 0))
            self._to.write(request)
            self._pass_on(size // 2 if when == "middle" else size)
            self._to.flush()
            if when == "answered":
                self._answered.wait(60)
            if when == "killed":
                time.sleep(MOMENT)
                os.killpg(self._receiver.pid, signal.SIGKILL)
            if when is not None:
                return UNREACHABLE
        self._to.close()
        replies.join()
        return self._receiver.wait()

    def _pass_on(self, size: int) -> None:
        while size:
            block = sys.stdin.buffer.read(min(size, 1 << 16))
            assert block
            self._to.write(block)
            size -= len(block)

    def _pass_on_replies(self) -> None:
        while reply := self._from.readline():
            if self._mute.is_set():
                self._answered.set()
                return
            sys.stdout.buffer.write(reply)
            sys.stdout.buffer.flush()
        os._exit(self._receiver.wait())  # as ssh does

    def _fault(self, fields: dict[str, Any]) -> str | None:
        path = self._folder / "fault"
        if not path.exists():
            return None
        wanted = json.loads(path.read_text())
        self._seen += fields.get("do") == wanted["do"]
        if fields.get("do") != wanted["do"] or self._seen < wanted.get("nth", 1):
            return None
        path.unlink()
        with suppress(FileNotFoundError):
            (self._folder / "lost").rename(self._folder / "unreachable")
        return str(wanted["when"])


if __name__ == "__main__":
    # A terminal's Ctrl-C is for the source.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if Path(sys.argv[1], "unreachable").exists():
        sys.stderr.write("ssh: connect to host there: no route\n")
        os._exit(UNREACHABLE)
    code = Torn(Path(sys.argv[1]), sys.argv[2:]).run()
    sys.stdout.flush()
    os._exit(code)
