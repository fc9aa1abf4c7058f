"""What a successor must read to continue, in at most as many tokens as the caller gives.  Pure.

What matters most comes first; what does not fit is counted, so that the reader knows that there is more.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import InvalidArgument
from holdfast.runtime.task.block_report import block_report
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord

BYTES_PER_TOKEN = 3
"""Texts like these take 3.5 to 4.5 bytes a token with the usual tokenizers; 3 keeps below any budget."""
DEFAULT_BUDGET = 1500
MOST_CHANGES = 8
"""About how many lines each list of changes has."""
UNLIMITED = 1 << 20
"""More than any record takes."""


def tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def handoff(session: str, record: TaskRecord, budget: int = DEFAULT_BUDGET, state: str = "") -> str:
    """Return the handoff of a session's task.

    Args:
        session: its name.
        record: its record.
        budget: the most tokens, as `tokens` estimates them.
        state: what changed in the session since the record was written, in a few lines.

    Raises:
        InvalidArgument: not even the goal and the resume point fit.
    """
    head = "\n".join(_head(session, record))
    left = budget - tokens(head)
    # Room for the line that says what was left out.
    reserve = 40
    if left < reserve:
        raise InvalidArgument(
            f"cannot hand over in {budget} tokens: goal and resume point need {tokens(head) + reserve}"
        )
    parts, omitted = [head], dict[str, int]()
    for title, lines in _sections(record, state):
        kept: list[str] = []
        for line in lines:
            cost = tokens(f"{line}\n") + (0 if kept else tokens(f"\n{title}\n"))
            if omitted.get(title) or left - cost < reserve:
                omitted[title] = omitted.get(title, 0) + 1
                continue
            kept.append(line)
            left -= cost
        if kept:
            parts.append("\n".join([f"\n{title}", *kept]))
    if omitted:
        counts = ", ".join(f"{title.lower()} {count}" for title, count in omitted.items())
        said = f"\nleft out (lines): {counts}; see `holdfast task show {session}`"
        parts.append(said if tokens(said) <= left else "\nmore: `holdfast task show`")
    return "\n".join(parts) + "\n"


def _head(session: str, record: TaskRecord) -> Iterator[str]:
    done, total = record.finished
    yield f"Task of session {session}: {record.goal}"
    yield f"{record.state}, {done} of {total} steps, revision {record.revision}, last changed by {record.by}"
    yield from block_report(session, record)
    if record.resume_at is not None:
        yield f"Resume at: {record.resume_at}"
    if record.checkpoint is not None:
        yield f"Checkpoint: {record.checkpoint.snapshot}, {record.checkpoint.at:%Y-%m-%d %H:%M} UTC"


def _sections(record: TaskRecord, state: str) -> Iterator[tuple[str, list[str]]]:
    if state:
        yield "Changed since", state.splitlines()
    yield "Next steps", list(_next(record))
    policy = record.policy.model_dump(exclude_none=True)
    yield "Policy", [f"- {key.replace('_', ' ')}: {value}" for key, value in policy.items()]
    yield "Decisions locked", [f"- {each.text} ({each.why})" for each in record.decisions]
    yield "Open questions", [f"- {each.text}" for each in record.questions]
    yield "Risks", [f"- {each.text}" for each in record.risks]
    reread = [f"- {each.path}" + (f" ({each.why})" if each.why else "") for each in record.files]
    yield "Files to read again", reread
    yield "Artifacts", [f"- {each.name}: {each.path}" for each in record.artifacts]
    ended = (f"- {number} {step.title}: {step.status}" for number, step in record.steps())
    done = ("done", "skipped")
    yield "Done", [line for line, (_, step) in zip(ended, record.steps(), strict=True) if step.status in done]
    yield "Notes", [f"- {each.text}" for each in reversed(record.notes)]


def _next(record: TaskRecord) -> Iterator[str]:
    order = {"active": 0, "blocked": 1, "open": 2}
    waiting = [(number, step) for number, step in record.steps() if step.status in order]
    for number, step in sorted(waiting, key=lambda each: order[each[1].status]):
        verify = step.verify or record.policy.verify
        yield f"- {number} {step.title} [{step.status}]" + (f", verified by `{verify}`" if verify else "")
        if step.attempts:
            yield f"  {step.tries} attempts, last: {_attempt(step.attempts[-1])}"


def _attempt(made: StepAttempt) -> str:
    said = f"{made.entry} {made.outcome}"
    if made.failure_type is None:
        return said
    return f"{said}, {made.failure_type}: {made.failure_detail or ''}; {made.suggested_focus or ''}"
