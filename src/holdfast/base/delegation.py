"""Methods of a class that delegate to its parts.

They are defined on the class, with the part's signature and docstring, so that `help`, editors, type checkers
and `autospec` see them. Nothing is bound to instances. A late one loads its part when it is first looked at.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Concatenate, ParamSpec, TypeVar

    Part = TypeVar("Part")
    Parameters = ParamSpec("Parameters")
    Result = TypeVar("Result")


def delegate(
    part: str | Callable[[Any], Part], method: Callable[Concatenate[Part, Parameters], Result]
) -> Callable[Concatenate[Any, Parameters], Result]:
    """Return a method that calls `method` of a part: an attribute, or an object made of the instance."""
    part_of = operator.attrgetter(part) if isinstance(part, str) else part

    @functools.wraps(method)
    def call(self: object, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return method(part_of(self), *args, **kwargs)

    return call


def late(
    part: str | Callable[[Any], Part], method: Callable[[], Callable[Concatenate[Part, Parameters], Result]]
) -> Callable[Concatenate[Any, Parameters], Result]:
    """Return `delegate(part, method())`, made when the attribute is first used."""
    made: Any = _Late(part, method)
    return made  # type: ignore[no-any-return]


class _Late:
    """An attribute of a class that replaces itself."""

    def __init__(self, part: str | Callable[[Any], Any], method: Callable[[], Callable[..., Any]]) -> None:
        self._part, self._method = part, method

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        if vars(self._owner).get(self._name) is self:
            setattr(self._owner, self._name, delegate(self._part, self._method()))
        return getattr(owner if instance is None else instance, self._name)
