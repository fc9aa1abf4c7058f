"""Environment variables of one execution, as code that runs before its cell.  Pure.

Those of the sandbox stay, and are set when they are new to the kernel; those of the execution last until
its cell has ended, and what the cell has set itself stays. Python says when a cell has ended; kernels of
other languages do not, so what an execution was given is undone before the next one of this wire begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

MOST_BYTES = 64 << 10
"""Of all variables, as they are written into the source."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPED_BYTES = 900
"""Of a script in one line: each has at most four characters there."""
_PYTHON = """
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
_JAVASCRIPT = """
((kept, passing) => {
  const key = Symbol.for("holdfast.environment"), env = globalThis.process.env;
  const known = globalThis[key] ??= { kept: {}, passing: {}, before: {} };
  for (const [name, value] of Object.entries(known.before)) {
    if (env[name] !== known.passing[name]) continue;
    if (value === null) delete env[name]; else env[name] = value;
  }
  for (const [name, value] of Object.entries(kept)) if (known.kept[name] !== value) env[name] = value;
  Object.assign(known.kept, kept);
  Object.assign(known, { passing, before: {} });
  for (const [name, value] of Object.entries(passing)) {
    known.before[name] = env[name] ?? null;
    env[name] = value;
  }
})"""
_R = """
local({
  set <- function(name, value) {
    if (is.null(value) || is.na(value)) Sys.unsetenv(name)
    else do.call(Sys.setenv, setNames(list(value), name))
  }
  kept <- list(KEPT)
  passing <- list(PASSING)
  known <- getOption("holdfast.environment", list(kept = list(), passing = list(), before = list()))
  for (name in names(known$passing))
    if (identical(Sys.getenv(name, unset = NA), known$passing[[name]])) set(name, known$before[[name]])
  for (name in names(kept))
    if (!identical(known$kept[[name]], kept[[name]])) set(name, kept[[name]])
  known$kept[names(kept)] <- kept
  known$passing <- passing
  known$before <- list()
  for (name in names(passing)) {
    known$before[[name]] <- Sys.getenv(name, unset = NA)
    set(name, passing[[name]])
  }
  options(holdfast.environment = known)
})
invisible()
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


def source(language: str, kept: Mapping[str, str], passing: Mapping[str, str]) -> str | None:
    """Return the code, which leaves no name that the user has behind; None if there is nothing to set.

    Raises:
        InvalidArgument: the code of this language cannot be given variables, and `passing` has some.
    """
    if language == "python":
        return _python(kept, passing) if kept or passing else None
    write = _WRITERS.get(language)
    if write is None and passing:
        raise InvalidArgument(
            f"cannot set variables for code in {language}: that is possible in Python, bash, JavaScript, "
            "TypeScript and R",
            hint="set them in the code itself",
        )
    return write(kept, passing) if write is not None else None


def _python(kept: Mapping[str, str], passing: Mapping[str, str]) -> str:
    names = {"kept": dict(kept), "passing": dict(passing)}
    return f"exec({_PYTHON!r}, {names!r})"


def _javascript(kept: Mapping[str, str], passing: Mapping[str, str]) -> str:
    # As text that is parsed, `__proto__` is a name like others.
    given = (f"JSON.parse({json.dumps(json.dumps(dict(each)))})" for each in (kept, passing))
    return f"{_JAVASCRIPT}({', '.join(given)});undefined"


def _r(kept: Mapping[str, str], passing: Mapping[str, str]) -> str:
    def listed(variables: Mapping[str, str]) -> str:
        return ", ".join(f"{_in_r(name)} = {_in_r(value)}" for name, value in variables.items())

    return _R.replace("KEPT", listed(kept), 1).replace("list(PASSING)", f"list({listed(passing)})", 1)


def _in_r(text: str) -> str:
    """Return a text as R writes it."""
    characters = (
        char if char.isascii() and char.isprintable() and char not in '\\"' else f"\\U{{{ord(char):x}}}"
        for char in text
    )
    return f'"{"".join(characters)}"'


def _bash(kept: Mapping[str, str], passing: Mapping[str, str]) -> str:
    """Return commands of bash; names of the sandbox that it cannot have are for other programs, and left out.

    Its kernel types each line at an interactive shell, where a tab completes and a terminal takes 4095 bytes
    in a line: the script travels in pieces, quoted in printable characters.
    """
    lines = ['eval "${__holdfast_undo-}"', "unset -v __holdfast_undo"]
    for name, value in kept.items():
        if _NAME.fullmatch(name):
            known, text = f"__holdfast_kept_{name}", _in_bash(value)
            lines += [f"[[ ${{{known}-}} == {text}. ]] || export {name}={text}", f"{known}={text}."]
    for name, value in passing.items():
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"cannot set the environment: bash does not allow a variable named {plain(name, 80)}"
            )
        lines += [
            f"__holdfast_new={_in_bash(value)} __holdfast_old='unset -v {name}'",
            f'[[ ! -v {name} ]] || __holdfast_old="export {name}=${{{name}@Q}}"',
            f'__holdfast_undo+="[[ \\${{{name}-}} != ${{__holdfast_new@Q}} ]] || $__holdfast_old;"',
            f"export {name}=$__holdfast_new",
            "unset -v __holdfast_new __holdfast_old",
        ]
    script = "\n".join(lines).encode()
    pieces = (script[start : start + _TYPED_BYTES] for start in range(0, len(script), _TYPED_BYTES))
    typed = [f"__holdfast_run+={_in_bash(piece)}" for piece in pieces]
    return "\n".join(["__holdfast_run=", *typed, 'eval "$__holdfast_run"', "unset -v __holdfast_run"])


def _in_bash(text: str | bytes) -> str:
    """Return a text as bash reads it, in printable characters."""
    data = text.encode() if isinstance(text, str) else text
    odd = (each < 32 or each > 126 or each in b"\\'!" for each in data)
    written = (f"\\x{each:02x}" if is_odd else chr(each) for each, is_odd in zip(data, odd, strict=True))
    return f"$'{''.join(written)}'"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_WRITERS: dict[str, Callable[[Mapping[str, str], Mapping[str, str]], str]] = {
    "bash": _bash,
    "javascript": _javascript,
    "typescript": _javascript,
    "r": _r,
}
