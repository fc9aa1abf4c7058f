"""Answers a command that waits, and follows it from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.runtime import fields
from holdfast.runtime.results import ExecResult
from holdfast.runtime.shell_calls import Following, OnOutput

if TYPE_CHECKING:
    from holdfast.runtime.line import Line

LONGEST = 1 << 20


def answer(
    line: Line, text: str | bytes, *, shell: str, on_output: OnOutput | None = None, wait: bool = False
) -> ExecResult:
    """Type text into the terminal of a shell and follow the command that runs in it.

    Raises:
        InvalidArgument: the text is too long; or none of `exec` runs, and the text was typed all the same.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(data) > LONGEST:
        raise InvalidArgument(f"cannot answer: the text has {len(data)} bytes, the limit is {LONGEST}")
    sent = line.request("send", data, shell=shell)
    command = fields.optional_text(sent, "exec")
    if command is None:
        raise InvalidArgument(
            "cannot wait for the command: none that was begun by exec runs in the shell",
            hint="the text was typed; `holdfast screen` shows what came of it",
        )
    following = Following(
        line.client(), line.persistence(), command, shell=shell, on_output=on_output, wait=wait
    )
    return following.run(fields.integer(sent, "offset"))
