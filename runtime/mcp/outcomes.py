"""The outcome of a command in text for an agent: what it wrote, and the facts in one last line.  Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from holdfast.base.text import plain
from holdfast.runtime.guest_rpc.results import ExecResult
from holdfast.runtime.mcp.kept_output import KeptOutput
from holdfast.runtime.mcp.short_text import Shown, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.runtime.guest.pulse.state import State


def command(
    result: ExecResult, news: Iterable[str] = (), *, waited: float = 0.0, output: KeptOutput | None = None
) -> str:
    """Return a command's result: news, output, facts. `waited` is in seconds.

    `output` is what was passed on as it came, of which the result has only the end.
    """
    shown = shorten(result.plain) if output is None else output.both_ends(result.rows, result.cols)
    lines = [*news, *(f"since your last command: {event.text}" for event in result.news)]
    lines += [lost(result.lost + (result.dropped if output is None else 0)), shown.text, *_remarks(result)]
    return joined([*lines, facts(_facts(result, shown, waited))])


def joined(parts: Iterable[str]) -> str:
    """Return the parts that hold something, each on lines of its own."""
    return "\n".join(part for part in parts if part.strip())


def facts(parts: Iterable[str]) -> str:
    """Return facts as one line; empty if there are none."""
    known = " · ".join(part for part in parts if part)
    return f"[{known}]" if known else ""


def lost(count: int) -> str:
    """Return the remark that `count` bytes at the beginning are missing; empty for none."""
    return f"({count} bytes before this are not kept)" if count else ""


def rest(shown: Shown, id_: str) -> str:
    """Return how to read what was left out of an output; empty if nothing was."""
    if shown.omitted is None:
        return ""
    first = shown.omitted[0]
    return f"read(id={id_!r}, line={first}) shows the rest" if first else f"read(id={id_!r}) shows all of it"


def still_runs(waited: float, id_: str) -> tuple[str, ...]:
    """Return the facts of what has not ended after `waited` seconds."""
    return f"still runs after {waited:.0f} s", f"id {id_}", "wait(id=…) follows it"


def doing(state: State) -> str:
    """Return what a program does, without the time."""
    return state.phrase(state.since).removesuffix(", 0 s so far")


def waits(state: State) -> str:
    """Return what a program waits for, and how to answer it."""
    return f"{doing(state)}; answer(text=…)"


def _facts(result: ExecResult, shown: Shown, waited: float) -> list[str]:
    id_ = result.command_id
    if result.waiting is not None:
        parts = [waits(result.waiting), f"id {id_}"]
    elif result.running:
        parts = [*still_runs(waited, id_)]
    else:
        parts = [_end(result), f"{result.duration:.1f} s", plain(result.cwd or "", 200)]
    return [*parts, rest(shown, id_)]


def _end(result: ExecResult) -> str:
    if result.timed_out:
        return "interrupted after its time was over"
    if result.exit_code is None:
        return "the shell ended with it" if result.shell_exited else "it ended; its exit code is unknown"
    return f"exit {result.exit_code}{_signal(result.signal)}"


def _signal(number: int | None) -> str:
    if not number:
        return ""
    try:
        return f", {signal.Signals(number).name}"
    except ValueError:
        return f", signal {number}"


def _remarks(result: ExecResult) -> Iterable[str]:
    if result.message:
        yield f"({result.message})"
    elif result.shell_exited:
        yield "(the shell ended; the next command gets a new one, in its first directory)"
