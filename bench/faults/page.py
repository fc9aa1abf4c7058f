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
    """Return one line: how many sessions were unhurt."""
    struck = [each for each in found if each.struck]
    unhurt = sum(each.unhurt for each in struck)
    told = sum(not each.unhurt and not each.silent for each in struck)
    share = 100 * unhurt / len(struck) if struck else 100.0
    return (
        f"{len(found)} rounds, {len(struck)} of which hit: {unhurt} sessions unhurt ({share:.1f} %), "
        f"{told} hurt and reported, {sum(each.silent for each in struck)} hurt silently, "
        f"{sum(bool(each.left) for each in found)} with something left behind"
    )


def table(found: Sequence[Outcome]) -> str:
    """Return the rows by killed process."""
    lines = [
        "| killed | rounds | hit | unhurt | hurt and reported | hurt silently | left over "
        "| reported in (max) |",
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
    """Return the losses, by round."""
    rows = [each for each in found if each.lost or each.left]
    if not rows:
        return "Nothing was lost in any round."
    lines = ["| request | killed | lost | reported |", "|---|---|---|---|"]
    for each in rows:
        cells = (each.operation, each.victim, each.lost or f"left: {', '.join(each.left)}", each.told)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def page(found: Sequence[Outcome], on: str) -> str:
    """Return the whole page."""
    return f"""# What survives a kill

One process is killed with SIGKILL at a random instant of a snapshot, fork or suspension. Then the session
is checked: a shell variable, a job, a program with four threads, 20 MB of memory under a digest and a
connection to itself, and a variable of the kernel. Leftovers are searched for: operations, folders,
containers, images, stopped tasks.

{summary(found)}.

{table(found)}

{on}
"Reported in" is the time from the end of the request to the session's answer that all is well, or to
the error or event that says what is not. Made by `python -m bench.faults`.

## What was lost

{hurt(found)}

## What happens then

- **The controller is killed.** The checkpointer notices at once and releases the session. The next
  command undoes the unfinished operation, ends the pause of the session, and waits for its answer. A
  container that the engine was about to make still comes into being, and cannot be removed before: the
  next command waits for it (`runtime/lifecycle/orphan_containers.py`).
- **CRIU or its driver is killed in a capture.** The kernel releases all tasks. CRIU's code inside a task
  notices that its peer is gone and restores the task. If CRIU was just exchanging a task's registers,
  that task dies; its end is an event like that of any other process. TCP connections are in repair mode
  (TCP_REPAIR), in which reading and writing fail with EPERM, only while CRIU reads them. A connection
  left in it is taken out shortly afterwards, by CRIU's driver or, if that one also died, by the next
  checkpointer (`snapshots/checkpointer/dump/repair.py`); only a program that waited in a read of it gets
  EPERM.
- **CRIU or its driver is killed in a restore.** A restored tree that has not been judged dies with CRIU,
  and the container with it: the restore fails, the snapshot is unchanged.
- **Memory is being loaded on demand.** A session that was just restored cannot continue without the
  process that has its memory, and must not continue with zeros in its place. It ends with that process,
  as a whole, and is found dead.
- **The packer is killed.** Its snapshot has its plain images, or its recipe. The next command starts another
  (`runtime/storage/packing_request.py`). `tests/integration/long/test_killed_packers.py` kills it at 24
  points of packing real snapshots: each was verified, restored, packed and restored from packs alone.
- **The supervisor does not answer.** After five seconds the session is marked: each command is refused
  with the reason and with the snapshot to go back to. If it answers later, the mark is removed.
"""
