"""Recipes: where the pages of a snapshot's files are.

One file beside the manifest, checked by a digest of itself. It names its snapshot, so that it cannot stand in
for another one's.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import zstandard
from blake3 import blake3

from holdfast.snapshots.chunks.pack_writer import sync_folder
from holdfast.snapshots.chunks.pages import NOWHERE, PAGE, Run

FILE = "recipe"
MAGIC = b"holdfast recipe\n"
_CHECK = 32
MAX_BYTES = 1 << 30


class RecipeDamaged(Exception):
    """A recipe is not as it was written. The message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class File:
    """One file: its size, and where its pages are, in order."""

    bytes: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """All files of a snapshot that are kept in packs, by their names below its folder."""

    snapshot: str
    files: dict[str, File]

    def packs(self) -> set[str]:
        """The packs it needs."""
        return {run.pack for file in self.files.values() for run in file.runs} - {NOWHERE}


def write(folder: Path, recipe: Recipe) -> None:
    """Put a recipe into a snapshot's folder, durably and in one step. Raises OSError."""
    packs = sorted(recipe.packs() | {NOWHERE})
    numbers = {pack: number for number, pack in enumerate(packs)}
    told = {
        "snapshot": recipe.snapshot,
        "packs": packs,
        "files": {
            name: [file.bytes, [part for run in file.runs for part in _triple(run, numbers)]]
            for name, file in recipe.files.items()
        },
    }
    text = json.dumps(told, separators=(",", ":")).encode()
    data = MAGIC + zstandard.ZstdCompressor(level=3).compress(text)
    new = folder / f".{FILE}.part"
    with new.open("wb") as file:
        file.write(data + blake3(data).digest())
        file.flush()
        os.fsync(file.fileno())
    new.rename(folder / FILE)
    sync_folder(folder)


def read(folder: Path, snapshot: str | None = None) -> Recipe | None:
    """The recipe in a folder, None if there is none. Raises RecipeDamaged."""
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
        recipe = _recipe(json.loads(text))
    except (zstandard.ZstdError, ValueError, TypeError, KeyError, IndexError) as error:
        raise RecipeDamaged("its recipe is not valid") from error
    if snapshot is not None and recipe.snapshot != snapshot:
        raise RecipeDamaged(f"its recipe is that of {recipe.snapshot[:64]}")
    return recipe


def _triple(run: Run, numbers: dict[str, int]) -> tuple[int, int, int]:
    return numbers[run.pack], run.first, run.count


def _recipe(told: dict[str, object]) -> Recipe:
    packs, listed = told["packs"], told["files"]
    if not isinstance(packs, list) or not isinstance(listed, dict):
        raise ValueError("form")
    files = {}
    for name, (size, parts) in listed.items():
        triples = zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
        runs = tuple(Run(packs[number], first, count) for number, first, count in triples)
        if sum(run.count for run in runs) != -(-size // PAGE):
            raise ValueError("pages")
        files[str(name)] = File(size, runs)
    return Recipe(str(told["snapshot"]), files)
