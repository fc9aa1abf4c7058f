"""What a server tells of a value is the value: what is written and read again is equal to what was there."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, get_args

import pytest

from holdfast.runtime.api import plain_tables
from holdfast.runtime.client import client_values
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.file_tree import ChangeKind, WatchedChange
from holdfast.runtime.files.session_file import SessionFile
from holdfast.runtime.guest_rpc.kernel_calls import DISPLAYS
from holdfast.runtime.guest_rpc.results import ENDS, CellError, CellEvent, CellResult, ExecResult
from holdfast.runtime.serve.calls import followed_calls

ROUNDS = 200


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
    told = on_the_wire(plain_tables.cell_result(value))
    return client_values.cell_result(told, streams, tuple(map(event, value.outputs)), value.dropped)


def result(value: ExecResult) -> ExecResult:
    told = on_the_wire(plain_tables.exec_result(value) | {"rows": value.rows, "cols": value.cols})
    return client_values.exec_result(told, value.output, value.dropped)


def copied(value: Copied) -> Copied:
    return client_values.copied(on_the_wire(value.as_dict()))


TRAVEL: dict[str, tuple[Callable[[Maker], Any], Callable[[Any], Any]]] = {
    "a change of files": (Maker.change, change),
    "an event of a cell": (Maker.event, event),
    "a result of a cell": (Maker.cell, cell),
    "a result of a command": (Maker.result, result),
    "a copy": (Maker.copied, copied),
}


@pytest.mark.parametrize("kind", TRAVEL)
def test_what_is_written_is_read_again(kind: str) -> None:
    make, travel = TRAVEL[kind]
    for seed in range(ROUNDS):
        value = make(Maker(seed))
        assert travel(value) == value, seed


@pytest.mark.parametrize("kind", TRAVEL)
def test_each_field_is_tried(kind: str) -> None:
    """Otherwise a field that is left out on the way would not be noticed."""
    make, _ = TRAVEL[kind]
    values = [make(Maker(seed)) for seed in range(ROUNDS)]
    constant = {
        name
        for name in type(values[0]).__dataclass_fields__
        if len({repr(getattr(value, name)) for value in values}) == 1
    }
    assert constant <= {"waiting", "news", "rows", "cols", "cell_id", "command_id"}
