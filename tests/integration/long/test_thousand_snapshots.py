"""A thousand snapshots of one session in a row: the last costs what the tenth does, and each is there.

Costs are counts of this process and of the engine, never seconds: requests, opened files, bytes read.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.packing import ended, settled

from holdfast import Holdfast, Session, Snapshot
from holdfast.snapshots import manifest

pytestmark = pytest.mark.timeout(4 * 3600)

COUNT = int(os.environ.get("HOLDFAST_TEST_CHAIN", "1000"))
EARLY = 10
"""The snapshot with which the later ones are compared: by then everything that is done once has been."""
_NAMES = re.compile(r"[0-9a-f]{8,64}|[0-9]+")
_LISTENING: list[Counter[str]] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _LISTENING and event in ("open", "os.listdir", "os.scandir", "os.link", "os.rename"):
        _LISTENING[-1][f"{event} {_NAMES.sub('*', str(arguments[0]))}"] += 1


sys.addaudithook(_listen)


@dataclass(slots=True)
class Cost:
    """The cost of one act: requests to the engine, events of files by name, and the bytes read here."""

    asked: list[str] = field(default_factory=list)
    files: Counter[str] = field(default_factory=Counter)
    read: int = 0


@contextmanager
def counted(hf: Holdfast) -> Iterator[Cost]:
    """Count the costs of a block; names of sessions, snapshots and layers count as equal."""
    cost = Cost()
    api: Any = hf.engine.client.api
    send = api.send

    def noted(request: Any, **options: Any) -> Any:
        cost.asked.append(f"{request.method} {_NAMES.sub('*', request.path_url)}")
        return send(request, **options)

    api.send = noted
    before = _read()
    _LISTENING.append(cost.files)
    try:
        yield cost
    finally:
        _LISTENING.pop()
        cost.read = _read() - before
        del api.send
    # What the engine reports of itself is asked again when it is five seconds old.
    cost.asked = [one for one in cost.asked if not one.endswith("/info")]


def _read() -> int:
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].split()[0])


def _taken(hf: Holdfast, session: Session, number: int) -> Snapshot:
    session.exec(f"echo {number} > /srv/step; echo {number} >> /srv/all")
    return session.snapshot()


def _quiet(hf: Holdfast) -> None:
    """Wait until nothing is left to pack: what an image is made of is shared until then."""
    assert settled(hf.home)
    assert ended(hf.home)


def _stored(hf: Holdfast, snapshot: Snapshot) -> int:
    """Return the bytes of files that a restore of a snapshot reads."""
    return sum(entry.bytes for entry in manifest.read(hf.home.snapshots / snapshot.id).files)


def _holds(snapshot: Snapshot, number: int) -> None:
    copy = snapshot.restore()
    try:
        assert copy.cell("print(kept)").text == "1\n"
        found = copy.exec("cat /srv/step; wc -l < /srv/all").text.split()
        assert found == [str(number), str(number + 1)]
    finally:
        copy.remove()


def test_the_last_of_many_snapshots_costs_what_the_tenth_does(
    hf: Holdfast, tell: Callable[[str], None]
) -> None:
    """In requests, files and bytes read; the restore of any reads what the restore of the first does.

    Some in the middle are removed and garbage is collected: all others stay whole.
    """
    session = hf.new("chain")
    session.cell("kept = 1")
    taken: list[Snapshot] = []
    costs: dict[int, Cost] = {}
    for number in range(COUNT):
        measured = number in (EARLY, COUNT // 2, COUNT - 1)
        if measured:
            _quiet(hf)
        with counted(hf) as cost:
            taken.append(_taken(hf, session, number))
        if measured:
            costs[number] = cost
        if number % 50 == 49:
            tell(f"{number + 1} of {COUNT} snapshots")
    early = costs[EARLY]
    for number, cost in costs.items():
        assert Counter(cost.asked) == Counter(early.asked), number
        more = cost.files - early.files
        assert more.total() <= early.files.total() // 20, (number, more)
        assert cost.read <= early.read * 1.1, number
    _quiet(hf)
    restores: dict[int, Cost] = {}
    for number in (0, EARLY, COUNT // 2, COUNT - 1):
        assert _stored(hf, taken[number]) <= _stored(hf, taken[0]) * 1.1
        with counted(hf) as restores[number]:
            _holds(taken[number], number)
        assert Counter(restores[number].asked) == Counter(restores[0].asked), number
        assert restores[number].read <= restores[0].read * 1.1, number

    going = [COUNT // 2 + offset for offset in (-3, 0, 1)]
    for number in going:
        taken[number].remove()
    hf.keeping.collect_garbage()
    _quiet(hf)
    assert {each.id for each in hf.snapshots()} == {
        each.id for number, each in enumerate(taken) if number not in going
    }
    for number in (0, COUNT // 2 - 4, COUNT // 2 - 2, COUNT // 2 - 1, COUNT // 2 + 2, COUNT - 1):
        _holds(taken[number], number)
    found = hf.verify(taken[0].id, taken[COUNT // 2 - 1].id, taken[COUNT - 1].id)
    assert (found.ok, found.findings) == (True, [])
