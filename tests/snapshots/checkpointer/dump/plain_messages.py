"""A stand-in for pycriu, which only the checkpointer's image has: messages of any fields, as JSON.

For tests in which it does not matter how CRIU spells its images: nothing of CRIU reads them.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections import defaultdict
from typing import Any


class PlainMessage:
    """A message; a field that was not set is 0."""

    def __init__(self, **fields: Any) -> None:
        self._text = b""
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        return 0

    def SerializeToString(self) -> bytes:  # noqa: N802 - as protobuf has it
        return json.dumps({key: value for key, value in vars(self).items() if key != "_text"}).encode()

    def ParseFromString(self, text: bytes) -> None:  # noqa: N802
        self._text = text
        self.__dict__.update(json.loads(text))

    def CopyFrom(self, other: PlainMessage) -> None:  # noqa: N802
        self.__dict__.update(vars(other))

    def DiscardUnknownFields(self) -> None:  # noqa: N802
        """There are none."""

    def ByteSize(self) -> int:  # noqa: N802
        return len(self._text)

    def IsInitialized(self) -> bool:  # noqa: N802
        return True


class _Messages(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "by_name":
            return defaultdict(lambda: 1)
        if name == "DecodeError":
            return ValueError
        return _Messages(name) if name.endswith("_pb2") or name == "images" else PlainMessage


def install() -> None:
    """Stand in for pycriu where that is missing."""
    if "pycriu" not in sys.modules and importlib.util.find_spec("pycriu") is None:
        for name in ("pycriu", "pycriu.images", "pycriu.images.magic", "google.protobuf.message"):
            sys.modules.setdefault(name, _Messages(name))
