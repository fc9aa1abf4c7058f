"""Names things without a name of their own, such as pipes and sockets, by the first descriptor to them. Pure.

The kernel and CRIU number such things differently. Which processes share them is the same in both.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

Process = dict[str, Any]


def name(processes: list[Process]) -> None:
    """Give every descriptor that has a `key` a name in `what`: the lowest "PID/FD" with that key.

    Keys are removed. Processes are by pid, descriptors by number.
    """
    first: dict[Hashable, str] = {}
    for process in sorted(processes, key=lambda one: int(one["pid"])):
        for one in sorted(process["descriptors"], key=lambda each: int(each["fd"])):
            key = one.pop("key", None)
            if key is not None:
                own = f"{process['pid']}/{one['fd']}"
                one["what"] = f"{one['what']} {first.setdefault(key, own)}".lstrip()
