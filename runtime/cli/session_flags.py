"""The options of a session as flags of the verbs that start one, of the one table of them.

A verb that is decorated has a parameter `options`, and instead of it a flag for each option that it offers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.runtime.sessions import option_table

if TYPE_CHECKING:
    from holdfast.runtime.sessions.option_table import SessionOption, Verb

_TYPES: dict[str, Any] = {
    "text": str | None,
    "count": int | None,
    "number": float | None,
    "switch": bool,
    "texts": list[str] | None,
}


def flags(verb: Verb) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a verb the flags of the options that it offers.

    Its parameter `options` receives those that were given, as `Holdfast.new` takes them.
    """
    offered = option_table.offered_by(verb)

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            chosen = {option.name: arguments.pop(option.name) for option in offered}
            given = {name: value for name, value in chosen.items() if _is_given(value)}
            function(options=given, **arguments)

        signature = inspect.signature(function, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            parameters += map(_parameter, offered) if parameter.name == "options" else [parameter]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
        return run

    return decorated


def _is_given(value: Any) -> bool:
    return value is not None and value is not False


def _parameter(option: SessionOption) -> inspect.Parameter:
    flag = typer.Option(option.flag, metavar=option.metavar, help=option.help)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.kind == "switch" else None,
        annotation=Annotated[_TYPES[option.kind], flag],
    )
