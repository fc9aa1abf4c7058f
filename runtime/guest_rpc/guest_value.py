"""The base of values that a guest describes: every field is validated when it is read.  Pure.

The guest is hostile: a field of an unexpected type or size refuses the value, and is named. Commands read
their few fields with `wire_fields`, because pydantic takes a while to load.
"""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
)

from holdfast.base.text import plain
from holdfast.errors import ProtocolError
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc import wait_state
from holdfast.runtime.guest_rpc.wire_fields import GREATEST

T = TypeVar("T")


class GuestValue(BaseModel):
    """A value that a guest describes. Unknown fields are ignored: a newer guest can have them."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    @classmethod
    def of(cls, raw: Any) -> Self:
        """Read the value from the JSON of an answer.

        Raises:
            ProtocolError: it is not valid.
        """
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        named = f"'{plain(place, 120)}' of its" if place else "its"
        whose = cls.__name__.strip("_").lower()
        raise ProtocolError(f"cannot understand the session: {named} '{whose}' is not valid")


def _string(raw: Any, limit: int) -> str:
    if not isinstance(raw, str) or len(raw) > limit:
        raise ValueError("not a string, or too long")
    return raw


def _finite(raw: Any) -> Any:
    if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) > GREATEST:
        raise ValueError("too large")  # floats of that size cannot even be made
    return raw


def shown(limit: int) -> PlainValidator:
    """Return a validator for text that is safe to show, of which at most `limit` characters are kept."""
    return PlainValidator(lambda raw: plain(_string(raw, 1_000_000), limit))


def whole(limit: int) -> PlainValidator:
    """Return a validator for text that is kept unchanged."""
    return PlainValidator(lambda raw: _string(raw, limit))


def _without_none(raw: Any) -> Any:
    return {name: value for name, value in raw.items() if value is not None} if isinstance(raw, dict) else raw


KNOWN = BeforeValidator(_without_none)
"""Drops the fields of an object without a value."""


def only(*names: str) -> BeforeValidator:
    """Return a filter that keeps the known names of an object: others are the guest's own words."""
    return BeforeValidator(
        lambda raw: {name: raw[name] for name in names if name in raw} if isinstance(raw, dict) else raw
    )


def listed(limit: int = 20_000) -> Any:
    """Return the constraint of a list of at most `limit` items. JSON does not have tuples."""
    return Field(strict=False, max_length=limit)


Count = Annotated[int, Field(ge=0, le=GREATEST)]
Seconds = Annotated[float, Field(ge=0, lt=1e12, allow_inf_nan=False), BeforeValidator(_finite)]
Tally = Annotated[Count, BeforeValidator(lambda raw: 0 if raw is None else raw)]
Positive = Annotated[int, Field(ge=1, le=GREATEST)]
ExitCode = Annotated[int, Field(ge=-255, le=GREATEST)]


def _observed(raw: Any) -> State:
    try:
        return wait_state.state(raw)
    except ProtocolError as error:
        raise ValueError("not a state") from error  # so that the error names the field


Observed = Annotated[State, PlainValidator(_observed), PlainSerializer(State.as_dict)]
