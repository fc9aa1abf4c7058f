"""Methods over a URL, bound to the API's: parameters, defaults, docstrings.  Pure.

A method is bound to a function that asks the server. An argument that was not given is not sent: its default
is the server's, which is the same.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from holdfast.runtime.client import client_values
from holdfast.runtime.client.client_errors import not_over_a_url
from holdfast.runtime.client.http_call import HttpCall, place
from holdfast.runtime.guest_rpc import call_arguments

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Made = TypeVar("Made")
CHECKS: Mapping[str, Callable[[Any, str], object]] = {
    "timeout": call_arguments.seconds,
    "lease_wait": call_arguments.seconds,
    "busy_wait": call_arguments.patience,
}
"""Arguments that mean the same in every method, and are refused before anything is sent."""
ONLY_IN_PROCESS = frozenset(
    ("build_network", "devcontainer", "entrypoint", "failure", "here", "on_action", "remote_sources")
)
"""Arguments that are of the server's machine, or call back from there."""


def asking(
    method: Callable[Concatenate[Any, Parameters], Any],
    ask: Callable[[Any, str, dict[str, Any]], Result],
    verb: str = "",
) -> Callable[Concatenate[Any, Parameters], Result]:
    """Return a method with the parameters, defaults and docstring of one in process.

    It calls `ask` with the verb, by default the name of that one, and with the arguments that were given and
    are not None; a `patience` of None is for as long as it takes. The result of `ask` can be an awaitable.
    """
    signature, said = inspect.signature(method), verb or method.__name__

    def told(*args: Any, **how: Any) -> dict[str, Any]:
        _, *arguments = signature.bind(*args, **how).arguments.items()
        found: dict[str, Any] = {}
        for name, value in arguments:
            default = signature.parameters[name].default
            if name in CHECKS:
                CHECKS[name](value, name)
            if name not in ONLY_IN_PROCESS:
                found |= {} if value is None and name != "patience" else {name: sendable(value)}
            elif value != default:
                raise not_over_a_url(name)
        return found

    @call_arguments.awaits_nothing
    def call(self: Any, /, *args: Any, **how: Any) -> Any:
        return ask(self, said, told(self, *args, **how))

    async def awaited(self: Any, /, *args: Any, **how: Any) -> Any:
        return await cast("Any", ask)(self, said, told(self, *args, **how))

    made: Any = functools.wraps(method)(awaited if inspect.iscoroutinefunction(ask) else call)
    if (returned := returned_by(ask)) != "Any":
        made.__signature__ = signature.replace(return_annotation=returned)
    return cast("Callable[Concatenate[Any, Parameters], Result]", made)


def like(method: Callable[..., Any]) -> Callable[[Made], Made]:
    """Return a decorator that gives a method over a URL the docstring of the in-process one."""

    def described(made: Made) -> Made:
        made.__doc__ = method.__doc__
        return made

    return described


def sendable(value: Any) -> Any:
    """Return an argument in JSON form: a time with its zone, a list, a table; other values unchanged."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | memoryview):
        return list(value)
    return value


@dataclass(frozen=True, slots=True)
class Route:
    """The placement of a method's arguments: in the path, where braces mark them, or in the query or body.

    GET and DELETE have a query, others a body, unless `in_query`. `names` are the names that differ there.
    """

    method: str
    path: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    in_query: bool = False

    def call(
        self,
        at: Sequence[str],
        always: Mapping[str, Any],
        told: Mapping[str, Any],
        signature: inspect.Signature,
    ) -> HttpCall:
        """Return the request for a call of a method about a resource, which always has these parameters."""
        fields = {self.names.get(name, name): value for name, value in told.items()}
        path = list(at)
        for part in filter(None, self.path.split("/")):
            name = part[1:-1] if part.startswith("{") else None
            path.append(part if name is None else str(fields.pop(name, signature.parameters[name].default)))
        if self.in_query or self.method in ("GET", "DELETE"):
            return HttpCall(self.method, place(*path), {**fields, **always})
        return HttpCall(self.method, place(*path), always, fields)


Value = TypeVar("Value")


def each(read: Callable[[Any], Value]) -> Callable[[Any], list[Value]]:
    """Return a reader of lists of values; `read` reads one of them."""

    def listed(told: Any) -> list[Value]:
        return [read(one) for one in client_values.tables(told)]

    listed.__annotations__["return"] = _holding("list[{}]", read)
    return listed


def all_of(read: Callable[[Any], Value]) -> Callable[[Any], tuple[Value, ...]]:
    """Return a reader of tuples of values; `read` reads one of them."""

    def found(told: Any) -> tuple[Value, ...]:
        return tuple(each(read)(told))

    found.__annotations__["return"] = _holding("tuple[{}, ...]", read)
    return found


def nothing(_told: Any) -> None:
    """Return None: the answer is empty."""


def late(name: str) -> Callable[[Any], Any]:
    """Return a function of `insight_values`, by its name: their classes take a while to load."""

    def read(told):  # type: ignore[no-untyped-def]  # its result has the type of the other's
        from holdfast.runtime.client import insight_values

        return getattr(insight_values, name)(told)

    return read


def returned_by(read: Callable[..., Any]) -> Any:
    """Return the annotation of a function's result; `Any` if it has none."""
    said = inspect.signature(read).return_annotation
    if said == "Self" and isinstance(kind := getattr(read, "__self__", None), type):
        return kind.__name__
    return "Any" if said is inspect.Signature.empty else said


def _holding(form: str, read: Callable[..., Any]) -> str:
    said = returned_by(read)
    return said if said == "Any" else form.format(said)
