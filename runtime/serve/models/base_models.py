"""The common forms of requests and answers: names, durations, errors."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from holdfast.base import ids
from holdfast.runtime.guest_rpc.call_arguments import FOREVER

LONGEST_REASON = 500
LONGEST_KEY = 200

TEXT = r"^[^\x00]*$"
"""Texts without NUL."""


class RequestBody(BaseModel):
    """A body of a request: exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, given: Any) -> Any:
        """Read 2.0 as 2: JSON has one kind of number, and some clients write all of them with a decimal
        point."""
        if not isinstance(given, dict):
            return given
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in given.items()
        }


class AnswerBody(BaseModel):
    """A body of an answer."""

    model_config = ConfigDict(extra="forbid")


Body = TypeVar("Body", bound=BaseModel)
Answer = TypeVar("Answer", bound=AnswerBody)
_ANSWERS: dict[str, Any] = {}
"""Answers, by the names of the classes whose values they tell."""


def answer_of(
    kind: type, *, without: Collection[str] = (), optional: bool = False
) -> Callable[[type[Answer]], type[Answer]]:
    """Return a decorator that adds the fields of a class of values to an answer, in the forms of JSON.

    Fields that the answer declares itself stay. The others are in every answer, unless they are `optional`.
    """

    def completed(answer: type[Answer]) -> type[Answer]:
        made = with_fields_of(kind, without=without, optional=optional)(answer)
        _ANSWERS[kind.__name__] = made
        return made

    return completed


def with_fields_of(
    kind: type, *, without: Collection[str] = (), optional: bool = True
) -> Callable[[type[Body]], type[Body]]:
    """Return a decorator that adds the fields of a class of values to a body, in the forms of JSON.

    Fields that the body declares itself stay. The others have the defaults of the class if they are
    `optional`.
    """

    def completed(body: type[Body]) -> type[Body]:
        found = _described(kind, {*without, *body.model_fields})
        return _with(
            body, {name: (_in_json(form), default if optional else ...) for name, form, default in found}
        )

    return completed


def taking(
    method: Callable[..., Any], *, text: Any = None, texts: Any = None
) -> Callable[[type[Body]], type[Body]]:
    """Return a decorator that adds the arguments of a method to a request, with their names and defaults.

    Fields that the request declares itself stay. Others have the form of `ARGUMENTS`, or `text` and a list of
    `texts`. Callbacks and arguments that are sent outside of a body are left out.
    """

    def completed(body: type[Body]) -> type[Body]:
        return _with(
            body,
            {
                name: _argument(name, parameter, text, texts)
                for name, parameter in inspect.signature(method).parameters.items()
                if name not in {*BESIDE, *body.model_fields} and not name.startswith("on_")
            },
        )

    return completed


def _argument(name: str, parameter: inspect.Parameter, text: Any, texts: Any) -> tuple[Any, Any]:
    """Return the type and the default of an argument of a method in a request."""
    listed: Any = list
    default = parameter.default
    if default == ():
        return Annotated[listed[texts], Field(max_length=MOST_TEXTS)], Field(default_factory=list)
    form = bool if parameter.annotation == "bool" else ARGUMENTS.get(name, text)
    if form is None:
        raise TypeError(f"no form is known for the argument {name}")
    return (form | None if default is None else form), default


def _with(body: type[Body], added: dict[str, Any]) -> type[Body]:
    return create_model(
        body.__name__, __base__=body, __module__=body.__module__, __doc__=body.__doc__, **added
    )


def _described(kind: Any, left_out: Collection[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, type and default of each field; the default is an ellipsis if there is none."""
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if name not in left_out:
                yield name, field.annotation, ... if field.is_required() else field.default
        return
    names = vars(typing) | vars(sys.modules[kind.__module__]) | _ANSWERS
    for each in fields(kind):
        if each.name not in left_out:
            form = eval(str(each.type), names)  # noqa: S307 - text of this package
            yield each.name, form, ... if each.default is MISSING else each.default


def _in_json(form: Any) -> Any:
    """Return the type of a field in JSON: a list for a tuple, a text for a time."""
    parts = tuple(map(_in_json, get_args(form)))
    listed: Any = list
    if get_origin(form) is Annotated:
        return parts[0]
    if get_origin(form) in (Union, UnionType):
        return Union[parts]  # noqa: UP007 - computed
    if get_origin(form) in (tuple, list):
        return listed[parts[0]]
    if form is datetime:
        return str
    return _ANSWERS.get(getattr(form, "__name__", ""), form)


class ErrorBody(AnswerBody):
    """An error: a stable code, a line for people, and a remedy."""

    code: str
    message: str
    hint: str = ""
    findings: list[dict[str, Any]] | None = None


class ErrorAnswer(AnswerBody):
    """The answer to a request that failed."""

    error: ErrorBody


Seconds = Annotated[float, Field(gt=0, lt=FOREVER)]
Patient = Annotated[float, Field(ge=0, lt=FOREVER)]
Reason = Annotated[str, Field(min_length=1, max_length=LONGEST_REASON, pattern=TEXT)]
Name = Annotated[str, Field(pattern=f"^{ids.NAME}$")]
Side = Annotated[int, Field(ge=1, le=1000)]
Part = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
"""The name of a shell or kernel."""
BESIDE = ("self", "key", "patience")
"""Arguments that are sent outside of a body."""
MOST_TEXTS = 200
ARGUMENTS: Mapping[str, Any] = {
    "busy_wait": Patient,
    "cols": Side,
    "kernel": Part,
    "lease_wait": Seconds,
    "name": Name,
    "reason": Reason,
    "rows": Side,
    "shell": Part,
    "timeout": Seconds,
}
"""Forms of arguments that mean the same in every method."""
Ref = Annotated[str, Path(pattern=f"^{ids.NAME}$", description="A name, an id, or its first digits.")]
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,80}$")]
PartRef = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
PartQuery = Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
Offset = Annotated[int, Query(ge=0, lt=2**53)]
PatienceQuery = Annotated[float | None, Query(ge=0, lt=FOREVER)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=LONGEST_KEY,
        pattern=r"^[\x21-\x7e]+$",
        description="Under the same key it runs once; later requests join it, or get what was recorded.",
    ),
]
