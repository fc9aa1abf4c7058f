"""Commands that were sent with a key and are missing in the record of the task.  Pure.

The conversation that sent such a command can end before it verifies the step. A successor who knows the key
does not run the work a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.runtime.task.task_record import TaskRecord

if TYPE_CHECKING:
    from holdfast.runtime.store.entry import Entry

KINDS = ("command_started", "command_ended", "task_changed")
"""The entries that are read."""
_MOST = 3
"""Commands that are named, the newest ones."""
_COMMAND, _KEY = 80, 80
"""Characters of a command and of a key that are shown."""


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
        entries: of the kinds `KINDS`, in order.
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
    return list(ended.values())[-_MOST:]


def _text(facts: Mapping[str, object], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""
