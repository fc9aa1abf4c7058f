"""Methods of a class that delegate to its parts.

They are defined on the class, with the part's signature and docstring, so that `help`, editors, type checkers
and `autospec` see them. Nothing is bound to instances.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
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
