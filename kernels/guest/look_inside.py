"""Lists a user's names in a Python kernel. Its text runs in the kernel, in a namespace of its own.

It must not be noticed: no name is left behind, no value is changed, and no code of the user's is called,
not even for an attribute or a length. Sizes are reported only of known types, and through these types. It
imports only modules that every Python 3 has.
"""

from __future__ import annotations

import hashlib
import json
import sys
import types
from array import array
from collections import deque
from typing import Any

SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range, deque, array, memoryview)
PLAIN = (bool, int, float, complex, str, bytes, type(None))
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
SMALL = 65536
"""Bytes up to which a number or a text gets a digest."""
SHORT = 200


def look(namespace: dict[str, Any], hidden: dict[str, Any], limit: int) -> str:
    """Return as JSON the visible names, the newest last, and the number left out."""
    missing = object()
    names = [
        (name, value)
        for name, value in list(namespace.items())
        if type(name) is str and not name.startswith("_") and value is not hidden.get(name, missing)
    ]
    rows = [row(name, value) for name, value in names[-limit:]]
    return json.dumps({"rows": rows, "left_out": len(names) - len(rows)})


def row(name: str, value: Any) -> dict[str, Any]:
    """Return a description of a value without calling the value's code."""
    kind = type(value)
    bases = type.__dict__["__mro__"].__get__(kind)
    found = {"name": name[:SHORT], "type": named(kind), "kind": kind_of(bases), "identity": id(value)}
    try:
        of_builtin(value, kind, bases, found)
        of_numpy(value, bases, found)
        of_pandas(value, kind, found)
    except Exception:  # noqa: BLE001 - one that cannot be looked at is a value all the same
        return found
    return found


def named(kind: type) -> str:
    """Return the name of a type, bypassing its metaclass."""
    module = type.__dict__["__module__"].__get__(kind)
    name = type.__dict__["__qualname__"].__get__(kind)
    return str(name if module == "builtins" else f"{module}.{name}")[:SHORT]


def kind_of(bases: tuple[type, ...]) -> str:
    """Return module, class, function or value."""
    if type in bases:
        return "class"
    if types.ModuleType in bases:
        return "module"
    return "function" if any(each in bases for each in FUNCTIONS) else "value"


def of_builtin(value: Any, kind: type, bases: tuple[type, ...], found: dict[str, Any]) -> None:
    """Add length, bytes and digest of Python's built-in types."""
    for base in SIZED:
        if base in bases:
            found["length"] = base.__len__(value)
            break
    if kind in PLAIN or kind in SIZED:
        found["bytes"] = int(kind.__dict__.get("__sizeof__", object.__sizeof__)(value))
    if kind in PLAIN and found["bytes"] <= SMALL:
        text = value if kind is bytes else repr(value).encode("utf-8", "backslashreplace")
        found["digest"] = hashlib.blake2b(text, digest_size=8).hexdigest()


def of_numpy(value: Any, bases: tuple[type, ...], found: dict[str, Any]) -> None:
    """Add an array's own description."""
    ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
    if ndarray is not None and ndarray in bases:
        found["shape"] = list(ndarray.shape.__get__(value))
        found["dtype"] = str(ndarray.dtype.__get__(value))[:SHORT]
        found["bytes"] = int(ndarray.nbytes.__get__(value))


def of_pandas(value: Any, kind: type, found: dict[str, Any]) -> None:
    """Add a table's or column's own description; the memory of a table would have to be counted."""
    pandas = sys.modules.get("pandas")
    if pandas is None or kind not in [
        getattr(pandas, name, None) for name in ("DataFrame", "Series", "Index")
    ]:
        return
    found["shape"] = list(value.shape)
    if kind is not getattr(pandas, "DataFrame", None):
        found["dtype"], found["bytes"] = str(value.dtype)[:SHORT], int(value.nbytes)
