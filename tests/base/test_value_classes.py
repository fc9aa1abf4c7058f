"""Classes of `value_classes` equal those of `dataclasses`, and are made without loading that module."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from typing import Any

import pytest

from holdfast.base import value_classes


class _Point:
    """A point."""

    x: int
    y: int = 2
    tags: list[str] = value_classes.field(default_factory=list)
    note: str = value_classes.field(default="", repr=False, compare=False)

    @property
    def sum(self) -> int:
        return self.x + self.y


class _Plain:
    """A point."""

    x: int
    y: int = 2
    tags: list[str] = dataclasses.field(default_factory=list)
    note: str = dataclasses.field(default="", repr=False, compare=False)

    @property
    def sum(self) -> int:
        return self.x + self.y


Open: Any = value_classes.dataclass(frozen=True)(_Point)
Point: Any = value_classes.dataclass(frozen=True, slots=True)(_Point)
Same: Any = dataclasses.dataclass(frozen=True, slots=True)(_Plain)
Cell: Any = value_classes.dataclass(slots=True)(_Point)
Loose: Any = value_classes.dataclass()(_Point)
Seat: Any = value_classes.dataclass(slots=True, eq=False)(_Point)
Point.__name__ = Point.__qualname__ = "Point"  # for pickle


def test_values_behave_as_dataclasses() -> None:
    """Their fields, texts, hashes, signature and slots are the same."""
    assert {field.name: field.type for field in dataclasses.fields(Point)} == {
        field.name: field.type for field in dataclasses.fields(Same)
    }
    ours, theirs = Point(1, tags=["a"]), Same(1, tags=["a"])
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert dataclasses.astuple(ours) == dataclasses.astuple(theirs)
    assert repr(ours).partition("(")[2] == repr(theirs).partition("(")[2]
    assert inspect.signature(Point) == inspect.signature(Same)
    assert Point.__match_args__ == Same.__match_args__
    assert Point.__slots__ == Same.__slots__
    assert Point.__doc__ == Same.__doc__
    assert hash(Point(1, 2, ())) == hash(Same(1, 2, ()))


@pytest.mark.parametrize("kind", [Point, Open, Cell, Loose])
def test_values_are_equal_copied_and_replaced(kind: Any) -> None:
    """Only with values of the same class, and by the compared fields."""
    value = kind(1, tags=["a"])
    assert value == kind(1, 2, ["a"])
    assert value != kind(1, 3, ["a"])
    assert value != Same(1, 2, ["a"])
    assert value == kind(1, 2, ["a"], note="not compared")
    assert dataclasses.replace(value, y=5) == value_classes.replace(value, y=5) == kind(1, 5, ["a"])
    assert dataclasses.asdict(value) == value_classes.asdict(value)
    assert "note" not in repr(value)
    assert copy.deepcopy(value) == value
    assert copy.deepcopy(value).tags is not value.tags
    assert kind(1).tags is not kind(1).tags
    assert value.sum == 3


def test_values_can_be_pickled() -> None:
    """Frozen ones with slots included."""
    assert pickle.loads(pickle.dumps(Point(1, 7))) == Point(1, 7)


@pytest.mark.parametrize("kind", [Point, Open])
def test_values_do_not_change(kind: Any) -> None:
    """Neither by assignment nor by deletion."""
    value = kind(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.x
    assert value.x == 1


@pytest.mark.parametrize(
    ("args", "given"), [((), {}), ((1, 2, [], "", 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1})]
)
def test_unknown_fields_are_refused(args: tuple[Any, ...], given: dict[str, Any]) -> None:
    """As the classes of `dataclasses` do."""
    for kind in (Point, Same):
        with pytest.raises(TypeError):
            kind(*args, **given)


@pytest.mark.parametrize("kind", [Cell, Loose, Seat])
def test_values_that_are_not_frozen_change(kind: Any) -> None:
    """They are replaced like the others."""
    value = kind(1)
    value.x = 4
    assert (value.x, value.sum) == (4, 6)
    assert dataclasses.replace(value, y=1).sum == 5


def test_only_unchanging_data_is_hashed() -> None:
    """Unless it is compared by identity."""
    for kind in (Cell, Loose):
        with pytest.raises(TypeError):
            hash(kind(1))
    seat = Seat(1)
    assert hash(seat) == object.__hash__(seat)
    assert seat != Seat(1)


def test_dataclasses_is_not_loaded() -> None:
    """It takes longer to load than Python takes to start."""
    program = "import sys, holdfast.base.value_classes; print('dataclasses' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
