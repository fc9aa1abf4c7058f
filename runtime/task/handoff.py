"""The handoff of a task: the text that a successor needs, within a number of tokens.  Pure.

The most important facts come first: the state of the session, the resume point, the next two steps in full,
then decisions and risks. Facts that do not fit are counted, so that the reader knows that there is more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.base.suggestion import command
from holdfast.errors import InvalidArgument
from holdfast.runtime.task.block_report import block_report
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord, TaskStep

BYTES_PER_TOKEN = 3
"""Texts like these take 3.5 to 4.5 bytes a token with the usual tokenizers; 3 keeps below any budget."""
DEFAULT_BUDGET = 1500
MOST_CHANGES = 8
"""About how many lines each list of changes has."""
UNLIMITED = 1 << 20
"""More than any record takes."""
_FULL_STEPS = 2
"""Steps that are shown with their verification and attempts; later ones have their title."""
_SUGGESTIONS = 3
"""Earlier suggestions that are repeated."""
_CHANGES_SHARE = 3
"""What changed since may take a third of the room; it can be asked for."""


@dataclass(frozen=True, slots=True)
class HandoffPart:
    """A part of a handoff: its title, its lines, and the noun for a line where lines are counted.

    `share` limits it to a fraction of the room.
    """

    title: str
    lines: list[str]
    counted: str
    share: int = 1


def tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def handoff(
    session: str,
    record: TaskRecord,
    budget: int = DEFAULT_BUDGET,
    state: str = "",
    standing: str = "",
    ran: Sequence[str] = (),
) -> str:
    """Return the handoff of a session's task.

    Args:
        session: its name.
        record: its record.
        budget: the most tokens, as `tokens` estimates them.
        state: changes in the session since the record was written, in a few lines.
        standing: the session's condition in a few lines: whether it is dead, how to bring it back, what runs.
        ran: commands that were sent with a key and that the record does not have, a line each.

    Raises:
        InvalidArgument: not even the goal and the resume point fit.
    """
    head = "\n".join(_head(session, record, standing))
    parts = [part for part in _parts(session, record, state, ran) if part.lines]
    whole = _filled(head, parts, budget, reserve=0)
    if not whole.left_out and tokens(whole.text) <= budget:
        return whole.text
    reserve = tokens(_left_out(session, {part.counted: len(part.lines) for part in parts}))
    if budget - tokens(head) < reserve:
        reserve = tokens(_more(session))
    if budget - tokens(head) < reserve:
        raise InvalidArgument(
            f"cannot hand over in {budget} tokens: goal and resume point need {tokens(head) + reserve}"
        )
    cut = _filled(head, parts, budget, reserve)
    said = _left_out(session, cut.left_out)
    return cut.text + (said if tokens(cut.text) + tokens(said) <= budget else _more(session))


@dataclass(frozen=True, slots=True)
class _Filled:
    text: str
    left_out: dict[str, int]


def _filled(head: str, parts: list[HandoffPart], budget: int, reserve: int) -> _Filled:
    """Return as much as fits, part after part, and how many lines of each do not."""
    room = left = budget - tokens(head) - reserve
    texts, left_out = [head], dict[str, int]()
    for part in parts:
        most = left if part.share == 1 else min(left, room // part.share)
        kept: list[str] = []
        for line in part.lines:
            cost = tokens(f"{line}\n") + (0 if kept else tokens(f"\n{part.title}\n"))
            if cost > most:
                left_out[part.counted] = left_out.get(part.counted, 0) + 1
                continue
            kept.append(line)
            most, left = most - cost, left - cost
        if kept:
            texts.append("\n".join([f"\n{part.title}", *kept]))
    return _Filled("\n".join(texts) + "\n", left_out)


def _left_out(session: str, counts: dict[str, int]) -> str:
    said = ", ".join(f"{count} {counted}{'' if count == 1 else 's'}" for counted, count in counts.items())
    return f"\nleft out: {said}; `holdfast task show {session}` has all\n"


def _more(session: str) -> str:
    return f"\nmore: `holdfast task show {session}`\n"


def _head(session: str, record: TaskRecord, standing: str) -> Iterator[str]:
    done, total = record.finished
    yield f"Task of session {session}: {record.goal}"
    yield f"{record.state}, {done} of {total} steps, revision {record.revision}, last changed by {record.by}"
    yield from standing.splitlines()
    yield from block_report(session, record)
    if record.resume_at is not None:
        yield f"Resume at: {record.resume_at}{_age(record)}"
    if record.checkpoint is not None:
        yield f"Checkpoint: {record.checkpoint.snapshot}, {record.checkpoint.at:%Y-%m-%d %H:%M} UTC"


def _age(record: TaskRecord) -> str:
    """Return how old the resume point is, if something was recorded since."""
    later = 0 if record.resume_revision is None else record.revision - record.resume_revision
    ago = "1 change" if later == 1 else f"{later} changes"
    return f" (written at revision {record.resume_revision}, {ago} ago)" if later else ""


def _parts(session: str, record: TaskRecord, state: str, ran: Sequence[str]) -> Iterator[HandoffPart]:
    near, later = _near(_waiting(record))
    questions = [
        f"- {each.text}" + (f" (blocks {each.step})" if each.step else "") for each in record.questions
    ]
    if not record.phases:
        yield HandoffPart("To be answered before a plan", questions, "question")
    yield HandoffPart("Ran, and recorded at no step (the same key returns the result)", [*ran], "command")
    full = [line for number, step in near for line in _in_full(session, record, number, step)]
    yield HandoffPart("Next steps", full, "next-step line")
    decisions = [f"- {each.text} ({each.why})" for each in record.decisions]
    yield HandoffPart("Decisions locked", decisions, "decision")
    yield HandoffPart("Risks", [f"- {each.text}" for each in record.risks], "risk")
    if record.phases:
        yield HandoffPart("Open questions", questions, "question")
    yield HandoffPart("Policy", list(_rules(record)), "policy rule")
    yield HandoffPart("Changed since", state.splitlines(), "change line", share=_CHANGES_SHARE)
    titles = [f"- {number} {step.title} [{step.status}]" for number, step in later]
    yield HandoffPart("Later steps", titles, "later step")
    others = [f"- {each.text} ({each.why})" for each in record.alternatives]
    yield HandoffPart("Paths not taken", others, "path not taken")
    reread = [f"- {each.path}" + (f" ({each.why})" if each.why else "") for each in record.files]
    yield HandoffPart("Files to read again", reread, "file reference")
    artifacts = [f"- {each.name}: {each.path}" for each in record.artifacts]
    yield HandoffPart("Artifacts", artifacts, "artifact")
    ended = [(number, step) for number, step in record.steps() if step.status in ("done", "skipped")]
    done = [f"- {number} {step.title}: {step.status}" for number, step in ended]
    yield HandoffPart("Done", done, "ended step")
    yield HandoffPart("Notes", [f"- {each.text}" for each in reversed(record.notes)], "note")


def _rules(record: TaskRecord) -> Iterator[str]:
    for key, value in record.policy.model_dump(exclude_none=True).items():
        if key == "profiles":
            yield from (f"- profile {name}: {command}" for name, command in value.items())
        else:
            yield f"- {key.replace('_', ' ')}: {value}"


def _waiting(record: TaskRecord) -> list[tuple[str, TaskStep]]:
    order = {"active": 0, "blocked": 1, "open": 2}
    waiting = [(number, step) for number, step in record.steps() if step.status in order]
    return sorted(waiting, key=lambda each: order[each[1].status])


def _near(
    waiting: list[tuple[str, TaskStep]],
) -> tuple[list[tuple[str, TaskStep]], list[tuple[str, TaskStep]]]:
    """Part the steps that are shown in full from the later ones: one of the former is free to be taken."""
    near = waiting[:_FULL_STEPS]
    if all(step.claim is not None for _, step in near):
        near += [each for each in waiting[_FULL_STEPS:] if each[1].claim is None][:1]
    return near, [each for each in waiting if each not in near]


def _in_full(session: str, record: TaskRecord, number: str, step: TaskStep) -> Iterator[str]:
    verify = step.verify or record.policy.verify
    line = f"- {number} {step.title} [{step.status}]" + (f", verified by `{verify}`" if verify else "")
    line += f", back end {step.back_end}" if step.back_end else ""
    if step.claim is not None:
        line += f", claimed by {step.claim.by} since {step.claim.at:%Y-%m-%d %H:%M} UTC"
    yield line
    asked = [(place, each) for place, each in enumerate(record.questions, start=1) if each.step == number]
    for place, each in asked:
        answer = command("task", "answer", session, str(place), "TEXT")
        yield f"  waits for the answer to question {place}: {each.text}; `{answer}`"
    if step.attempts:
        yield f"  {step.tries} attempts, last: {_attempt(step.attempts[-1])}"
    if (said := _convergence(step)) is not None:
        yield f"  {said}"
    if tried := _suggestions_tried(step):
        yield f"  suggested before, and it failed again: {'; '.join(tried)}"
    if step.claim is None and not asked:
        yield f"  ends with `{command('task', 'done', session, number)}`"


def _attempt(made: StepAttempt) -> str:
    said = f"{made.entry} {made.outcome}"
    if made.failure_type is None:
        return said
    return f"{said}, {made.failure_type}: {made.failure_detail or ''}; {made.suggested_focus or ''}"


def _convergence(step: TaskStep) -> str | None:
    """Return whether the last attempts failed alike, which tells a successor to try something else."""
    failures = [each for each in step.attempts if each.outcome == "failed"]
    if len(failures) < 2 or step.attempts[-1].outcome != "failed":
        return None
    last = (failures[-1].failure_type, failures[-1].failure_detail)
    alike = 0
    for each in reversed(failures):
        if (each.failure_type, each.failure_detail) != last:
            break
        alike += 1
    if alike > 1:
        return f"the last {alike} failed in the same way: what was tried does not help"
    kinds = {(each.failure_type, each.failure_detail) for each in failures}
    if len(kinds) == len(failures):
        return f"each of the {len(failures)} failed in another way: something changes"
    return None


def _suggestions_tried(step: TaskStep) -> list[str]:
    """Return what the failures before the last one suggested, each once, the newest first."""
    failures = [each for each in step.attempts if each.outcome == "failed"]
    if not failures or step.attempts[-1] is not failures[-1]:
        return []
    said = [each.suggested_focus for each in reversed(failures[:-1]) if each.suggested_focus]
    return list(dict.fromkeys(said))[:_SUGGESTIONS]
