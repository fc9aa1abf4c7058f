"""The main job, step by step."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.demo import asked, belongings, suite
from bench.demo.belongings import Belongings
from bench.demo.narrator import Narrator
from bench.demo.suite import Outcome, Run
from holdfast import Holdfast, Session, SessionDead, Snapshot

STEPS = 7
MIDDLE = 30
"""The percentage of finished tests at which the snapshot is taken."""
FORKS = 3
OWN = "/workspace/own"


class Story:
    """The steps, in order. Everything it makes is called `name`, or begins with it."""

    def __init__(self, holdfast: Holdfast, name: str, tell: Narrator) -> None:
        self._holdfast = holdfast
        self._name = name
        self._tell = tell

    def run(self) -> None:
        """Run all of it.

        Raises:
            CheckFailed: a check failed.
            HoldfastError: an operation failed.
        """
        tell = self._tell
        session = self._begin()

        tell.step("Run its test suite without interruption, for comparison")
        reference = self._uninterrupted(session)

        tell.step("Put things into the session: a web server, a job, variables, a kernel with 100 MB")
        held = Belongings.create(session)
        tell.say(f"directory {suite.FOLDER}, DEMO_TOKEN={held.token}, a function, two background jobs")
        tell.say("the kernel holds an array of 100 MB, and a thread counts")

        tell.step("Capture it in the middle of the suite, then kill it")
        run, command = self._start(session)
        held = held.now(session)
        snapshot = self._capture(session, run)
        self._kill(session, run)

        tell.step("Restore it")
        restored = self._restore(snapshot, command, reference, held)

        tell.step(f"Fork the same snapshot {FORKS} ways")
        before = held.now(restored)
        self._fork(snapshot, command, reference, held)
        with tell.about("restored session"):
            before.check_kernel(restored, tell)
            self._check_untouched(restored, held)

        tell.step("Run a command that asks for a password, capture it while it asks, answer it in a fork")
        asked.ask(restored, self._name, tell)

    def _begin(self) -> Session:
        tell = self._tell
        tell.step(f"Make a session and install {suite.PACKAGE} {suite.VERSION} from its source release")
        with tell.timed("session created"):
            session = self._holdfast.new(self._name)
        tell.say(f"to look at it from another terminal: .venv/bin/holdfast screen {self._name}")
        began = time.monotonic()
        size = suite.install(session, tell.say)
        took = time.monotonic() - began
        tell.say(f"installed: {took:.1f} s")
        tell.figure(f"{suite.PACKAGE} fetched and installed", took, size=size, remark="source release")
        return session

    def _uninterrupted(self, session: Session) -> Outcome:
        session.exec(f"cd {suite.FOLDER}")
        outcome = self._follow(["tests"], [Run(session)])[0]
        self._tell.say(f"{outcome.passed} tests passed in {outcome.seconds:.1f} s")
        self._tell.figure("suite, uninterrupted", outcome.seconds, remark=f"{outcome.passed} passed")
        return outcome

    def _start(self, session: Session) -> tuple[Run, str]:
        """Start the suite; return when it is halfway."""
        run = Run(session)
        with self._tell.bars() as bars:
            run.wait(lambda percent: bars.show("tests", percent), until=MIDDLE)
        command = session.shell().command_id
        self._tell.check(
            command is not None and run.percent < 100, f"the suite is in its middle, at {run.percent} %"
        )
        return run, command or ""

    def _capture(self, session: Session, run: Run) -> Snapshot:
        tell = self._tell
        at, counted = run.percent, belongings.number(session, "count")
        began = time.monotonic()
        snapshot = session.snapshot(self._name)
        took = time.monotonic() - began
        frozen = float(snapshot.row.details["frozen_seconds"])
        tell.say(f"snapshot taken: {took:.2f} s, of which the session stood still for {frozen:.2f} s")
        tell.figure("live snapshot, session frozen", frozen, remark=f"at {at} % of the suite")
        tell.figure("live snapshot, all of it", took, size=snapshot.size, remark="memory and files")
        tell.check(belongings.moves(session, "count", counted), "the session runs on")
        return snapshot

    def _kill(self, session: Session, run: Run) -> None:
        tell = self._tell
        at = run.percent
        run.wait(lambda _percent: None, until=at + 1)
        tell.check(run.percent > at, f"and so does the suite, to {run.percent} %")
        self._holdfast.engine.client.containers.get(session.row.container_id or "").kill()
        error = run.end()
        tell.check(
            isinstance(error, SessionDead), f"killed; who waited for the suite was told: {error}", error
        )

    def _restore(self, snapshot: Snapshot, command: str, reference: Outcome, held: Belongings) -> Session:
        tell = self._tell
        began = time.monotonic()
        restored = snapshot.restore(f"{self._name}-restored")
        belongings.number(restored, "count")
        took = time.monotonic() - began
        tell.say(f"restored, up to the first answer of its kernel: {took:.2f} s")
        tell.figure(
            "restored, to the first answer",
            took,
            size=int(snapshot.row.details["memory_bytes"]),
            remark="of memory",
        )
        began = time.monotonic()
        run = Run(restored, command)
        held.check_kernel(restored, tell)
        self._check_suite(self._follow(["tests"], [run])[0], reference)
        tell.figure(
            "suite, from there to its end", time.monotonic() - began, remark=f"{reference.passed} passed"
        )
        held.check_shell(restored, tell)
        return restored

    def _fork(self, snapshot: Snapshot, command: str, reference: Outcome, held: Belongings) -> None:
        tell = self._tell
        with tell.timed(f"{FORKS} forks, running", remark="of one snapshot"):
            forks = snapshot.fork(FORKS, f"{self._name}-fork")
        began = time.monotonic()
        runs = [Run(fork, command) for fork in forks]
        for number, fork in enumerate(forks, start=1):
            belongings.run(fork, f"array[:] = {number}; mine = {number}")
        outcomes = self._follow([f"fork {number}" for number in range(1, FORKS + 1)], runs)
        took = time.monotonic() - began
        tell.figure(
            f"suite, {FORKS} forks at once to its end", took, remark=f"{reference.passed} passed in each"
        )
        for number, (fork, outcome) in enumerate(zip(forks, outcomes, strict=True), start=1):
            with tell.about(f"fork {number}"):
                self._check_suite(outcome, reference)
                held.check_shell(fork, tell)
        self._check_apart(forks)

    def _check_apart(self, forks: Sequence[Session]) -> None:
        for number, fork in enumerate(forks, start=1):
            fork.exec(f"mkdir -p {OWN} && touch {OWN}/{number} && export DEMO_TOKEN=fork-{number}")
        for number, fork in enumerate(forks, start=1):
            seen = fork.exec(f"ls {OWN}; echo $DEMO_TOKEN").text.split()
            seen.append(str(belongings.value(fork, "(mine, float(array.min()), float(array.max()))")))
            wanted = [str(number), f"fork-{number}", str((number, float(number), float(number)))]
            self._tell.check(
                seen == wanted, f"fork {number} has its own file, variable and array, and no other's", seen
            )

    def _check_untouched(self, restored: Session, held: Belongings) -> None:
        held.check_shell(restored, self._tell)
        seen = restored.exec(f"ls {OWN} 2>&1 | grep -c '^[0-9]'").text.strip()
        self._tell.check(seen == "0", "and nothing of the forks", seen)

    def _check_suite(self, outcome: Outcome, reference: Outcome) -> None:
        self._tell.check(
            outcome.passed == reference.passed,
            f"the suite ended with {outcome.passed} passed",
            outcome.passed,
        )
        self._tell.check(
            outcome.starts == 1 and outcome.report == reference.report,
            "it was started once, and reported the same, line by line, as without interruption",
            suite.first_difference(reference.report, outcome.report),
        )

    def _follow(self, names: Sequence[str], runs: Sequence[Run]) -> list[Outcome]:
        """Show the progress of runs, to their ends."""
        with self._tell.bars() as bars:

            def show(_percent: int) -> None:
                for name, run in zip(names, runs, strict=True):
                    bars.show(name, run.percent)

            for run in runs:
                run.wait(show)
        return [run.outcome() for run in runs]
