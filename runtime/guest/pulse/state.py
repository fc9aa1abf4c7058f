"""The state of a shell or a kernel, as one value with the same names everywhere.

Pure data, shared by guest and host. `sampler.py` determines it, by the rules of `terminal_state.py`.
"""

from __future__ import annotations

from typing import Any, Literal

from holdfast.base.value_classes import asdict, dataclass

Name = Literal["starting", "idle", "running", "waiting", "stopped", "exited"]
NAMES: tuple[Name, ...] = ("starting", "idle", "running", "waiting", "stopped", "exited")
Detail = Literal["cpu", "io", "sleep", "line", "password", "key", "pager", "repl"]
RUNNING: tuple[Detail, ...] = ("cpu", "io", "sleep")
WAITING: tuple[Detail, ...] = ("line", "password", "key", "pager", "repl")
_ASKS = {
    "line": "a line",
    "password": "a password",
    "key": "a key",
    "pager": "a key of its pager",
    "repl": "the next line at its prompt",
}
_DOES = {"cpu": "computes", "io": "waits for input or output outside the terminal", "sleep": "sleeps"}


@dataclass(frozen=True, slots=True)
class State:
    """The state of possibly unfinished work, and the reason.

    `state` is starting, idle (a prompt is ready), running, waiting (for input of its user), stopped or
    exited. `detail` says how: running is cpu, io or sleep; waiting is for a line, a password, a key, at a
    pager or at the prompt of a repl. `pid` and `command` belong to the process that explains it, `since` is
    when it began in seconds since 1970, `prompt` the text that asks.
    """

    state: Name
    detail: Detail | None = None
    pid: int | None = None
    command: str = ""
    since: float = 0.0
    prompt: str = ""
    exit_code: int | None = None
    signal: int | None = None

    @property
    def waits(self) -> bool:
        """True if it continues only when its user answers."""
        return self.state == "waiting"

    def as_dict(self) -> dict[str, Any]:
        """Return the state for the wire."""
        return asdict(self)

    def phrase(self, now: float) -> str:
        """Return the state as the rest of a sentence, as in "su (pid 42) waits for a password …"."""
        who = f"{self.command or 'a program'} (pid {self.pid})" if self.pid else self.command or "it"
        since = f", {max(0.0, now - self.since):.0f} s so far" if self.since else ""
        prompt = f" ({self.prompt!r})" if self.prompt else ""
        match self.state:
            case "waiting":
                return f"{who} waits for {_ASKS.get(self.detail or '', 'input')}{prompt}{since}"
            case "running":
                return f"{who} {_DOES.get(self.detail or '', 'runs')}{since}"
            case "exited" if self.signal:
                return f"{who} was ended by signal {self.signal}"
            case "exited":
                return f"{who} ended with {self.exit_code}"
            case "stopped":
                return f"{who} is stopped{since}"
            case "idle":
                return f"{who} is ready"
        return f"{who} is starting"
