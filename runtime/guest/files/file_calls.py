"""The calls about files that were begun lately, so that one that is repeated is known."""

from __future__ import annotations

from collections import OrderedDict

MAX_KNOWN = 1000


class FileCalls:
    """The ids of the last calls."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, id_: str) -> bool:
        return id_ in self._known

    def add(self, id_: str) -> None:
        """Remember a call."""
        self._known[id_] = None
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
