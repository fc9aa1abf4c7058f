"""`python -m bench.waiting`: run the cases in a session, and write `docs/waiting.md`."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path

from rich.console import Console

from bench.waiting.cases import CASES, PACKAGES, SETUP, WAITING, Case
from bench.waiting.table import Found, page, summary
from bench.world import World, about, opened
from holdfast import HoldfastError, Session, State
from holdfast.base import ids
from holdfast.runtime.guest_rpc import wait_state, wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient

PAGE = Path(__file__).parents[2] / "docs" / "waiting.md"
RESULTS = Path(__file__).parents[1] / "results"
PATIENCE = 20.0
"""Seconds for a program to begin to wait."""
WATCHED = 2.0
"""Seconds for which one that does not wait is watched."""
LOOKS = 0.1

_console = Console(stderr=True, highlight=False)


def main() -> int:
    chosen = _arguments()
    with opened(_tell) as world:
        facts = about(world, quick=False)
        session = world.session("waiting")
        _prepare(session)
        runner = Runner(world, session)
        cases = [case for case in CASES if chosen.only is None or chosen.only in case.name]
        found = []
        for case in cases:
            one = runner.run(case)
            found.append(one)
            mark = "" if one.right else "  <-- "
            delay = "" if one.delay is None else f"{one.delay * 1000:.0f} ms"
            _console.print(f"{one.name}: {one.reported} {delay} {one.prompt!r}{mark}", markup=False)
    print(summary(found))
    if chosen.only is None and not chosen.dry:
        RESULTS.mkdir(exist_ok=True)
        rows = [
            {"case": one.name, "truth": one.truth, "reported": one.reported, "delay": one.delay}
            for one in found
        ]
        (RESULTS / "waiting.json").write_text(json.dumps({"about": facts, "cases": rows}, indent=1) + "\n")
        day, cpus, cpu, kernel = str(facts["at"])[:10], facts["cpus"], facts["cpu"], facts["kernel"]
        on = (
            f"Measured {day} on {cpus} processors ({cpu}), Linux {kernel}, load {facts['load']} at the start."
        )
        PAGE.write_text(page(found, on))
    return 0 if all(one.sorted_right for one in found) else 1


class Runner:
    """Runs one case after the other in one session, and leaves its shell unchanged."""

    def __init__(self, world: World, session: Session) -> None:
        self._session = session
        self._client = GuestClient(world.holdfast.home.run_dir(session.id))
        self._events: list[tuple[str, float, object]] = []
        self._over = threading.Event()

    def run(self, case: Case) -> Found:
        """Run it and collect the reports."""
        self._events, self._over = [], threading.Event()
        thread = threading.Thread(target=self._follow, args=(f"cd /workspace; {case.command}",), daemon=True)
        thread.start()
        found = self._positive(case) if case.truth in WAITING else self._negative(case)
        self._end()
        thread.join(10)
        return found

    def _follow(self, command: str) -> None:
        """Record the time of each event."""
        arguments = {"id": ids.new_id(), "shell": "main", "timeout": None}
        try:
            for frame in self._client.call("exec", payload=command.encode(), **arguments):
                kind = wire_fields.event(frame)
                state = wait_state.state(frame.head.get("state")) if kind == "waiting" else None
                self._events.append((kind, time.monotonic(), state))
        except HoldfastError as error:
            self._events.append(("error", time.monotonic(), str(error)))
        self._over.set()

    def _positive(self, case: Case) -> Found:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not self._over.is_set():
            if case.warm:
                self._over.wait(case.warm)
            told = self._last("waiting")
            if told:
                break
            self._over.wait(0.005)
        told = self._last("waiting")
        if told is None:
            state = self._session.shell().observed
            reported = "ended" if self._over.is_set() else (state.detail or state.state if state else "?")
            return Found(case.name, case.truth, reported)
        _, at, found = told
        before = [when for kind, when, _ in self._events if kind in ("started", "output") and when <= at]
        assert isinstance(found, State)
        return Found(case.name, case.truth, found.detail or "", at - before[-1], found.prompt)

    def _negative(self, case: Case) -> Found:
        deadline = time.monotonic() + max(WATCHED, case.warm)
        seen: list[str] = []
        while time.monotonic() < deadline and not self._over.wait(LOOKS):
            state = self._session.shell().observed
            if state and state.state in ("running", "stopped"):
                seen.append(state.detail or state.state)
        told = self._last("waiting")
        if told:
            found = told[2]
            assert isinstance(found, State)
            return Found(case.name, case.truth, found.detail or "waiting", None, found.prompt)
        seen = seen[len(seen) // 4 :]  # its activity while it started
        reported = max(set(seen), key=seen.count) if seen else "ended"
        return Found(case.name, case.truth, reported)

    def _last(self, kind: str) -> tuple[str, float, object] | None:
        return next((event for event in reversed(self._events) if event[0] == kind), None)

    def _end(self) -> None:
        """End whatever runs."""
        deadline = time.monotonic() + PATIENCE
        self._session.interrupt()
        while not self._over.wait(0.2) and time.monotonic() < deadline:
            self._client.request("signal", shell="main", signal="KILL")
            self._over.wait(0.2)
            self._session.interrupt()
        self._session.exec(
            "kill -CONT %% 2>/dev/null; stty sane; kill $(jobs -p) 2>/dev/null; wait; reset", timeout=10
        )


def _prepare(session: Session) -> None:
    _tell("installing programs")
    install = f"apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y {PACKAGES}"
    for command in (install, f"bash -e <<'SETUP'\n{SETUP}\nSETUP"):
        done = session.exec(f"( {command}\n) < /dev/null", timeout=900)
        if not done.ok:
            raise HoldfastError(f"cannot prepare the session: {done.text[-1000:]}")


def _tell(line: str) -> None:
    _console.print(f"[dim]waiting:[/dim] {line}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.waiting", description=__doc__)
    parser.add_argument("--only", help="only cases whose name contains this; nothing is written")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
