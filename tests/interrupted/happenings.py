"""Events during the work that is handed over, at one moment each, and the right actions after each.

It acts on the session and its task as the world does: it kills, removes, edits and suspends. It neither reads
a handoff nor carries out what a successor has chosen.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.runtime.api.controller import Holdfast

if TYPE_CHECKING:
    from tests.interrupted.handover import Handover

OTHER = "agent:other/z9"


@dataclass(frozen=True, slots=True)
class Happened:
    """The right actions after an event, and the further facts a successor must know.

    `look_at` are files that others have changed, `twice`: two successors act.
    """

    right: tuple[str, ...]
    look_at: tuple[str, ...] = ()
    twice: bool = False
    then: Callable[[], object] = lambda: None
    """What the world does after the choice and before it is carried out."""


def nothing(work: Handover) -> Happened:
    """The conversation ends between two steps."""
    return Happened((_work_on(work),))


def container_killed(work: Handover) -> Happened:
    """It is killed while a checkpoint is taken, with the command line that takes it."""
    taking = work.started("checkpoint", work.name)
    time.sleep(work.draw.uniform(0.2, 2.0))
    work.hf.engine.client.containers.get(str(work.session.row.container_id)).kill()
    _kill(taking)
    return Happened(("bring back",))


def container_removed(work: Handover) -> Happened:
    """It is removed after the work of a step, before anything was verified: the work is undone."""
    number = work.open()[0]
    working = work.started("exec", work.name, f"{work.text(number)}; sleep 60", "--key", f"step {number}")
    _until(lambda: number in work.lines_of_ledger())
    work.hf.engine.kill_remove(str(work.session.row.container_id))
    _kill(working)
    return Happened(("bring back",))


def suspended(work: Handover) -> Happened:
    """The session is suspended."""
    work.session.suspend()
    return Happened(("bring back",))


def blocked(work: Handover) -> Happened:
    """Someone must do something first."""
    work.session.task.block("no access to the mirror", "an account", step=work.open()[0])
    return Happened(("unblock",))


def question(work: Handover) -> Happened:
    """A person must decide."""
    work.session.task.note("Which name?", "question", step=work.open()[0])
    return Happened(("answer 1",))


def claimed_by_another(work: Handover) -> Happened:
    """A second agent is about to verify the next step: the one after that is free."""
    number = work.open()[0]
    other = Holdfast(work.hf.home.root, actor=OTHER).session(work.session.id)
    other.task.claim(number)
    assert other.exec(work.text(number), key=f"step {number}", timeout=300).ok
    later = work.open()[1:2]
    right = f"work on {later[0]}" if later else "wait for others"
    return Happened((right,), then=lambda: other.task.done(number))


def finished_by_another(work: Handover) -> Happened:
    """A second agent does the next step in the meantime."""
    number = work.open()[0]
    other = Holdfast(work.hf.home.root, actor=OTHER).session(work.session.id)
    other.task.claim(number)
    assert other.exec(work.text(number), key=f"step {number}", timeout=300).ok
    assert other.task.done(number).done
    return Happened((_work_on(work) if work.open() else "finish",))


def two_at_once(work: Handover) -> Happened:
    """Two successors get the handoff, and both act."""
    return Happened((_work_on(work),), twice=True)


def failed(work: Handover) -> Happened:
    """The step is verified before its work was done."""
    return _failed(work, 1)


def failed_twice_alike(work: Handover) -> Happened:
    """The same failure again: a different way must be chosen."""
    return _failed(work, 2)


def command_left_running(work: Handover) -> Happened:
    """The command line is killed; the work of the step continues without it."""
    number = work.open()[0]
    text = f"until [ -e /tmp/go ]; do sleep 0.1; done; rm /tmp/go; {work.text(number)}"
    working = work.started("exec", work.name, text, "--key", f"step {number}")
    _until(lambda: bool(_started(work, number)))
    _kill(working)
    return Happened(
        (f"wait for {_started(work, number)}",), then=lambda: work.session.files.write("/tmp/go", "")
    )


def conversation_lost(work: Handover) -> Happened:
    """The work of the step has ended, and nothing was recorded: a second run would be seen."""
    number = work.open()[0]
    work.command("exec", work.name, work.text(number), "--key", f"step {number}")
    return Happened((f"verify {number}",))


def conversation_lost_in_verification(work: Handover) -> Happened:
    """It is killed at a random moment of `task done`: before, during or after the verification."""
    number = work.open()[0]
    work.command("exec", work.name, work.text(number), "--key", f"step {number}")
    verifying = work.started("task", "done", work.name, number)
    with suppress(subprocess.TimeoutExpired):
        verifying.wait(work.draw.uniform(0.2, 2.5))
    _kill(verifying)
    if number not in work.open():
        return Happened((_work_on(work) if work.open() else "finish",))
    running = [each.command_id for each in work.session.shells.list() if each.command_id]
    entries = work.session.journal(kinds=["command_started"])
    waits = [f"wait for #{entry.seq}" for entry in entries if entry.details.get("id") in running]
    return Happened((*waits, f"verify {number}"))


def edited_by_a_person(work: Handover) -> Happened:
    """A person writes a note into the record, and ticks a step that nothing has verified."""
    number, task = work.open()[0], work.session.task
    note = f"please mind the gap before {number}"
    text = (
        task.export()
        .replace("## Notes\n", f"## Notes\n\n{note}\n")
        .replace(f"[ ] {number} ", f"[x] {number} ")
    )
    Holdfast(work.hf.home.root, actor="person:ada").session(work.session.id).task.import_(text)
    work.said.append(note)
    return Happened((_work_on(work),))


def edited_from_outside(work: Handover) -> Happened:
    """A person changes files: by a command of their own, and by a copy from outside."""
    person = Holdfast(work.hf.home.root, actor="person:ada").session(work.session.id)
    assert person.exec("echo 'by hand' >> by-hand.txt").ok
    person.files.write("/workspace/copied.txt", b"from outside")
    return Happened((_work_on(work),), look_at=("/workspace/by-hand.txt", "/workspace/copied.txt"))


def another_back_end(work: Handover) -> Happened:
    """The record goes to another session, on a copy of the files and processes, with another back end."""
    taken = work.session.task.checkpoint()
    text = work.session.task.export()
    before, work.name = work.session, f"{work.name}-moved"
    other = taken.restore(work.name)
    other.task.import_(text)
    other.task.set(back_end="remote")
    before.remove()
    work.back_end = "remote"
    return Happened((_work_on(work),))


CONSUMING: Mapping[str, Callable[[Handover], Happened]] = {
    "nothing": nothing,
    "failed": failed,
    "failed twice alike": failed_twice_alike,
    "command left running": command_left_running,
    "conversation lost after the work": conversation_lost,
    "conversation lost in a verification": conversation_lost_in_verification,
    "record edited by a person": edited_by_a_person,
    "files edited from outside": edited_from_outside,
    "moved to another back end": another_back_end,
    "step finished by another agent": finished_by_another,
    "two successors at once": two_at_once,
}
"""What happens at a step that is done afterwards."""
LONE: Mapping[str, Callable[[Handover], Happened]] = {
    "container killed in a checkpoint": container_killed,
    "container removed in the work": container_removed,
    "suspended": suspended,
    "blocked": blocked,
    "question": question,
    "step claimed by another agent": claimed_by_another,
}
"""What happens and leaves the steps as they were."""
EVENTS = {**CONSUMING, **LONE}


_STEPS_TAKEN = {
    **dict.fromkeys(LONE, 0),
    "step finished by another agent": 2,
    "conversation lost in a verification": 2,
    "step claimed by another agent": 2,
}
"""How many steps are done after an event at most, where it is not one."""
_AGAIN = 6
"""How many of the events that take one step come twice."""


def hands(seed: int, players: int) -> list[list[str]]:
    """Return the events of each of several jobs, in order: each event in at least one, some in two."""
    draw = random.Random(seed)
    again = [event for event in EVENTS if taken(event) == 0]
    again += draw.sample([event for event in EVENTS if taken(event) == 1], _AGAIN)
    found: list[list[str]] = [[] for _ in range(players)]
    for event in draw.sample([*EVENTS, *again], len(EVENTS) + len(again)):
        least = min(found, key=lambda hand: (event in hand, sum(map(taken, hand)), len(hand)))
        least.append(event)
    return found


def taken(event: str) -> int:
    """Return how many steps are done after an event, at most."""
    return _STEPS_TAKEN.get(event, 1)


def _work_on(work: Handover) -> str:
    number = work.open()[0]
    return f"work on {number}" + (" in another way" if work.failures(number) > 1 else "")


def _failed(work: Handover, times: int) -> Happened:
    number = work.open()[0]
    for _ in range(times):
        assert not work.session.task.done(number).done, "the work of this step has not been done yet"
    return Happened((_work_on(work),))


def _started(work: Handover, number: str) -> str:
    for entry in work.session.journal(kinds=["command_started"], limit=3):
        if entry.details.get("key") == f"step {number}":
            return f"#{entry.seq}"
    return ""


def _until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while True:
        with suppress(HoldfastError):
            if true():
                return
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def started(home: str, *words: str) -> subprocess.Popen[bytes]:
    """Start the command line in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, "HOLDFAST_HOME": home},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
