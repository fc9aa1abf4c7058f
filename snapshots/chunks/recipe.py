"""Recipes: the places of the pages of a snapshot's files.

One file next to the manifest, checked by a digest of itself. It names its snapshot, so that it cannot stand
in for a different snapshot's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import zstandard
from blake3 import blake3

from holdfast.base import private_files
from holdfast.snapshots.checkpointer.record.earlier_names import is_earlier, name_before
from holdfast.snapshots.chunks.packs import NOWHERE, PAGE, PAGES, PageRun

FILE = "recipe"
MAGIC = b"holdfast recipe\n"
_CHECK = 32
FRAME_HEADER = 18
"""Most bytes of a zstd frame's header, which tells the size of the text (RFC 8878)."""
MAX_BYTES = 1 << 30
PACK_NAME = re.compile(r"[0-9a-f]{1,64}")
GUIDE_BYTES = 2 << 20
"""Most text of a recipe that is held while another is made: about 200 000 runs, which take 50 MB."""


PARTS = f".{FILE}.*.part"
"""The file left by a process that is killed while it writes a recipe."""


class RecipeDamaged(Exception):
    """A recipe differs from its written form. The message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """One file: its size, and the places of its pages, in order."""

    bytes: int
    runs: tuple[PageRun, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """All files of a snapshot that are stored in packs, by their names below its folder."""

    snapshot: str
    files: dict[str, RecipeFile]

    def packs(self) -> set[str]:
        """Return the packs it needs."""
        return {run.pack for file in self.files.values() for run in file.runs} - {NOWHERE}


def write(folder: Path, recipe: Recipe) -> None:
    """Write a recipe into a snapshot's folder, durably and in one step.

    Raises:
        OSError: it cannot be written.
    """
    private_files.replace(folder / FILE, _packed(_fields(recipe)))


def pass_on(source: Path, snapshot: str, folder: Path, new: str) -> set[str] | None:
    """Copy a snapshot's recipe into the folder of a new, identical one; it is not durable yet.

    Returns the names of the files it covers; None if there is no recipe.

    Raises:
        RecipeDamaged: the recipe is damaged.
        OSError: it cannot be written.
    """
    fields = _kept(source, snapshot)
    if fields is None:
        return None
    (folder / FILE).write_bytes(_packed({**fields, "snapshot": new}))
    files = fields["files"]
    return {str(name) for name in files} if isinstance(files, dict) else None


def linked(folder: Path, parent: Recipe | None, names: Iterable[str]) -> dict[str, RecipeFile]:
    """Return the files that are links to files of the parent, with their places: nothing of them is read.

    Unwritten memory is shared like that (`earlier_memory.py`).
    """
    found: dict[str, RecipeFile] = {}
    if parent is None:
        return found
    for name in names:
        above, _, own = name.rpartition("/")
        before = f"{above}/{name_before(own)}" if is_earlier(own) else name
        known = parent.files.get(before)
        with suppress(OSError):
            if known is not None and (folder / name).samefile(folder.parent / parent.snapshot / before):
                found[name] = known
    return found


def _fields(recipe: Recipe) -> dict[str, object]:
    packs = sorted(recipe.packs() | {NOWHERE})
    numbers = {pack: number for number, pack in enumerate(packs)}
    return {
        "snapshot": recipe.snapshot,
        "packs": packs,
        "files": {
            name: [file.bytes, [part for run in file.runs for part in _triple(run, numbers)]]
            for name, file in recipe.files.items()
        },
    }


def _packed(fields: Mapping[str, object]) -> bytes:
    text = json.dumps(fields, separators=(",", ":")).encode()
    data = MAGIC + zstandard.ZstdCompressor(level=3).compress(text)
    return data + blake3(data).digest()


def read(folder: Path, snapshot: str | None = None) -> Recipe | None:
    """Read the recipe in a folder; return None if there is none.

    Raises:
        RecipeDamaged: it cannot be read or is not valid.
    """
    fields = _kept(folder, snapshot)
    try:
        return None if fields is None else _recipe(fields)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise RecipeDamaged("its recipe is not valid") from error


def guide(folder: Path, snapshot: str) -> Recipe | None:
    """Return a recipe as a guide to a similar snapshot's; None if it is of no use.

    It can be missing or damaged, or in too many pieces to be held in memory.
    """
    try:
        with (folder / FILE).open("rb") as file:
            head = file.read(len(MAGIC) + FRAME_HEADER)
        if not 0 <= zstandard.frame_content_size(head[len(MAGIC) :]) <= GUIDE_BYTES:
            return None
        return read(folder, snapshot)
    except (OSError, zstandard.ZstdError, RecipeDamaged):
        return None


def _kept(folder: Path, snapshot: str | None) -> dict[str, object] | None:
    """Return the content of a recipe, checked only for being intact and for belonging to this snapshot."""
    try:
        data = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecipeDamaged(f"its recipe cannot be read ({error.strerror})") from error
    body, check = data[:-_CHECK], data[-_CHECK:]
    if not body.startswith(MAGIC) or blake3(body).digest() != check:
        raise RecipeDamaged("its recipe is damaged")
    try:
        text = zstandard.ZstdDecompressor().decompress(body[len(MAGIC) :], max_output_size=MAX_BYTES)
        value = json.loads(text)
        whose = str(value["snapshot"])
    except (zstandard.ZstdError, ValueError, TypeError, KeyError) as error:
        raise RecipeDamaged("its recipe is not valid") from error
    if snapshot is not None and whose != snapshot:
        raise RecipeDamaged(f"its recipe belongs to {whose[:64]}")
    return dict(value)


def _triple(run: PageRun, numbers: dict[str, int]) -> tuple[int, int, int]:
    return numbers[run.pack], run.first, run.count


def _recipe(fields: dict[str, object]) -> Recipe:
    """Return a recipe in which every place can exist: the files of a home are readable, but not trusted."""
    packs, listed = fields["packs"], fields["files"]
    if not isinstance(packs, list) or not isinstance(listed, dict):
        raise ValueError("form")
    if not all(isinstance(name, str) and (name == NOWHERE or PACK_NAME.fullmatch(name)) for name in packs):
        raise ValueError("packs")
    return Recipe(str(fields["snapshot"]), {str(name): _file(packs, *told) for name, told in listed.items()})


def _file(packs: list[str], size: int, parts: list[int]) -> RecipeFile:
    if not isinstance(parts, list) or not all(type(number) is int for number in (size, *parts)):
        raise ValueError("numbers")
    runs, pages = [], 0
    for number, first, count in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
        if not 0 <= number < len(packs) or first < 0 or count < 1:
            raise ValueError("run")
        pack = packs[number]
        if first + (0 if pack == NOWHERE else count) > PAGES:
            raise ValueError("run")
        runs.append(PageRun(pack, first, count))
        pages += count
    if size < 0 or pages != -(-size // PAGE):
        raise ValueError("pages")
    return RecipeFile(size, tuple(runs))
