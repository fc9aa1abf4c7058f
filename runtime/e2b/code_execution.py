"""One execution of code: environment variables around its cell, and the lines that its client receives. Pure.

Variables of the sandbox stay, and are set when they are new to the kernel; the execution's last until its
cell has ended, and values that the cell has set stay. Python says when a cell has ended; kernels of other
languages do not, so what an execution was given is undone before the next one of this wire begins.

Later versions of a display are not sent as they come, as in a progress bar: clients cannot replace one. The
last version of each is sent at the end. The session decides the content of a result: whatever it is, the
fields have the types that clients expect, and other types are among the `extra` ones, by their MIME type. A
failure of ours is not an error of the code: an answer that has begun is cut, which clients recognize.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.base import printable_json
from holdfast.base.text import plain
from holdfast.errors import HoldfastError, InvalidArgument, KernelDied
from holdfast.runtime.e2b import connect_wire
from holdfast.runtime.guest_rpc.results import CellEvent, CellResult

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

_JAVA = """
{
  String[][] kept = {KEPT}, passing = {PASSING};
  String mark = "holdfast.";
  java.util.Properties all = System.getProperties();
  for (String known : all.stringPropertyNames()) {
    if (!known.startsWith(mark + "passing.")) continue;
    String name = known.substring(mark.length() + 8), before = all.getProperty(mark + "before." + name);
    if (all.getProperty(known).equals(all.getProperty(name))) {
      if (before == null) all.remove(name); else all.setProperty(name, before);
    }
    all.remove(known);
    all.remove(mark + "before." + name);
  }
  for (String[] each : kept) {
    Object known = all.setProperty(mark + "kept." + each[0], each[1]);
    if (!each[1].equals(known)) all.setProperty(each[0], each[1]);
  }
  for (String[] each : passing) {
    Object before = all.setProperty(each[0], each[1]);
    if (before != null) all.setProperty(mark + "before." + each[0], before.toString());
    all.setProperty(mark + "passing." + each[0], each[1]);
  }
}
"""
"""Properties of the system, as at E2B: a process of Java cannot change its environment."""


def checked(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that can be set.

    Raises:
        InvalidArgument: one cannot, or they are too large.
    """
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value or not _encodable(name + value):
            raise InvalidArgument(
                "cannot set the environment: a name is empty or has `=`, or a value is not allowed"
            )
    if len(repr(dict(variables))) > MOST_BYTES:
        raise InvalidArgument("cannot set the environment: the variables have more than 64 KiB")
    return dict(variables)


def source(language: str, kept: Mapping[str, str], passing: Mapping[str, str]) -> str | None:
    """Return the code, which does not leave a visible name behind; None if there are no variables.

    Raises:
        InvalidArgument: the code of this language cannot be given variables, and `passing` has some.
    """
    if language == "python":
        return _python(kept, passing) if kept or passing else None
    write = _WRITERS.get(language)
    if write is None and passing:
        raise InvalidArgument(
            f"cannot set variables for code in {language}: only for Python and {', '.join(_WRITERS)}",
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
    """Return a text as an R literal."""
    characters = (
        char if char.isascii() and char.isprintable() and char not in '\\"' else f"\\U{{{ord(char):x}}}"
        for char in text
    )
    return f'"{"".join(characters)}"'


def _java(kept: Mapping[str, str], passing: Mapping[str, str]) -> str:
    def listed(variables: Mapping[str, str]) -> str:
        # A text in JSON, in ASCII, is a literal of Java.
        return ", ".join(f"{{{json.dumps(name)}, {json.dumps(value)}}}" for name, value in variables.items())

    return _JAVA.replace("PASSING", listed(passing), 1).replace("KEPT", listed(kept), 1)


def _bash(kept: Mapping[str, str], passing: Mapping[str, str]) -> str:
    """Return commands of bash; names that bash cannot have are for other programs, and left out.

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
    "java": _java,
    "javascript": _javascript,
    "typescript": _javascript,
    "r": _r,
}


NAMES = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/latex": "latex",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "application/javascript": "javascript",
}
"""The fields that are text."""
OBJECTS = {"e2b/data": "data", "e2b/chart": "chart"}
"""The fields that are objects: columns of a data frame, and the content of a chart."""
JSON = "application/json"
_BASE64 = frozenset({"image/png", "image/jpeg", "application/pdf"})
_QUOTES = "'\""
TOO_DEEP = "[a value was left out: it is nested too deeply]"


def result_fields(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a result that are in the bundle."""
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for mime, value in bundle.items():
        name, text = NAMES.get(mime), _text(value)
        if mime == JSON:
            fields["json"] = finite(value)
        elif mime in OBJECTS and isinstance(value, dict):
            fields[OBJECTS[mime]] = finite(value)
        elif name is None or text is None or (mime in _BASE64 and not _is_base64(text)):
            extra[mime] = finite(value)
        else:
            fields[name] = _unquoted(text) if name == "text" else text
    return fields | ({"extra": extra} if extra else {})


def finite(value: Any) -> Any:
    """Return a JSON value: finite numbers as they are, others as null."""
    try:
        return _finite(value)
    except RecursionError:
        return TOO_DEEP


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value


def _text(value: Any) -> str | None:
    """Return a text of a bundle, possibly given as a list of lines; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return None


def _is_base64(text: str) -> bool:
    """Return whether it is base64, with or without line ends."""
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _unquoted(text: str) -> str:
    """Return the text of a value without the quotes of a string, as clients expect."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    return text[1:-1] if quoted else text


Line = dict[str, Any]

MEDIA_TYPE = "application/json"
KEEPALIVE: Line = {"type": "keepalive"}
END: Line = {"type": "end_of_execution"}
MOST_VERSIONS = 50
"""Displays whose last version is kept. All of these versions have `MOST_VERSION_BYTES` at most."""
MOST_VERSION_BYTES = 8 << 20
NO_INPUT = "the code asks for input, which this interface cannot give; it was interrupted"
_TOO_LARGE = "{} bytes of a result were left out: the limit is 8 MiB; write it to a file instead"
_LOST = "{} bytes of output were lost: they came faster than they were read"
_EARLY = {
    "restarted": ("ContextRestarted", "the context was restarted while the code ran"),
    "interrupted": ("KeyboardInterrupt", "the code was interrupted"),
}


def written(line: Line) -> bytes:
    """Return a line as it is sent."""
    return f"{printable_json.dumps(line, separators=(',', ':'))}\n".encode()


def error_line(name: str, value: str, traceback: str = "") -> Line:
    """Return the line that reports that the code failed, or could not be run."""
    return {"type": "error", "name": name, "value": value, "traceback": traceback}


def note(text: str) -> Line:
    """Return the line for a message of ours: not an error, which would be attributed to the code."""
    return {"type": "stderr", "text": f"[holdfast: {text}]\n", "timestamp": time.time_ns()}


class ExecutionLines:
    """The lines of one execution."""

    def __init__(self) -> None:
        self._asked = False
        self._raised: Line | None = None
        """The error of the code; clients keep the last one that they receive."""
        self._left_out = 0
        self._versions: dict[str, tuple[Line, int]] = {}

    def asked(self) -> None:
        """Note that the code asked for input: its end is then reported as that, not as an interrupt."""
        self._asked = True

    def heard(self, event: CellEvent, at: int) -> list[Line]:
        """Return the lines for an event; `at` is the time in nanoseconds since 1970."""
        if event.kind == "stream":
            name = "stderr" if event.name == "stderr" else "stdout"
            return [{"type": name, "text": event.text, "timestamp": at}]
        if event.error is not None:
            trace = "\n".join(event.error.traceback)
            self._raised = error_line(event.error.ename, event.error.evalue, trace)
            return [] if self._asked else [self._raised]
        if event.kind in ("display_data", "execute_result"):
            self._left_out += event.left_out
            return [_result(event)]
        if event.kind == "update_display_data":
            self._keep(event)
        return []

    def ended(self, result: CellResult) -> list[Line]:
        """Return the last lines."""
        lines = [line for line, _ in self._versions.values()]
        if self._asked and result.status != "ok":
            lines.append(error_line("StdinNotImplementedError", NO_INPUT))
        elif self._raised is not None:
            lines += [self._raised] if self._asked else []
        elif result.status in _EARLY:
            lines.append(error_line(*_EARLY[result.status]))
        if self._left_out:
            lines.append(note(_TOO_LARGE.format(self._left_out)))
        if result.lost:
            lines.append(note(_LOST.format(result.lost)))
        if result.execution_count is not None:
            lines.append({"type": "number_of_executions", "execution_count": result.execution_count})
        return [*lines, END]

    def failed(self, error: HoldfastError) -> list[Line] | None:
        """Return the last lines of an execution that ended otherwise; None if its answer is to be cut.

        Input that there is none of, and a kernel that ends, are for the code to know; others are failures of
        ours.
        """
        lines = [line for line, _ in self._versions.values()]
        if self._asked:
            return [*lines, error_line("StdinNotImplementedError", NO_INPUT), END]
        if isinstance(error, KernelDied):
            return [*lines, error_line("KernelDied", connect_wire.sentence(error)), END]
        return None

    def _keep(self, event: CellEvent) -> None:
        id_ = event.transient.get("display_id")
        if not isinstance(id_, str):
            return
        self._left_out += event.left_out
        line = _result(event)
        self._versions.pop(id_, None)
        self._versions[id_] = line, len(written(line))
        while (
            len(self._versions) > MOST_VERSIONS
            or sum(size for _, size in self._versions.values()) > MOST_VERSION_BYTES
        ):
            self._left_out += self._versions.pop(next(iter(self._versions)))[1]


def _result(event: CellEvent) -> Line:
    main = event.kind == "execute_result"
    return {"type": "result", **result_fields(event.data), "is_main_result": main}
