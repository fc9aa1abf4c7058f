"""Plain values of the command line, converted without Pydantic.

Typer converts every parameter with a Pydantic adapter, even one that was left out or is text and stays as it
is; loading Pydantic takes longer than most commands. What is not plain is left to Typer, with its messages.
Versions of Typer that convert in another way are left as they are.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?")
_BOUNDS = ("min", "max")


class LightConversion:
    """The conversion of one parameter, in the place of Typer's."""

    def __init__(self, parameter: Any) -> None:
        self._descriptor = parameter.type_descriptor
        self._ordinary = parameter.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value that the verb gets."""
        kind = self._descriptor.annotation
        several = bool(param.multiple) or param.nargs == -1
        if value is None:
            return () if several else None
        if kind is str and isinstance(value, str):
            return value
        if (
            kind == list[str]
            and isinstance(value, list | tuple)
            and all(isinstance(one, str) for one in value)
        ):
            return list(value)
        bounded = any(getattr(self._descriptor.parameter_info, name, None) is not None for name in _BOUNDS)
        if kind is float and isinstance(value, str) and not bounded and _NUMBER.fullmatch(value):
            return float(value)
        return self._ordinary().coerce(value, param=param, ctx=ctx)


def lighten(command: Any) -> None:
    """Convert the plain parameters of a command, and of those below it, without Pydantic."""
    help_option = command.get_help_option(command.context_class(command))
    for parameter in (*command.params, help_option):
        if hasattr(parameter, "type_descriptor") and hasattr(parameter, "get_runtime_param"):
            conversion = LightConversion(parameter)
            parameter.get_runtime_param = lambda conversion=conversion: conversion
    for below in getattr(command, "commands", {}).values():
        lighten(below)
