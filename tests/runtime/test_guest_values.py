"""Every field of every value that a guest describes is refused, by its name, if it is not valid."""

import copy
import typing
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.runtime.test_pulse import ORIGIN, RAW

from holdfast.errors import ProtocolError
from holdfast.runtime.guest_rpc.guest_value import GuestValue
from holdfast.runtime.history.drift import holdings
from holdfast.runtime.pulse.pulse import Answer, Probe

PULSE = {
    **RAW,
    "detail": {
        "pid": 12,
        "cwd": "/",
        "exe": "/bin/x",
        "waits_in": "poll",
        **{key: {} for key in ("memory", "io", "limits", "status")},
    },
    "file": {"path": "/x", "status": {"kind": "file", "size": 1, "modified": 2.0, "mode": 3, "uid": 0}},
}
HELD = {
    "at": 1.0,
    "seq": 2,
    "generation": 0,
    "processes": [{"pid": 3, "command": "x", "started": 1.0, "ports": [80], "role": "", "origin": "c1"}],
    "shells": {
        "main": {
            "pid": 1,
            "cwd": "/",
            "umask": 18,
            "functions": {},
            "aliases": {},
            "variables": {"A": ["x", 1, "d", None]},
        }
    },
    "kernels": {"main": {"epoch": 1, "names": {"x": ["int", "1"]}, "stale": False}},
}
PROBED = {"answer": "accepted", "http_status": 200, "first_line": "HTTP/1.1 200 OK"}
SAMPLES: dict[type[GuestValue], Any] = {Answer: PULSE, holdings._HoldingsReport: HELD, Probe: PROBED}
WRONG = -0.5
"""It is of no agreed type."""
DROPPED = ("screen", "stale")
"""What the guest says there does not count, whatever it is."""


def model(annotation: Any) -> type[GuestValue] | None:
    if isinstance(annotation, type) and issubclass(annotation, GuestValue):
        return annotation
    return next(filter(None, map(model, typing.get_args(annotation))), None)


def fields(kind: type[GuestValue], sample: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place in the sample of every field of a model and of those in it."""
    for name, field in kind.model_fields.items():
        if name not in DROPPED:
            yield (*path, name)
        inner, below = model(field.annotation), sample.get(name)
        if inner is None:
            continue
        if isinstance(below, list):
            best = max(
                range(len(below)), key=lambda at: sum(value is not None for value in below[at].values())
            )
            yield from fields(inner, below[best], (*path, name, best))
        elif below is not None and not issubclass(inner, (holdings.HeldShell, holdings.HeldKernel)):
            yield from fields(inner, below, (*path, name))
        else:
            yield from fields(inner, below["main"], (*path, name, "main"))


PLACES = [(kind, path) for kind, sample in SAMPLES.items() for path in fields(kind, sample)]


def changed(sample: Any, path: tuple[Any, ...], value: Any) -> Any:
    found = copy.deepcopy(sample)
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return found


def test_all_models_are_tried() -> None:
    """The samples reach every model that is made for what a guest says."""
    tried = {kind for kind, _ in PLACES}
    for kind, path in PLACES:
        here: Any = kind
        for step in path:
            if isinstance(step, str) and step in here.model_fields:
                here = model(here.model_fields[step].annotation) or here
                tried.add(here)
    every = {kind for kind in GuestValue.__subclasses__() if kind.__name__ != "_Change"}
    assert every == tried


@pytest.mark.parametrize(
    ("kind", "path"),
    PLACES,
    ids=lambda given: given.__name__ if isinstance(given, type) else ".".join(map(str, given)),
)
def test_a_wrong_field_is_refused_by_its_name(kind: type[GuestValue], path: tuple[Any, ...]) -> None:
    """The message says which it is, in one line that repeats nothing of the value."""
    sample = SAMPLES[kind]
    kind.of(sample)
    with pytest.raises(ProtocolError) as caught:
        kind.of(changed(sample, path, WRONG))
    assert f"'{'.'.join(map(str, path))}" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    strange: tuple[Any, ...] = (float("nan"), 10**400, "x" * 1_000_001, [None] * 50_001)
    for value in strange:
        with suppress(ProtocolError):  # and nothing else
            kind.of(changed(sample, path, value))


def test_bounds_of_what_is_said() -> None:
    """A number, a text and a list that are too large are refused; what nobody knows is passed over."""
    for path, value in (
        (("processes", "rows", 0, "resident"), 2**63),
        (("processes", "rows", 0, "age"), 10**400),
        (("processes", "rows", 0, "command"), "x" * 1_000_001),
        (("processes", "rows"), [PULSE["processes"]["rows"][0]] * 20_001),
        (("files", "rows", 0, "flags"), ["x"] * 1001),
    ):
        with pytest.raises(ProtocolError, match=r"'[a-z.0-9]+' of its 'answer' is not valid"):
            Answer.of(changed(PULSE, path, value))
    assert Answer.of({**PULSE, "news": 1}) == Answer.of(PULSE)
    assert Answer.of(changed(PULSE, ("terminals", 0, "screen"), "\x1b[2J")).terminals[0].screen is None
    assert ORIGIN["id"] in repr(Answer.of(PULSE))
