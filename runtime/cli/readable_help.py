"""What the help of each verb has beyond Typer's: examples, and values named for people instead of types.

Works on the finished commands. Knows no verb; `verb_examples` has the lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.runtime.cli.verb_examples import EXAMPLES

_NUMBERS = (int, float)


def polish(command: Any, path: tuple[str, ...] = ()) -> Any:
    """Complete the help of a command and of those below it; return it. `path` is of its words."""
    for parameter in command.params:
        _name_value(parameter)
    lines = EXAMPLES.get(" ".join(path), ())
    if lines:
        # The mark keeps Click from filling the lines of a paragraph.
        command.epilog = "\n".join(("\b", "Examples:", *(f"  holdfast {line}" for line in lines)))
    for name, below in getattr(command, "commands", {}).items():
        polish(below, (*path, name))
    return command


def _name_value(parameter: Any) -> None:
    """Name the value of a parameter as people would, instead of its type in Python."""
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda *_, **__: ""  # the argument has its name
    elif parameter.metavar is None and not parameter.is_flag:
        parameter.metavar = "|".join(choices) if (choices := list(_choices(parameter))) else _word(parameter)


def _choices(parameter: Any) -> Iterator[str]:
    descriptor = getattr(parameter, "type_descriptor", None)
    found = getattr(descriptor, "choices", None) or getattr(getattr(parameter, "type", None), "choices", None)
    yield from (str(getattr(each, "value", each)) for each in found or ())


def _word(parameter: Any) -> str:
    descriptor = getattr(parameter, "type_descriptor", None)
    kind = getattr(descriptor, "annotation", None) or getattr(getattr(parameter, "type", None), "name", "")
    if kind in _NUMBERS or str(kind).startswith(("integer", "float")):
        return "N"
    return str(max(parameter.opts, key=len)).lstrip("-").upper()
