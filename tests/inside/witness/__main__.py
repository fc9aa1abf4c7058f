"""Runs one witness, or asks all of them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from witness import memory, streams, tree
from witness.status import STATUS, Status

KINDS: dict[str, Callable[[Path, Status], None]] = {
    "counter": memory.counter,
    "twins": memory.twins,
    "blocks": memory.blocks,
    "database": memory.database,
    "files": tree.files,
    **streams.KINDS,
}


def ask(rounds: int) -> dict[str, Any]:
    """Return every witness's report once it has compared everything `rounds` times more."""
    first: dict[str, int] = {}
    while True:
        told = {path.name.partition("-")[2]: _read(path) for path in STATUS.glob("witness-*")}
        for kind, said in told.items():
            first.setdefault(kind, said["rounds"])
            if not Path(f"/proc/{said['pid']}").exists() or _state(said["pid"]) == "Z":
                said["first"], said["wrong"] = said["first"] or "it has ended", said["wrong"] + 1
                return told
        if all(said["wrong"] or said["rounds"] >= first[kind] + rounds for kind, said in told.items()):
            return told
        time.sleep(0.002)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _read(path: Path) -> dict[str, Any]:
    while True:
        try:
            return dict(json.loads(path.read_text()))
        except ValueError:  # it is being written
            time.sleep(0)


def main(arguments: list[str]) -> None:
    if arguments[0] == "ask":
        sys.stdout.write(json.dumps(ask(int(arguments[1]))))
        return
    kind, folder = arguments[0], Path(arguments[1]) / arguments[0]
    folder.mkdir(parents=True)
    KINDS[kind](folder, Status(kind))


if __name__ == "__main__":
    main(sys.argv[1:])
