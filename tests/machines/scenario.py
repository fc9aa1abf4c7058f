"""A user's work with sessions, step by step, through the command line; and the result of each step.

Needs two users of machines: one that does it all, and one on another engine, where what the first has
exported continues. Knows neither engines nor how commands reach them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.compat.wording import ending

Result = Literal["ok", "refused", "failed", "not run"]
MEMORY = "512m"
_BEGIN = "cd /srv; MOMENT=kept; echo held > held; exec 9<held; sleep 5000 &"
_LOOK = 'echo "$PWD $MOMENT $(cat <&9) $(jobs -r | grep -c 5000)"'
_SEEN = "/srv kept held 1"
_CELL, _LOOK_CELL = "data = [n * n for n in range(10)]; sum(data)", "data[3]"
_ASK = 'read -s -p "Password: " word; echo "heard $word"'
# A process that the command leaves behind, so that its end is an event of its own.
_GREEDY = '(python3 -c "import time; time.sleep(1); held = bytearray(2 << 30)" &)'
_REFUSALS = ("engine_unfit", "live_unsupported")
"""Codes of errors that name a limit of the machine, instead of a fault."""
_LIMIT = "cannot take a live snapshot of session "
"""The beginning of what `doctor` says of something in its trial that cannot be captured on the machine."""


class User(Protocol):
    """A user of an engine."""

    folder: Path
    """A folder of theirs, for exported snapshots."""

    def cli(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command `holdfast` with these arguments, and wait for its end."""

    def fetch(self, file: Path) -> Path:
        """Return the path, on this machine, of a file in `folder`."""

    def left(self) -> list[str]:
        """Return the user's sessions and snapshots that the engine and this host still hold."""


@dataclass(frozen=True, slots=True)
class Step:
    """One verb and its result, with the reason or the measurement."""

    verb: str
    result: Result
    note: str = ""


class StepFailed(Exception):
    """The step did not do what it should."""


class StepRefused(Exception):
    """The command line refused it in one line."""


@dataclass
class Trial:
    """The state that steps share: the user, and the sessions and snapshots so far."""

    here: User
    elsewhere: User
    passed: set[str] = field(default_factory=set)

    def ask(self, *arguments: str, at: User | None = None, codes: tuple[int, ...] = (0,)) -> Any:
        """Return the answer of the command line with `--json`.

        Raises:
            StepRefused, StepFailed: it exits with another code.
        """
        done = (at or self.here).cli(*arguments, "--json")
        if done.returncode not in codes:
            raise _ended(done)
        return json.loads(done.stdout)

    def holds(self, session: str, at: User | None = None) -> None:
        """Check that shell, jobs, open files and kernel of a session are the original ones."""
        seen = self.ask("exec", session, _LOOK, at=at)["output"].strip()
        _check(seen == _SEEN, f"its shell says {seen!r}, not {_SEEN!r}")
        self.ask("exec", session, "exec 9<held", at=at)
        cell = self.ask("cell", session, _LOOK_CELL, at=at)
        _check("9" in str(cell), f"its kernel does not say 9: {cell}")


def _ended(done: subprocess.CompletedProcess[str]) -> Exception:
    try:
        error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
    except (ValueError, LookupError, TypeError):
        return StepFailed(f"exit code {done.returncode}: {ending(done.stderr or done.stdout)}")
    said = f"{error['message']} ({error['hint']})" if error["hint"] else str(error["message"])
    return StepRefused(said) if error["code"] in _REFUSALS else StepFailed(said)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StepFailed(otherwise)


def _doctor(trial: Trial) -> str:
    done = trial.here.cli("doctor", "--json")
    try:
        checks = {check["name"]: check for check in json.loads(done.stdout)}
    except ValueError:
        raise _ended(done) from None
    wrong = {name: check for name, check in checks.items() if not check["ok"]}
    if "engine" in wrong and "live capture" not in checks:
        raise StepRefused(f"{checks['engine']['detail']} ({checks['engine']['hint']})")
    if [*wrong] == ["live capture"] and str(wrong["live capture"]["detail"]).startswith(_LIMIT):
        raise StepRefused(str(wrong["live capture"]["detail"]))
    _check(not wrong, "; ".join(f"{name}: {check['detail']}" for name, check in wrong.items()))
    live = str(checks["live capture"]["detail"])
    return live if "commit" in live else ""


def _new(trial: Trial) -> str:
    trial.ask("new", "work", "--memory", MEMORY)
    return ""


def _exec(trial: Trial) -> str:
    trial.ask("exec", "work", _BEGIN)
    return ""


def _cell(trial: Trial) -> str:
    trial.ask("cell", "work", _CELL)
    trial.holds("work")
    return ""


def _waiting(trial: Trial) -> str:
    asked = trial.ask("exec", "work", _ASK, codes=(75,))["waiting"]
    _check((asked or {}).get("detail") == "password", f"not reported as a password: {asked}")
    _check("Password:" in asked["prompt"], f"not its prompt: {asked}")
    answered = trial.ask("send", "work", "--wait", "-e", "sesame")
    _check("heard sesame" in answered["output"], f"not answered: {answered}")
    return ""


def _pulse(trial: Trial) -> str:
    limits = trial.ask("pulse", "work")["limits"]
    _check(limits["memory"]["limit"] == 512 << 20, f"another limit: {limits['memory']}")
    _check(0 < limits["memory"]["used"] < 512 << 20, f"used: {limits['memory']}")
    memory = (limits["pressure"] or {}).get("memory")
    _check(isinstance((memory or {}).get("some_avg10"), float), f"no pressure of memory: {limits}")
    return f"pressure of the {limits['pressure_of']}"


def _oom(trial: Trial) -> str:
    trial.ask("new", "greedy", "--memory", "256m")
    trial.ask("exec", "greedy", _GREEDY)
    # Ends with the event, or is ended by the time limit of the caller.
    trial.ask("exec", "greedy", "while pgrep -f bytearray >/dev/null; do sleep 0.1; done", "--timeout", "120")
    trial.ask("exec", "greedy", "sleep 1.5", "--timeout", "60")
    events = trial.ask("events", "greedy")
    killed = [each for each in events if each["kind"] == "process_exited" and each["cause"] == "oom"]
    _check(len(killed) == 1, f"not reported as killed for lack of memory: {events}")
    _check("bytearray" in killed[0]["command"], f"another process: {killed}")
    _check(trial.ask("exec", "greedy", "echo alive")["output"].strip() == "alive", "the session is gone")
    trial.ask("rm", "greedy")
    return ""


def _snapshot(trial: Trial) -> str:
    done = trial.here.cli("snapshot", "work", "--label", "one", "--json")
    if done.returncode:
        raise _ended(done)
    trial.holds("work")
    slow = "; the engine commits its files meanwhile" if "engine committed its files" in done.stderr else ""
    return f"frozen {json.loads(done.stdout)['frozen_seconds']:.2f} s{slow}"


def _restore(trial: Trial) -> str:
    trial.ask("restore", "one", "--name", "copy")
    trial.holds("copy")
    return ""


def _fork(trial: Trial) -> str:
    trial.ask("fork", "one", "--name", "try", "-n", "2")
    for name in ("try-1", "try-2"):
        trial.holds(name)
        trial.ask("rm", name)
    return ""


def _suspend(trial: Trial) -> str:
    trial.ask("suspend", "work")
    trial.ask("resume", "work")
    trial.holds("work")
    return ""


def _rewind(trial: Trial) -> str:
    trial.ask("exec", "work", "MOMENT=later; kill %1; rm held; wait")
    trial.ask("rewind", "work", "one")
    trial.holds("work")
    return ""


def _moved(trial: Trial) -> str:
    exported = trial.here.folder / "one.tar"
    key = trial.ask("export", "one", str(exported), "--compression", "zstd")["signed_by"]
    bundle = trial.here.fetch(exported)
    trial.ask("key", "trust", key, at=trial.elsewhere)
    try:
        trial.ask("import", str(bundle), at=trial.elsewhere)
        trial.ask("restore", "one", "--name", "moved", at=trial.elsewhere)
        trial.holds("moved", at=trial.elsewhere)
    finally:
        for undo in (("rm", "moved"), ("rmi", "one"), ("key", "rm", key)):
            trial.elsewhere.cli(*undo)
        bundle.unlink()
    return ""


def _drift(trial: Trial) -> str:
    trial.ask("exec", "copy", "echo more > /srv/added")
    files = {change["path"] for change in trial.ask("drift", "copy", "--since", "one")["files"]}
    _check("/srv/added" in files, f"the new file is not among {sorted(files)}")
    return ""


def _remove(trial: Trial) -> str:
    for row in trial.ask("ls"):
        trial.ask("rm", row["id"])
    for row in reversed(trial.ask("snapshots")):
        trial.ask("rmi", row["id"])
    left = trial.here.left()
    _check(not left, f"left: {', '.join(left)}")
    return ""


_ACTS: tuple[tuple[str, Callable[[Trial], str], str], ...] = (
    ("doctor", _doctor, ""),
    ("new", _new, ""),
    ("exec", _exec, "new"),
    ("cell", _cell, "exec"),
    ("waiting", _waiting, "new"),
    ("pulse", _pulse, "new"),
    ("OOM", _oom, "new"),
    ("snapshot", _snapshot, "cell"),
    ("restore", _restore, "snapshot"),
    ("fork", _fork, "snapshot"),
    ("suspend, resume", _suspend, "snapshot"),
    ("rewind", _rewind, "snapshot"),
    ("moved", _moved, "snapshot"),
    ("drift", _drift, "restore"),
    ("rm", _remove, ""),
)
"""Each step, and the one without which it cannot be taken."""
VERBS = tuple(verb for verb, _, _ in _ACTS)


def play(here: User, elsewhere: User, without: Sequence[str] = ()) -> Iterator[Step]:
    """Take all steps but those left out, and yield the result of each; the last one removes everything."""
    trial = Trial(here, elsewhere)
    for verb, act, needed in _ACTS:
        possible = verb not in without and (not needed or needed in trial.passed)
        step = _taken(trial, verb, act) if possible else Step(verb, "not run")
        if step.result == "ok":
            trial.passed.add(verb)
        yield step


def _taken(trial: Trial, verb: str, act: Callable[[Trial], str]) -> Step:
    try:
        return Step(verb, "ok", act(trial))
    except StepRefused as refused:
        return Step(verb, "refused", str(refused))
    except (StepFailed, subprocess.TimeoutExpired, ValueError, LookupError) as failed:
        return Step(verb, "failed", str(failed) or type(failed).__name__)
