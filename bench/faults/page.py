"""The table of rounds, and the page it is on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.faults.storm import Outcome
from bench.faults.victims import VICTIMS

_NAMES = {
    "criu": "CRIU",
    "worker": "the process of the checkpointer that drives it",
    "checkpointer": "the whole checkpointer",
    "controller": "the controller that asked",
}


def summary(found: Sequence[Outcome]) -> str:
    """Return one line: how many sessions continued as if nothing had happened."""
    struck = [each for each in found if each.struck]
    unhurt = sum(each.unhurt for each in struck)
    told = sum(not each.unhurt and not each.silent for each in struck)
    share = 100 * unhurt / len(struck) if struck else 100.0
    return (
        f"{len(found)} rounds, {len(struck)} of which hit: {unhurt} sessions unhurt ({share:.1f} %), "
        f"{told} hurt and said to be, {sum(each.silent for each in struck)} hurt in silence, "
        f"{sum(bool(each.left) for each in found)} with something left behind"
    )


def table(found: Sequence[Outcome]) -> str:
    """Return the table, with a row for each kind of victim."""
    lines = [
        "| killed | rounds | hit | unhurt | hurt and told | hurt in silence | left over | told in (max) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for victim in VICTIMS:
        mine = [each for each in found if each.victim == victim]
        struck = [each for each in mine if each.struck]
        cells = [
            _NAMES[victim],
            len(mine),
            len(struck),
            sum(each.unhurt for each in struck),
            sum(not each.unhurt and not each.silent for each in struck),
            sum(each.silent for each in struck),
            sum(bool(each.left) for each in mine),
            f"{max((each.seconds for each in struck), default=0.0):.1f} s",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def hurt(found: Iterable[Outcome]) -> str:
    """Return the losses of the rounds that had any."""
    rows = [each for each in found if each.lost or each.left]
    if not rows:
        return "Nothing was lost in any round."
    lines = ["| asked for | killed | lost | told |", "|---|---|---|---|"]
    for each in rows:
        cells = (each.operation, each.victim, each.lost or f"left: {', '.join(each.left)}", each.told)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def page(found: Sequence[Outcome], on: str) -> str:
    """Return the whole page."""
    return f"""# What survives a kill

A snapshot, a fork or a suspension is asked for, and in a random moment of it one process is ended with
SIGKILL. Then the session is asked whether all is as it was: a shell variable, a job, a program with four
threads, 20 MB of memory under a digest and a connection to itself, and a variable of the kernel. What is left
over is looked for: operations, folders, containers, images, tasks that stand still.

{summary(found)}.

{table(found)}

{on}
"Told in" is the time from the end of what was asked for to the answer of the session that all is well, or to
the error or event that says what is not. Made by `python -m bench.faults`.

## What was lost

{hurt(found)}

## What happens then

- **The controller is killed.** The checkpointer notices at once and lets the session go on. The next command
  undoes what was begun, ends the pause of the session, and waits for its answer. A container that the engine
  was about to make goes on being made, and cannot be removed before: it is waited for
  (`runtime/lifecycle/orphan_containers.py`).
- **CRIU or who drives it is killed.** The kernel lets go of all tasks. CRIU's code that is still in one of
  them notices that nobody talks to it and restores the task. Where CRIU was just exchanging a task's
  registers, that task dies of it; its end is an event as that of any other process. TCP connections are in
  repair mode (TCP_REPAIR), in which reading and writing fail with EPERM, only for the moment in which CRIU
  reads them. One that is cut off in its own is taken out of it a moment later, by who drove CRIU or, if that
  one died, too, by the next checkpointer (`snapshots/checkpointer/repair.py`); only a program that waited
  in a read of it is told EPERM.
- **Memory is being loaded on demand.** A session that was restored a moment ago cannot go on without the
  process that has its memory; with zeros in its place it must not. It ends with that process, as a whole, and
  is found dead.
- **The supervisor does not answer.** After five seconds the session is marked: each command is refused with
  the reason and with the snapshot to go back to. Should it answer later, the mark goes.
"""
