"""The state of a shell or kernel as the session reports it, validated, and how to answer it.  Pure.

On the path of `exec`: fields are read with `wire_fields`, because pydantic takes a while to load.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from holdfast.base.suggestion import command
from holdfast.base.text import plain
from holdfast.runtime.guest.layout import MAIN
from holdfast.runtime.guest.pulse.state import NAMES, RUNNING, WAITING, Detail, State
from holdfast.runtime.guest_rpc import wire_fields

_DETAILS: Mapping[str, tuple[Detail, ...]] = {"running": RUNNING, "waiting": WAITING}


def state(value: Any) -> State:
    """Parse a state.

    Raises:
        ProtocolError: it is not valid.
    """
    fields = wire_fields.table(value, "a state")
    name = wire_fields.choice(fields, "state", NAMES)
    return State(
        state=name,
        detail=wire_fields.choice(fields, "detail", (None, *_DETAILS.get(name, ()))),
        pid=wire_fields.optional_integer(fields, "pid"),
        command=plain(wire_fields.text(fields, "command", ""), 200),
        since=wire_fields.number(fields, "since"),
        prompt=_prompt(wire_fields.text(fields, "prompt", "")),
        exit_code=wire_fields.optional_integer(fields, "exit_code", -255),
        signal=wire_fields.optional_integer(fields, "signal"),
    )


def asked(prompt: str, *, password: bool, kernel: str) -> State:
    """Return the state of a kernel whose cell asks for input now."""
    return State(
        "waiting",
        "password" if password else "line",
        command=f"kernel {plain(kernel, 40)}",
        since=time.time(),
        prompt=_prompt(prompt),
    )


def advice(name: str, found: State, job: str = "", shell: str = MAIN) -> str:
    """Return the command with which a person answers the running program of a shell, or a job."""
    match found.detail:
        case "key":
            how = "with `--key` for a key that is not a letter"
        case "pager":
            how = "'q' leaves a pager"
        case "password":
            how = "it is not shown"
        case _:
            how = "`-e` adds Enter"
    where = ["--job", job] if job else ["--shell", shell] if shell != MAIN else []
    send = command("send", name, *where, "-e", "TEXT")
    return f"answer with `{send}` ({how}), or press C-c"


def _prompt(text: str) -> str:
    # The space after a prompt belongs to it: "Password: " is not "Password:".
    shown = plain(text, 300)
    return shown + " " * (len(text) > len(text.rstrip(" ")) and not shown.endswith(" "))
