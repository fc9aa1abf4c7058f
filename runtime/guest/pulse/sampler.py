"""A watch on the foreground of one terminal while a command runs, which reports when it waits.

A driver: it owns the ticks and the memory of its reports. `foreground.py` takes the samples and
`terminal_state.py` judges them. There is no tick while the shell is at its prompt; a sample costs about 0.1
ms, and the ticks are spaced so that sampling takes at most a twentieth of a processor.
"""

from __future__ import annotations

import asyncio
import re
import termios
import time
from typing import Protocol

from holdfast.base.value_classes import replace
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.pulse.foreground import ForegroundGroup, Sight
from holdfast.runtime.guest.pulse.input_kind import Prompt, at_cursor
from holdfast.runtime.guest.pulse.state import State

FIRST = 0.012
TICK = 0.02
CONFIRM = 0.01
"""Seconds for which a thread must have been blocked in the same call: some read line after line."""
SETTLED = 0.05
"""Seconds between samples of a program that is known to wait."""
THRIFT = 20
"""Multiple of a sample's own duration to wait before the next."""
STARTED = re.compile(r"/(?:\S*/)?(bash|zsh|fish)[^\s/]* (?:--rcfile|-c|-i|--init-command)(?: |$)")
"""A leader that still has its original arguments, which say nothing: a shell's, or a job's. Its name does."""
UNTAKEN = 0.25
"""Seconds after which typed input counts as not what the program waits for: half a line, say."""


class Subject(Protocol):
    """The terminal that is watched."""

    @property
    def master(self) -> int | None:
        """The descriptor of its master side, while a shell runs."""

    @property
    def leader(self) -> int | None:
        """The process whose terminal it is."""

    def foreground_group(self) -> int | None:
        """Return the process group in its foreground."""

    def drain(self) -> None:
        """Record the output that it holds now."""

    def end(self) -> int:
        """Return the offset after the newest output."""

    def tail(self) -> bytes:
        """Return the newest output of the running work."""

    def observed(self, state: State) -> None:
        """Note that it began or stopped waiting."""


class Sampler:
    """The state of a terminal's foreground while it is watched. Each wait is an episode."""

    def __init__(self, subject: Subject, least: float = 0.0) -> None:
        """Set up the sampler; `least` is the minimum of seconds between two unrequested samples."""
        self._subject = subject
        self._least = least
        self._loop = asyncio.get_running_loop()
        self._foreground = ForegroundGroup(self._loop.time)
        self._timer: asyncio.TimerHandle | None = None
        self._watching = False
        self._candidate: tuple[object, float, float] | None = None
        self._typed: tuple[object, int, float] | None = None
        self._looks = 0
        self._before: State | None = None
        """The last state in which it waited, unless something was typed since."""
        self._prompt: tuple[int, Prompt] = (-1, Prompt())
        self._reported_at = -1
        self.state = State("idle")
        self.episode = 0

    def watch(self, wanted: bool) -> None:
        """Start or stop sampling."""
        if wanted == self._watching:
            return
        self._watching = wanted
        self._candidate = self._typed = self._before = None
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if wanted:
            self.state = State("running", "cpu", since=time.time())
            self._foreground.forget()
            self._timer = self._loop.call_later(FIRST, self._tick)
        else:
            self.state = State("idle", since=time.time())

    def typed(self) -> None:
        """Note typed input: the waiting program continues, or waits for more."""
        if not self._watching:
            return
        self._typed = self._before = None
        if self._candidate:
            sight = self._look()
            if sight and sight.verdict.state == "waiting":
                turns = self._foreground.turns(sight.verdict)
                self._typed, self._looks = (_key(sight), turns, self._loop.time()), 0
        self._candidate = None
        if self.state.waits:
            self._publish(State("running", "io", self.state.pid, self.state.command, time.time()))
        self._again(CONFIRM)

    def look(self) -> State:
        """Return the state, sampled now. It counts as waiting only after some time of waiting."""
        if self._watching:
            self._tick()
        if self.state.state == "running":
            # It may have been first seen between fork and exec, under the name of its parent.
            self.state = replace(self.state, command=self._command(self.state.pid))
        return self.state

    def _tick(self) -> None:
        began = time.perf_counter()
        delay = TICK
        sight = self._look()
        if sight:
            delay = self._take(sight)
        if self._watching:
            cost = time.perf_counter() - began - self._foreground.spare
            self._again(max(delay, THRIFT * cost, self._least))

    def _again(self, delay: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._tick)

    def _look(self) -> Sight | None:
        master, leader, group = self._subject.master, self._subject.leader, self._subject.foreground_group()
        if master is None or leader is None or group is None:
            return None
        try:
            return self._foreground.look(master, leader, group, self._subject.end(), self._asked)
        except (OSError, termios.error):
            return None

    def _asked(self) -> Prompt:
        end = self._subject.end()
        if self._prompt[0] != end:
            self._prompt = (end, at_cursor(self._subject.tail()))
        return self._prompt[1]

    def _take(self, sight: Sight) -> float:
        """Process a sample; return the delay until the next."""
        verdict, now = sight.verdict, self._loop.time()
        if verdict.state != "waiting":
            self._candidate = None
            self._goes_on(sight)
            return TICK
        key = _key(sight)
        if self._is_untaken(sight, key, now):
            return CONFIRM
        if self._candidate is None or self._candidate[0] != key:
            self._candidate = (key, now, time.time())
            if self.state.waits:
                self._publish(State("running", "cpu", verdict.pid, self.state.command, time.time()))
            return CONFIRM
        if now - self._candidate[1] < CONFIRM * 0.95:
            return CONFIRM
        if not self.state.waits:
            self._settle(key)
            return SETTLED if self.state.waits else CONFIRM
        if self._subject.end() != self._reported_at:
            self._look_at_prompt(sight)
        return SETTLED

    def _settle(self, key: object) -> None:
        """Report that it waits, with all that it wrote before."""
        self._subject.drain()
        # The output just read may have contained the end of the command, or more of the prompt.
        sight = self._look() if self._watching else None
        if sight is None or sight.verdict.state != "waiting" or _key(sight) != key or not self._candidate:
            return
        verdict = sight.verdict
        assert verdict.pid
        asked = self._asked()
        # On a full screen the cursor may be anywhere; the text there asks for nothing.
        prompt = "" if asked.alternate and verdict.detail == "key" else asked.text
        command, since = self._command(verdict.pid), self._candidate[2]
        state, end = (
            State("waiting", verdict.detail, verdict.pid, command, since, prompt),
            self._subject.end(),
        )
        if self._before is not None and self._reported_at == end:
            # After an interruption, by a capture, say, the same call continued: do not report it again.
            same = replace(self._before, since=since) == state
            state = self._before if same else state
            self.episode += not same
        else:
            self.episode += 1
        self._reported_at, self._before = end, state
        self._publish(state)

    def _look_at_prompt(self, sight: Sight) -> None:
        """Check whether it asks a new question in the same call: the time for an answer had run out."""
        self._reported_at = self._subject.end()
        if self._asked().text != self.state.prompt and self._asked().asks and not self._asked().alternate:
            self._candidate = None
            self._publish(State("running", "io", self.state.pid, self.state.command, time.time()))

    def _is_untaken(self, sight: Sight, key: object, now: float) -> bool:
        """Check whether the program possibly has not seen the typed input yet."""
        if self._typed is None:
            return False
        before, turns, at = self._typed
        self._looks += 1
        # Require both: after a pause of the machine much time has passed, but no process has run.
        late = now - at >= UNTAKEN and self._looks >= UNTAKEN / CONFIRM / 2
        if before != key or late or self._foreground.turns(sight.verdict) != turns:
            self._typed = None
            return False
        return True

    def _goes_on(self, sight: Sight) -> None:
        verdict, state = sight.verdict, self.state
        if (state.state, state.detail, state.pid) == (verdict.state, verdict.detail, verdict.pid):
            return
        same = state.state == verdict.state and state.pid == verdict.pid
        since = state.since if same else time.time()
        self._publish(State(verdict.state, verdict.detail, verdict.pid, self._command(verdict.pid), since))

    def _command(self, pid: int | None) -> str:
        if pid is None:
            return ""
        found = access.command(pid)
        # It may have become another program, by exec: bash does so with the last one of a job.
        if pid != self._subject.leader:
            return found
        started = STARTED.match(found)
        return started[1] if started else found or "bash"

    def _publish(self, state: State) -> None:
        changed = state.waits or self.state.waits
        self.state = state
        if changed:
            self._subject.observed(state)


def _key(sight: Sight) -> object:
    return (sight.verdict.pid, sight.verdict.tid, sight.line)
