"""Environment variables of one execution, as Python that runs before its cell.  Pure.

Those of the sandbox stay, and are set when they are new to the kernel; those of the execution last until its
cell has ended, and what the cell has set itself stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import InvalidArgument

MOST_BYTES = 64 << 10
"""Of all variables, as they are written into the source."""
_SOURCE = """
import os
from IPython import get_ipython

shell = get_ipython()
known = shell.__dict__.setdefault("_sandbox_environment", {})
os.environ.update({name: value for name, value in kept.items() if known.get(name) != value})
known.update(kept)
if passing:
    before = {name: os.environ.get(name) for name in passing}
    os.environ.update(passing)

    def restore(*_):
        shell.events.unregister("post_run_cell", restore)
        for name, value in before.items():
            if os.environ.get(name) != passing[name]:
                continue
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

    shell.events.register("post_run_cell", restore)
"""


def checked(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables that can be set.

    Raises:
        InvalidArgument: one cannot, or they are too large.
    """
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value or not _encodable(name + value):
            raise InvalidArgument(
                "cannot set the environment: a name is empty or has `=`, or a text cannot be in one"
            )
    if len(repr(dict(variables))) > MOST_BYTES:
        raise InvalidArgument("cannot set the environment: the variables have more than 64 KiB")
    return dict(variables)


def source(kept: Mapping[str, str], passing: Mapping[str, str]) -> str | None:
    """Return the code, which leaves no name behind; None if there is nothing to set."""
    if not kept and not passing:
        return None
    names = {"kept": dict(kept), "passing": dict(passing)}
    return f"exec({_SOURCE!r}, {names!r})"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
