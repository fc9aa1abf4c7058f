"""Journal entries as lines for people.  Pure.

Their contents come from sessions and may be anything; the caller makes them safe to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.base.text import plain
from holdfast.runtime.journal import event_text
from holdfast.runtime.journal.event_text import Fields
from holdfast.runtime.store.entry import Entry

MAX_LINE = 160


def line(entry: Entry, *, asked: str) -> str:
    """Format one entry. Sessions other than the one asked for are named."""
    at = entry.time.astimezone()
    number = f"{entry.seq}{'+' if entry.host else ''}"
    where = "" if entry.session == asked else f" [{entry.session}]"
    mark = " " if entry.current else "~"
    text = plain(text_of(entry), MAX_LINE)
    reason = Fields(entry.details)("reason", "")
    why = f"  ({plain(reason, 80)})" if reason else ""
    return f"{mark}{number:>6}  {at:%m-%d %H:%M:%S}  {entry.actor or '-':<14}{where} {text}{why}".rstrip()


def text_of(entry: Entry) -> str:
    """Describe what happened, in one line."""
    of = Fields(entry.details)
    if entry.kind == "changed":
        return _changed(entry.details)
    if entry.kind in _SENTENCES:
        return _SENTENCES[entry.kind](of)
    if entry.kind == "refused":
        return event_text.format_event(entry.kind, entry.details)
    return f"{entry.kind.replace('_', ' ')}: {event_text.format_event(entry.kind, entry.details)}"


def _first(text: str) -> str:
    head, _, rest = text.strip().partition("\n")
    return f"{head} …" if rest else head


def _started(of: Fields) -> str:
    key = f" [key {of('key')}]" if of("key", "") else ""
    return f"$ {_first(of('command', '(unknown)'))}{key}"


def _ended(of: Fields) -> str:
    how = "exit " + of("exit_code")
    if of("shell_exited") == "True":
        how = "the shell ended"
    elif of("timed_out") == "True":
        how = "timed out"
    return f"  {how} after {_seconds(of)}"


def _seconds(of: Fields) -> str:
    try:
        return f"{float(of('duration')):.3g} s"
    except ValueError:
        return "? s"


def _cell_ended(of: Fields) -> str:
    return f"  {of('status')} after {_seconds(of)}"


def _input(of: Fields) -> str:
    shown = of("text", "")
    return f"typed {of('bytes')} bytes{f': {_first(shown)}' if shown else ', hidden'}"


def _dropped(of: Fields) -> str:
    amount = ", ".join(f"{of(key)} {key}" for key in ("entries", "bytes") if of(key, ""))
    return f"entries are missing here ({of('why')}): {amount}"


def _named(of: Fields) -> str:
    return of("label", "") or of("snapshot")


def _changed(entry: Mapping[str, Any]) -> str:
    tables = ("variables", "functions", "aliases", "names")
    names = [name for table in tables if isinstance(changes := entry.get(table), dict) for name in changes]
    names += [key for key in ("cwd", "umask", "ports", "epoch") if key in entry]
    return f"  changed {', '.join(map(str, names[:20]))}{' …' if len(names) > 20 else ''}"


def _network(of: Fields) -> str:
    """Describe a change of the session's network rules."""
    words = {"allowed": "also", "disallowed": "no longer"}
    changes = [f", {word} {of(key)}" for key, word in words.items() if of(key, "")]
    return f"reaches {of('network')}{''.join(changes)}"


_SENTENCES: Mapping[str, Callable[[Fields], str]] = {
    "command_started": _started,
    "command_ended": _ended,
    "cell_started": lambda of: f">>> {_first(of('code'))}",
    "cell_ended": _cell_ended,
    "input": _input,
    "dropped": _dropped,
    "created": lambda of: f"session {of('name')} was made",
    "snapshot": lambda of: f"snapshot {_named(of)} was taken ({of('of')})",
    "restored": lambda of: f"continues from snapshot {_named(of)}",
    "forked": lambda of: f"snapshot {_named(of)} continues as {of('into')}",
    "suspended": lambda of: "suspended",
    "network": _network,
    "resumed": lambda of: "resumed",
    "rewound": lambda of: (
        f"went back to snapshot {_named(of)}, leaving {of('left_behind')} commands behind"
        + (f"; kept as {of('kept')}" if of("kept", "") else "")
    ),
    "removed": lambda of: "removed",
    "died": lambda of: f"found dead: {of('why')}",
    "attached": lambda of: f"attached to shell {of('shell')}",
    "detached": lambda of: f"detached from shell {of('shell')}",
    "lease": lambda of: f"lease of shell {of('shell')}: {of('action')} by {of('holder', 'nobody')}",
    "resized": lambda of: f"shell {of('shell')} has {of('rows')} rows, {of('cols')} columns",
}
