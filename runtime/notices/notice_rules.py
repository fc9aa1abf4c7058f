"""The events of a session that are worth a notice, and the wishes of subscribers.  Pure.

A question becomes a notice only if it is not answered within a moment, as agents answer most of theirs. Texts
come from the session: they are cut, and control characters are removed. They never include output. Knows
neither addresses nor how notices are sent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from typing import Any, Literal

from holdfast.base.text import plain
from holdfast.base.value_classes import as_table

NoticeKind = Literal["waiting", "ended", "failed", "died", "test"]
KINDS: tuple[NoticeKind, ...] = ("waiting", "ended", "failed", "died")
"""The kinds that can be chosen."""
FOLLOWED = ("waiting", "input", "command_started", "command_ended", "cell_ended", "job_ended")
"""The events that decide about notices, besides the end of a session."""
SETTLE_SECONDS = 2.0
"""Seconds that a program waits before there is a notice."""
MOST_HELD = 100
"""Commands of a session whose texts are remembered, and questions that are held back."""
MOST_OF_SESSION, WINDOW_SECONDS = 20, 600.0
"""The most notices of one session for one subscription, and the seconds they are counted for."""
_ASKS = {
    "line": "a line",
    "password": "a password",
    "key": "a key",
    "pager": "a key in a pager",
    "repl": "input at its prompt",
}
_DEAD = frozenset({"dead", "exited", "oom"})
"""Causes for which the end of a session is its death."""


@dataclass(frozen=True, slots=True)
class SentNotice:
    """One message to a person.

    Attributes:
        kind: waiting, ended, failed, died, or test.
        session_id, session: id and name of the session.
        title, text: for people; the text can be empty.
        at: in seconds since 1970.
        shell: the shell that waits, if one does.
        actor: of the command, cell or job that ended.
        seconds: the time it took.
    """

    kind: NoticeKind
    session_id: str
    session: str
    title: str
    text: str
    at: float
    shell: str = ""
    actor: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return as_table(self)


class SessionNotices:
    """The events of one session, read for notices."""

    def __init__(self, session_id: str, session: str) -> None:
        self._id, self._name = session_id, plain(session, 80)
        self._commands: OrderedDict[str, str] = OrderedDict()
        self._held: OrderedDict[str, tuple[float, SentNotice]] = OrderedDict()

    def hear(self, kind: str, data: Mapping[str, Any], at: float, now: float) -> SentNotice | None:
        """Return the notice of an event; a question is held back, see `due`."""
        match kind:
            case "command_started":
                _put(self._commands, _text(data, "id", 80), _text(data, "command", 120))
            case "waiting":
                self._wait(data, at, now)
            case "input":
                self._held.pop(_place(data), None)
            case "command_ended" | "cell_ended" | "job_ended":
                return self._ended(kind, data, at)
            case "session_ended" if data.get("cause") in _DEAD:
                why = "it ran out of memory" if data["cause"] == "oom" else _text(data, "message", 200)
                return self._notice("died", f"{self._name} has died", why, at)
        return None

    def due(self, now: float) -> Iterator[SentNotice]:
        """Yield each question that was not answered for a while, once."""
        for place, (when, notice) in list(self._held.items()):
            if when <= now:
                del self._held[place]
                yield notice

    @property
    def holds(self) -> bool:
        """True if a question is held back."""
        return bool(self._held)

    def _wait(self, data: Mapping[str, Any], at: float, now: float) -> None:
        state = data.get("state")
        found: Mapping[str, Any] = state if isinstance(state, dict) else {}
        asks = _ASKS.get(_text(found, "detail", 20), "input")
        program = _text(found, "command", 60) or "a program"
        title = f"{self._name}: {program} waits for {asks}"
        notice = self._notice(
            "waiting", title, _text(found, "prompt", 120), at, shell=_text(data, "shell", 60)
        )
        _put(self._held, _place(data), (now + SETTLE_SECONDS, notice))

    def _ended(self, kind: str, data: Mapping[str, Any], at: float) -> SentNotice | None:
        id_ = _text(data, "id", 80)
        self._held.pop(_place(data), None)
        known = self._commands.pop(id_, "")
        what = known or _text(data, "command", 120) or kind.partition("_")[0]
        lasted = data.get("duration")
        seconds = float(lasted) if isinstance(lasted, int | float) and 0 <= lasted < 1e9 else 0.0
        how = _failure(kind, data)
        title = f"{self._name}: {'failed' if how else 'ended'} after {seconds:.0f} s"
        text = f"{what} ({how})" if how else what
        actor = _text(data, "actor", 100)
        return self._notice("failed" if how else "ended", title, text, at, actor=actor, seconds=seconds)

    def _notice(self, kind: NoticeKind, title: str, text: str, at: float, **more: Any) -> SentNotice:
        return SentNotice(kind, self._id, self._name, title, text, at, **more)


def _put(into: OrderedDict[str, Any], name: str, value: Any) -> None:
    into[name] = value
    into.move_to_end(name)
    while len(into) > MOST_HELD:
        into.popitem(last=False)


def _place(data: Mapping[str, Any]) -> str:
    """Return the terminal that an event is about."""
    return f"job {_text(data, 'job', 80)}" if "job" in data else f"shell {_text(data, 'shell', 60)}"


def _text(data: Mapping[str, Any], name: str, limit: int) -> str:
    found = data.get(name)
    return " ".join(plain(found, limit).split()) if isinstance(found, str) else ""


def _failure(kind: str, data: Mapping[str, Any]) -> str:
    """Return how something failed; empty if it did not."""
    if kind == "cell_ended":
        status = _text(data, "status", 20)
        return "" if status == "ok" else status or "unknown"
    if isinstance(number := data.get("signal"), int):
        return f"signal {number}"
    code = data.get("exit_code")
    return f"exit {code}" if isinstance(code, int) and code != 0 else ""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The hours of each day without notices; past midnight if they end before they begin."""

    begin: time
    end: time
    zone: tzinfo

    def are_at(self, at: float) -> bool:
        """Return whether a moment, in seconds since 1970, is in them."""
        now = datetime.fromtimestamp(at, self.zone).time()
        if self.begin <= self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


@dataclass(frozen=True, slots=True)
class Wish:
    """The wish of one subscription: its session, kinds, and times."""

    actor: str
    session: str = ""
    """The id of a session; empty for all."""
    kinds: frozenset[str] = frozenset(KINDS)
    after: float = 60.0
    """Seconds that a command must have run for a notice of its end."""
    quiet: QuietHours | None = None

    def takes(self, notice: SentNotice, now: float) -> bool:
        """Return whether it includes a notice; short commands of the subscriber are left out."""
        if notice.kind not in self.kinds or self.session not in ("", notice.session_id):
            return False
        if self.quiet is not None and self.quiet.are_at(now):
            return False
        if notice.kind == "ended" or (notice.kind == "failed" and notice.actor == self.actor):
            return notice.seconds >= self.after
        return True


class NoticeRate:
    """How many notices each subscription was given of each session: a session can write any number."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], list[float]] = {}

    def allows(self, subscription: str, session: str, now: float) -> bool:
        """Count a notice; false if it is one too many."""
        if len(self._given) > 10_000:
            self._given = {
                key: times for key, times in self._given.items() if now - times[-1] < WINDOW_SECONDS
            }
        key = (subscription, session)
        recent = [each for each in self._given.get(key, ()) if now - each < WINDOW_SECONDS]
        allowed = len(recent) < MOST_OF_SESSION
        self._given[key] = [*recent, now] if allowed else recent
        return allowed
