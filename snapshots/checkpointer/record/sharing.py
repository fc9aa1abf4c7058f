"""Names what has no name of its own, such as pipes and sockets, by the first descriptor to it. Pure.

The kernel and CRIU number such things each in their way. Who shares them with whom is the same in both.
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
