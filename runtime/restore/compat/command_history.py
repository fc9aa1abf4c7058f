"""The history of a session since its processes began, from its journal: for restores of files only.

Commands, cells and jobs in order, with their results, and with the input that the terminal showed; hidden
input is left out. `commands.json` in a snapshot's folder has the same for machines without the journal: it is
written when the snapshot is exported, and read as untrusted input. `shell_script` makes a bash script of it,
to be read, changed and sourced, so that directories and variables stay; nothing runs it automatically.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import lines, plain
from holdfast.runtime.journal import journal_query
from holdfast.runtime.store.timelines import journal_of

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.entry import Entry
    from holdfast.runtime.store.rows import SnapshotRow

FILE = "commands.json"
MOST = 1000
TEXT = 64 << 10
TYPED = 20
"""The most pieces of input kept for one command."""
MAX_FILE = 4 << 20
_TEXTS = {"command_started": "command", "cell_started": "code", "job_started": "command"}
_KINDS = {"command_started": "command", "cell_started": "cell", "job_started": "job"}
_ENDS = {"command_ended", "cell_ended", "job_ended"}
PATH = "/var/lib/holdfast/recorded-commands.sh"

_HEAD = f"""\
# Commands of the session that these files come from, in order. None of them was run here.
# The files already have their results: most need not be run again, and some should not be.
# Copy the ones you want, or run all of them in this shell: . {PATH}
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A `command` of a shell, a `cell` of a kernel, or a `job`.

    `place` is the shell, the kernel, or the job's name; `at` is in Unix seconds. `result` is the exit code
    or the cell's status, None if it had not ended. `typed` is its input at the terminal, with None for each
    piece that was hidden. `cut`: the text is truncated.
    """

    kind: str
    text: str
    place: str = ""
    at: float = 0.0
    actor: str = ""
    result: int | str | None = None
    typed: tuple[str | None, ...] = ()
    cut: bool = False


def recorded(context: Context, snapshot: SnapshotRow) -> list[Recorded]:
    """Return the commands run up to a snapshot since its processes began: the last `MOST`, oldest first."""
    kept = context.home.snapshots / snapshot.id / FILE
    if kept.is_file() and not kept.is_symlink():
        with kept.open("rb") as stream:
            return parse(stream.read(MAX_FILE + 1))
    last = snapshot.details.moment.journal_seq
    entries = journal_query.read(context, journal_of(snapshot), journal_query.Filter())
    until = snapshot.created_at.timestamp()
    return of_entries(
        entry for entry in entries if (entry.at <= until if last is None or entry.host else entry.seq <= last)
    )


def write(context: Context, snapshot: SnapshotRow, folder: Path) -> bool:
    """Write the history into a folder for machines without the journal; False if it is empty."""
    found = recorded(context, snapshot)
    if found:
        (folder / FILE).write_bytes(dumps(found))
    return bool(found)


def of_entries(entries: Iterable[Entry]) -> list[Recorded]:
    """Return the history from the entries of a journal's line, in order. Pure."""
    found: dict[str, dict[str, Any]] = {}
    running: dict[tuple[str, str], str] = {}
    for entry in entries:
        fields = entry.details
        begins = entry.kind in ("woken", "restarted") and fields.get("begins")
        if begins or (entry.host and fields.get("only")):
            found, running = {}, {}  # its processes began here
        elif entry.host:
            continue
        elif entry.kind in _KINDS:
            ident = str(fields.get("id"))
            where = _where(fields)
            running[where] = ident
            found[ident] = _begun(entry, where[1])
        elif entry.kind in _ENDS and (one := found.get(str(fields.get("id")))) is not None:
            one["result"] = _result(fields)
            running = {where: ident for where, ident in running.items() if ident != str(fields.get("id"))}
        elif entry.kind == "input" and (one := found.get(running.get(_where(fields), ""))) is not None:
            shown = None if fields.get("hidden") else _text(fields.get("text"), 1000)
            one["typed"] = (*one["typed"], shown)[-TYPED:]
    return [Recorded(**one) for one in list(found.values())[-MOST:]]


def dumps(found: Sequence[Recorded]) -> bytes:
    """Encode the history as JSON; only the newest if not all fits."""
    rows = [asdict(one) for one in found]
    while True:
        data = json.dumps({"format": 1, "commands": rows}, ensure_ascii=False, sort_keys=True).encode(
            "utf-8", "replace"
        )
        if len(data) <= MAX_FILE:
            return data
        rows = rows[len(rows) // 2 :] if len(rows) > 1 else []


def parse(data: bytes) -> list[Recorded]:
    """Read a history from an untrusted file; invalid records are left out."""
    if len(data) > MAX_FILE:
        return []
    try:
        history = json.loads(data)
        rows = history["commands"] if isinstance(history, dict) else []
    except (ValueError, RecursionError, KeyError):
        return []
    found = [_checked(row) for row in rows[-MOST:]] if isinstance(rows, list) else []
    return [one for one in found if one is not None]


def _begun(entry: Entry, place: str) -> dict[str, Any]:
    whole = entry.details.get(_TEXTS[entry.kind])
    text = _text(whole if isinstance(whole, str) else "", TEXT)
    cut = not isinstance(whole, str) or len(whole) > TEXT or "cut" in entry.details
    begun: dict[str, Any] = {"kind": _KINDS[entry.kind], "text": text, "place": place, "at": entry.at}
    return {**begun, "actor": plain(entry.actor or "", 80), "typed": (), "result": None, "cut": cut}


def _where(fields: Mapping[str, Any]) -> tuple[str, str]:
    kind = next((name for name in ("shell", "kernel", "name") if fields.get(name)), "")
    return kind, plain(str(fields.get(kind, "")), 100)


def _result(fields: Mapping[str, Any]) -> int | str | None:
    value = fields.get("status", fields.get("exit_code"))
    return plain(value, 40) if isinstance(value, str) else value if isinstance(value, int) else None


def _text(value: object, limit: int) -> str:
    text = value if isinstance(value, str) else ""
    return lines(text[:limit])


def _checked(row: object) -> Recorded | None:
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        return None
    if row.get("kind") not in list(_KINDS.values()):
        return None
    values = row.get("typed")
    typed = values if isinstance(values, list) else []
    at = row.get("at")
    return Recorded(
        kind=str(row["kind"]),
        text=_text(row["text"], TEXT),
        place=plain(str(row.get("place", "")), 100),
        at=float(at) if isinstance(at, int | float) and 0 <= at < 1e11 else 0.0,
        actor=plain(str(row.get("actor", "")), 80),
        result=_result({"status": row.get("result")}),
        typed=tuple(None if one is None else _text(one, 1000) for one in typed[-TYPED:]),
        cut=bool(row.get("cut")) or len(row["text"]) > TEXT,
    )


def shell_script(found: Sequence[Recorded], source: str) -> str:
    """Return the text of the script; `source` is the snapshot's name."""
    parts = [f"# Of snapshot {plain(source, 100)}.\n{_HEAD}"]
    parts += [_one(number, each) for number, each in enumerate(found, start=1)]
    return "\n".join(parts)


def _one(number: int, one: Recorded) -> str:
    when = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"# {number}. {when} UTC, {plain(one.actor, 80) or 'unknown'}: {_came_to(one)}"]
    lines += [f"#    input: {_given(piece)}" for piece in one.typed]
    text = one.text.rstrip("\n")
    if one.kind == "cell":
        lines += [f"#    a cell of kernel {plain(one.place)}:", *_commented(text)]
    elif one.cut:
        lines += ["#    truncated:", *_commented(text)]
    elif one.kind == "job":
        lines += [f"#    apart from the shell, as job {plain(one.place)}:", *_commented(text)]
    elif one.place not in ("", "main"):
        lines += [f"#    in shell {plain(one.place)}:", *_commented(text)]
    else:
        lines.append(text)
    return "\n".join(lines) + "\n"


def _came_to(one: Recorded) -> str:
    if one.result is None:
        return "had not ended"
    return f"exit {one.result}" if isinstance(one.result, int) else plain(one.result, 40)


def _given(piece: str | None) -> str:
    return "something hidden" if piece is None else plain(piece.rstrip("\n"), 300)


def _commented(text: str) -> list[str]:
    return [f"#    {line}" for line in text.splitlines()]
