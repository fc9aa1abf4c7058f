"""The handoff of a task: the text that a successor needs, within a number of tokens.  Pure.

The most important facts come first: the state of the session, the blocker with the command that continues
once it is removed, the resume point, the next two steps in full, then decisions and risks. Facts that do not
fit are counted, so that the reader knows that there is more.

The conversation that sent a command with a key can end before it verifies the step. Such commands are named,
so that a successor does not run the work a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.base.suggestion import command
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.task.task_record import StepAttempt, TaskRecord, TaskStep

if TYPE_CHECKING:
    from holdfast.runtime.store.entry import Entry

KEYED_KINDS = ("command_started", "command_ended", "task_changed")
"""The entries that show work with a key."""
_MOST_KEYED = 3
"""Commands that are named, the newest ones."""
_COMMAND, _KEY = 80, 80
"""Characters of a command and of a key that are shown."""
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
"""The changes since can take a third of the room; they can be asked for."""


def resume_command(session: str) -> str:
    """Return the command that unblocks a task, wakes its session, and shows the record and the drift."""
    return f"{command('task', 'unblock', session)} && {command('task', 'resume', session)}"


def block_report(session: str, record: TaskRecord) -> Iterator[str]:
    """Yield the lines of the report: the blocker, evidence, attempts, needs, and how to continue.

    Args:
        session: its name.
        record: its record; nothing is reported if nothing blocks it.
    """
    block = record.blocked
    if block is None:
        return
    yield f"BLOCKED: {block.why}. Needs: {block.needs}"
    yield f"since {block.at:%Y-%m-%d %H:%M} UTC, recorded by {block.by}"
    step = next((each for number, each in record.steps() if number == block.step), None)
    if step is not None:
        yield f"step: {block.step} {step.title}"
    if block.entry is not None:
        after = int(block.entry.removeprefix("#")) - 1
        yield f"evidence: {block.entry}, `{command('journal', session, '--since', str(after))}`"
    if block.tried is not None:
        yield f"tried: {block.tried}"
    if step is not None and step.attempts:
        yield f"attempts: {step.tries}, last {_attempt(step.attempts[-1])}"
    yield f"when it is unblocked: `{resume_command(session)}`"


def _attempt(made: StepAttempt) -> str:
    kind = f", {made.failure_type}: {made.failure_detail or ''}" if made.failure_type else ""
    return f"{made.entry} {made.outcome}{kind}"


@dataclass(frozen=True, slots=True)
class KeyedCommand:
    """An ended command: its entry in the journal, its key, sender, text and exit code."""

    entry: str
    key: str
    actor: str
    command: str
    exit_code: int | None = None

    @property
    def text(self) -> str:
        """The command in one line."""
        how = "ended" if self.exit_code is None else f"exit {self.exit_code}"
        sent = f"sent with key {self.key} by {self.actor}" if self.actor else f"sent with key {self.key}"
        return f"- {self.entry} `{self.command}`: {how}, {sent}"


def keyed_work(entries: Iterable[Entry], record: TaskRecord) -> list[KeyedCommand]:
    """Return the commands with a key that have ended since the last step was done, the oldest first.

    Those of an actor who has claimed a step stay, though others finish theirs. Attempts of a step are in the
    record and left out.

    Args:
        entries: of the kinds `KEYED_KINDS`, in order.
        record: the present one.
    """
    claimed = {step.claim.by for _, step in record.steps() if step.claim is not None}
    recorded = {each.entry for _, step in record.steps() for each in step.attempts}
    begun: dict[str, KeyedCommand] = {}
    ended: dict[str, KeyedCommand] = {}
    for entry in entries:
        facts, actor = entry.details, plain(entry.actor or "", 80)
        if entry.kind == "task_changed" and entry.host and _text(facts, "step_status") == "done":
            ended = {name: each for name, each in ended.items() if each.actor in claimed - {actor}}
        elif entry.kind == "command_started" and not entry.host and (key := _text(facts, "key")):
            command = plain(_text(facts, "command"), _COMMAND)
            made = KeyedCommand(f"#{entry.seq}", plain(key, _KEY), actor, command)
            begun[str(facts.get("id"))] = made
        elif entry.kind == "command_ended" and not entry.host:
            made_of = begun.pop(str(facts.get("id")), None)
            if made_of is not None and made_of.entry not in recorded:
                code = facts.get("exit_code")
                ended[made_of.entry] = replace(made_of, exit_code=code if isinstance(code, int) else None)
    return list(ended.values())[-_MOST_KEYED:]


def _text(facts: Mapping[str, object], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""


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
    """Return as much as fits, part after part, and the number of omitted lines of each."""
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
    """Return the age of the resume point, if there were later changes."""
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
    """Separate the steps shown in full from the later ones: one of the former can be claimed."""
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
        yield f"  {step.tries} attempts, last: {_attempt_advice(step.attempts[-1])}"
    if (said := _convergence(step)) is not None:
        yield f"  {said}"
    if tried := _suggestions_tried(step):
        yield f"  suggested before, but it failed again: {'; '.join(tried)}"
    if step.claim is None and not asked:
        yield f"  ends with `{command('task', 'done', session, number)}`"


def _attempt_advice(made: StepAttempt) -> str:
    said = f"{made.entry} {made.outcome}"
    if made.failure_type is None:
        return said
    return f"{said}, {made.failure_type}: {made.failure_detail or ''}; {made.suggested_focus or ''}"


def _convergence(step: TaskStep) -> str | None:
    """Return whether the last attempts failed alike, which suggests trying something else."""
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
        return f"the last {alike} failed in the same way: the fixes tried do not help"
    kinds = {(each.failure_type, each.failure_detail) for each in failures}
    if len(kinds) == len(failures):
        return f"each of the {len(failures)} failed in a different way: something changes"
    return None


def _suggestions_tried(step: TaskStep) -> list[str]:
    """Return the suggestions of the failures before the last one, each once, the newest first."""
    failures = [each for each in step.attempts if each.outcome == "failed"]
    if not failures or step.attempts[-1] is not failures[-1]:
        return []
    said = [each.suggested_focus for each in reversed(failures[:-1]) if each.suggested_focus]
    return list(dict.fromkeys(said))[:_SUGGESTIONS]
