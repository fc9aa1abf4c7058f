"""A value from a server equals the original: writing and reading it again changes nothing."""

from __future__ import annotations

import json
import random
import sys
import typing
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from holdfast.base.value_classes import as_table
from holdfast.runtime.api import results_as_json
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.api.redo_snapshot import Redo
from holdfast.runtime.client import client_values, insight_values
from holdfast.runtime.client.aio.async_commands import shell_told
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_tree import ChangeKind, WatchedChange
from holdfast.runtime.files.session_file import SessionFile
from holdfast.runtime.guest.pulse.state import WAITING, State
from holdfast.runtime.guest_rpc.kernel_calls import DISPLAYS
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
from holdfast.runtime.guest_rpc.program_result import ProgramResult
from holdfast.runtime.guest_rpc.results import ENDS, CellError, CellEvent, CellResult, ExecResult, Screen
from holdfast.runtime.guest_rpc.shell_report import Lease, ShellInfo
from holdfast.runtime.history.recording.cast import CastEvent
from holdfast.runtime.history.repositories.repository_state import RepositoryChange
from holdfast.runtime.restore.compat.command_history import Recorded
from holdfast.runtime.serve.calls import followed_calls
from holdfast.runtime.serve.calls.followed_calls import _program_answer
from holdfast.runtime.serve.models.answer_models import (
    CastEventAnswer,
    JobAnswer,
    KernelAnswer,
    KernelSpecAnswer,
    LadderAnswer,
    LeaseAnswer,
    ProgramResultAnswer,
    RecordedAnswer,
    RedoAnswer,
    RepositoryChangeAnswer,
    ScreenAnswer,
    ShellAnswer,
    StatedActionAnswer,
)
from holdfast.runtime.serve.models.base_models import AnswerBody
from holdfast.runtime.task.stated_actions import StatedAction
from holdfast.snapshots.fitness import Ladder

ROUNDS = 200
NAMED = {"State": State}
"""Classes that modules name only for type checkers."""


def on_the_wire(value: Any) -> Any:
    return json.loads(json.dumps(value))


class Maker(random.Random):
    """Random values, of which each field differs from its default now and then."""

    def text(self) -> str:
        return "".join(self.choices('aé\n\u202e日 \\"', k=self.randrange(6)))

    def number(self) -> int:
        return self.choice((0, 1, 7, 2**40))

    def maybe(self, value: Any) -> Any:
        return self.choice((None, value))

    def flag(self) -> bool:
        return self.random() < 0.5

    def table(self) -> dict[str, Any]:
        return {
            self.text(): self.choice((1, "x", None, [1.5], {"a": True})) for _ in range(self.randrange(3))
        }

    def file(self) -> SessionFile:
        kind = self.choice(("file", "link", "folder"))
        facts = {
            "name": "n",
            "kind": kind,
            "size": self.number(),
            "mode": self.randrange(0o7777),
            "mtime_ns": self.randrange(-(2**62), 2**62),
            "uid": self.number(),
            "gid": 5,
            "version": self.choice(("", "v1")),
            "target": "to" if kind == "link" else "",
        }
        return SessionFile.of(facts)

    def change(self) -> WatchedChange:
        return WatchedChange(
            self.choice(get_args(ChangeKind)),
            f"/{self.text()}",
            self.maybe(self.file()),
            moved=self.flag(),
            content=self.flag(),
            attributes=self.flag(),
        )

    def error(self) -> CellError:
        return CellError(self.text(), self.text(), (self.text(), self.text()))

    def event(self) -> CellEvent:
        kind = self.choice(("stream", "error", "input_request", *DISPLAYS))
        seq = self.number()
        if kind == "stream":
            return CellEvent(kind, seq, text=self.text(), name=self.choice(("stdout", "stderr")))
        if kind == "input_request":
            return CellEvent(kind, seq, text=self.text(), password=self.flag())
        if kind == "error":
            return CellEvent(kind, seq, error=self.error())
        return CellEvent(
            kind,
            seq,
            data=self.table(),
            metadata=self.table(),
            transient=self.table(),
            execution_count=self.maybe(self.number()),
            left_out=self.number(),
        )

    def cell(self) -> CellResult:
        return CellResult(
            self.choice(ENDS),
            self.maybe(self.number()),
            self.text(),
            self.text(),
            outputs=tuple(self.event() for _ in range(2)),
            error=self.maybe(self.error()),
            duration=self.random(),
            cell_id="c",
            seq=self.number(),
            recorded=self.flag(),
            dropped=self.number(),
            lost=self.number(),
        )

    def result(self) -> ExecResult:
        return ExecResult(
            exit_code=self.maybe(self.number()),
            output=self.text().encode(),
            start_offset=self.number(),
            end_offset=self.number(),
            timed_out=self.flag(),
            shell_exited=self.flag(),
            incomplete=self.flag(),
            signal=self.maybe(self.number()),
            duration=self.random(),
            dropped=self.number(),
            lost=self.number(),
            command_id="c1",
            recorded=self.flag(),
            message=self.text(),
            cwd=self.maybe("/w"),
            rows=24,
            cols=80,
        )

    def any_of(self, form: Any) -> Any:
        """Return a value of a type, as the annotations of its fields say."""
        origin, parts = get_origin(form), get_args(form)
        if origin is Annotated:
            return self.any_of(parts[0])
        if origin in (Union, UnionType, Literal):
            return self.choice(parts) if origin is Literal else self.any_of(self.choice(parts))
        if origin in (tuple, list):
            both = parts[:1] * 2 if parts[-1] is Ellipsis or origin is list else parts
            return origin(map(self.any_of, both))
        if origin is not None:  # a table
            return {f"k{number}": self.any_of(parts[1]) for number in range(self.randrange(3))}
        plain: dict[Any, Callable[[], Any]] = {
            str: lambda: self.choice(("", "a", "b c")),
            bytes: lambda: self.choice((b"", b"out", b"\xff")),
            int: lambda: self.choice((1, 7, 500)),
            float: lambda: self.randrange(10**6) / 8,
            bool: self.flag,
            NoneType: lambda: None,
            Any: lambda: self.choice((1, "x")),
            datetime: lambda: datetime.fromtimestamp(self.randrange(10**9), UTC),
        }
        plain[State] = lambda: State("waiting", self.choice(WAITING), 7, "su", 1.5, self.choice(("", "> ")))
        return plain[form]() if form in plain else self.value(form)

    def value(self, kind: Any) -> Any:
        """Return a value of a class, with a value of each field."""
        if issubclass(kind, BaseModel):
            forms = {name: field.annotation for name, field in kind.model_fields.items()}
            return kind.model_construct(**{name: self.any_of(form) for name, form in forms.items()})
        forms = get_type_hints(kind, vars(sys.modules[kind.__module__]) | vars(typing) | NAMED)
        return kind(**{each.name: self.any_of(forms[each.name]) for each in fields(kind) if each.init})

    def copied(self) -> Copied:
        return Copied(
            self.number(), self.number(), self.number(), self.number(), {"/a": self.text()}, [self.text()]
        )


def change(value: WatchedChange) -> WatchedChange:
    return client_values.watched_change(on_the_wire(followed_calls._change(value)))


def event(value: CellEvent) -> CellEvent:
    return client_values.cell_event(on_the_wire(followed_calls._cell_event(value)[0]))


def cell(value: CellResult) -> CellResult:
    streams = {"stdout": value.stdout.encode(), "stderr": value.stderr.encode()}
    told = on_the_wire(results_as_json.cell_result(value))
    return client_values.cell_result(told, streams, tuple(map(event, value.outputs)), value.dropped)


def result(value: ExecResult) -> ExecResult:
    told = on_the_wire(results_as_json.exec_result(value) | {"rows": value.rows, "cols": value.cols})
    return client_values.exec_result(told, value.output, value.dropped)


def copied(value: Copied) -> Copied:
    return client_values.copied(on_the_wire(value.as_dict()))


def answered(answer: type[AnswerBody], read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that sends a value in an answer over HTTP, and reads it again."""

    def travel(value: Any) -> Any:
        told = value.as_dict() if hasattr(value, "as_dict") else None
        told = told or (value.model_dump() if isinstance(value, BaseModel) else as_table(value))
        return read(on_the_wire(answer.model_validate(told).model_dump(mode="json")))

    return travel


def program(value: ProgramResult) -> ProgramResult:
    told = on_the_wire(
        ProgramResultAnswer.model_validate(_program_answer(value, reported=False)).model_dump()
    )
    streams = {name: client_values.data_in(told, name) for name in ("stdout", "stderr")}
    return client_values.program_result(told, streams, told["dropped"])


def of(kind: Any) -> Callable[[Maker], Any]:
    return lambda maker: maker.value(kind)


TRAVEL: dict[str, tuple[Callable[[Maker], Any], Callable[[Any], Any]]] = {
    "a change of files": (Maker.change, change),
    "an event of a cell": (Maker.event, event),
    "a result of a cell": (Maker.cell, cell),
    "a result of a command": (Maker.result, result),
    "a copy": (Maker.copied, copied),
    "a result of a program": (of(ProgramResult), program),
    "a job": (of(JobInfo), answered(JobAnswer, client_values.job_info)),
    "a screen": (of(Screen), answered(ScreenAnswer, client_values.screen)),
    "a shell": (of(ShellInfo), answered(ShellAnswer, shell_told)),
    "a kernel": (of(KernelInfo), answered(KernelAnswer, KernelInfo.of)),
    "a spec of kernels": (of(KernelSpecInfo), answered(KernelSpecAnswer, KernelSpecInfo.of)),
    "a lease": (of(Lease), answered(LeaseAnswer, Lease.of)),
    "a way to continue": (of(Ladder), answered(LadderAnswer, insight_values.ladder)),
    "what was run": (of(Recorded), answered(RecordedAnswer, insight_values.recorded)),
    "an action": (of(StatedAction), answered(StatedActionAnswer, insight_values.action)),
    "what was repeated": (of(Redo), answered(RedoAnswer, insight_values.redo)),
    "a repository": (
        of(RepositoryChange),
        answered(RepositoryChangeAnswer, lambda told: insight_values.read(RepositoryChange, told)),
    ),
    "an event of a recording": (
        of(CastEvent),
        answered(CastEventAnswer, lambda told: insight_values.cast_event(json.dumps(told).encode())),
    ),
}


@pytest.mark.parametrize("kind", TRAVEL)
def test_written_values_are_read_again(kind: str) -> None:
    make, travel = TRAVEL[kind]
    for seed in range(ROUNDS):
        value = make(Maker(seed))
        assert travel(value) == value, seed


@pytest.mark.parametrize("kind", TRAVEL)
def test_each_field_is_tried(kind: str) -> None:
    """Otherwise a field that is left out on the way would not be noticed."""
    make, _ = TRAVEL[kind]
    values = [make(Maker(seed)) for seed in range(ROUNDS)]
    first = type(values[0])
    names = first.model_fields if issubclass(first, BaseModel) else first.__dataclass_fields__
    constant = {name for name in names if len({repr(getattr(value, name)) for value in values}) == 1}
    assert constant <= {"waiting", "news", "rows", "cols", "cell_id", "command_id"}, constant
