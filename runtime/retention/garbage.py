"""Garbage collection: leftovers of removed things, found and removed one by one.

The order of the search makes it safe while other processes work: first the objects are listed, then the
rows that need them are read. A capture writes its row before its image and folder, and a removal deletes
the row last; so an object without a row in a later reading belongs to nothing. Each removal can be cut
short and repeated.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base import ballast, ids, locks
from holdfast.errors import EngineError, ImageError, SessionBusy
from holdfast.images import build
from holdfast.runtime.artifacts.artifact_store import ArtifactStore
from holdfast.runtime.egress import vault
from holdfast.runtime.lifecycle import fitting, orphan_containers
from holdfast.runtime.lifecycle.fitting import SOURCE_LABEL
from holdfast.runtime.retention import prune
from holdfast.runtime.sessions import shared_folder
from holdfast.runtime.storage import snapshot_storage
from holdfast.runtime.store.rows import FITTED, PROVIDED
from holdfast.snapshots.layer import unmade_image

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.engine.engine_images import ListedImage
    from holdfast.runtime.operations.context import Context


MOST = 100_000
"""The most files of one folder that are counted."""
OLD = timedelta(days=7)
"""Age at which images of different versions and ended operations are stale."""
IDLE_TRANSFER = 3600.0
"""Age in seconds at which an unfinished transfer from or to a registry is not resumed any more."""
_KINDS = ("session", "toolbox", "gateway", "portable")
_NAMES = frozenset({f"holdfast/{kind}:" for kind in _KINDS} | {FITTED, PROVIDED})


@dataclass(frozen=True, slots=True)
class Garbage:
    """One unneeded thing: kind, name, size in bytes if known, and why."""

    kind: str
    name: str
    why: str
    bytes: int
    remove: Callable[[], object]


def find(context: Context, older: timedelta = OLD) -> Iterator[Garbage]:
    """Yield all garbage, one by one: each item can be removed before the next is searched for."""
    yield from _expired(context)
    yield from _containers(context)
    yield from _images(context)
    yield from _folders(context)
    yield from _scratch(context)
    yield from transfers(context.home)
    yield from _pages(context)
    yield from _stale(context, older)
    yield from _rows(context, older)
    yield from _secrets(context)
    yield from _artifacts(context.home)


def collect(context: Context, *, dry_run: bool = False, older: timedelta = OLD) -> list[Garbage]:
    """Find garbage and remove it, unless it is a dry run; then also free pages of memory in packs.

    Raises:
        SessionBusy: another process is collecting.
        HoldfastError: the engine or the store does not answer. Everything removed until then was garbage.
    """
    found: list[Garbage] = []
    with (
        ballast.given_up(context.home.root),
        locks.exclusive(context.home.locks, "gc", "collect garbage"),
    ):
        for one in find(context, older):
            if not dry_run:
                with suppress(EngineError):  # in use after all
                    one.remove()
                    found.append(one)
            else:
                found.append(one)
        if not dry_run and (freed := snapshot_storage.sweep(context, deep=True).bytes):
            found.append(Garbage("pages", "of memory", "no snapshot needs them", freed, lambda: None))
    return found


def _expired(context: Context) -> Iterator[Garbage]:
    """Yield expired snapshots; their pages of memory are swept at the end."""
    for session, row in prune.overdue(context):
        removal = partial(prune.let_go_untidily, context, row)
        yield Garbage("snapshot", row.name, f"expired, of session {session.name}", row.bytes, removal)


def _pages(context: Context) -> Iterator[Garbage]:
    """Yield pages of memory in packs, including just freed ones."""
    wasted = snapshot_storage.waste(context)
    if wasted:
        sweep = partial(snapshot_storage.sweep, context, deep=True)
        yield Garbage("pages", "in packs", "no snapshot needs them", wasted, sweep)


def _containers(context: Context) -> Iterator[Garbage]:
    """Yield containers of sessions that have another container, or do not exist."""
    for container in orphan_containers.unowned(context):
        remove = partial(context.engine.kill_remove, container)
        yield Garbage("container", container[:12], "no session uses it", 0, remove)


def _images(context: Context) -> Iterator[Garbage]:
    """Yield images of snapshots that do not exist."""
    remove = context.engine.images.remove
    for image in snapshot_storage.unneeded_images(context):
        name = image.tags[0] if image.tags else image.id[7:19]
        yield Garbage("image", name, "its snapshot was removed", 0, partial(remove, image.id))


def _stale(context: Context, older: timedelta) -> Iterator[Garbage]:
    """Yield images that a different version built, and archives of the portable guest."""
    for tag, size in _stale_images(context, older):
        yield Garbage("image", tag, "from an older version", size, partial(context.engine.images.untag, tag))
    for path in fitting.unused_archives(context.home, older.total_seconds()):
        name = str(path.relative_to(context.home.root))
        yield Garbage("file", name, "no image was adapted with it lately", _size(path), _removal(path))


def _folders(context: Context) -> Iterator[Garbage]:
    home, store = context.home, context.store
    places: tuple[tuple[Path, str, Callable[[], set[str]]], ...] = (
        (
            home.snapshots,
            "its snapshot was removed",
            lambda: {row.id for row in store.snapshots(pending=True)},
        ),
        (home.staging, "its operation ended", lambda: {row.id for row in store.operations.open()}),
        (home.run, "its session was removed", lambda: _running(context)),
        (home.intents, "its session was removed", lambda: {row.id for row in store.sessions(removed=True)}),
        (home.metrics, "its session was removed", lambda: _running(context)),
    )
    for folder, why, needed in places:
        seen = sorted(folder.iterdir())
        known = needed()
        for path in seen:
            if path.name.split(".")[0] not in known:
                removal = _removal(path) if folder != home.run else _run_removal(context, path)
                if (path / unmade_image.FOLDER).is_dir():
                    removal = _unmade_removal(context, path)
                yield Garbage("folder", f"{folder.name}/{path.name}", why, _size(path), removal)
    locked = sorted(path.stem for path in home.locks.glob("*.lock"))
    known = {row.id for row in store.sessions()}
    known |= {f"snapshot-{row.id}" for row in store.snapshots(pending=True)}
    for name in locked:
        if re.fullmatch(ids.ID, name.removeprefix("snapshot-")) and name not in known:
            yield Garbage("lock", name, "its subject was removed", 0, _unlocked(home.locks, name))


def _running(context: Context) -> set[str]:
    # In this order: what is made for the pool waits next, and is a session later.
    made = {row.session_id for row in context.store.operations.open() if row.session_id is not None}
    waiting = {row.id for row in context.store.waiting.all()}
    return made | waiting | {row.id for row in context.store.sessions()}


def _scratch(context: Context) -> Iterator[Garbage]:
    """Yield leftovers of restores that no checkpointer serves any more."""
    home = context.home
    seen = sorted((home.root / "scratch").glob("*")) + sorted((home.root / "checkpointer").glob("*"))
    if context.engine.containers(holdfast_home=home.digest, holdfast_role="checkpointer"):
        return
    for path in seen:
        yield Garbage(
            "folder", str(path.relative_to(home.root)), "no checkpointer runs", _size(path), _removal(path)
        )


def transfers(home: Home) -> Iterator[Garbage]:
    """Yield transfers from or to registries that will not be resumed."""
    root = home.root
    for path in [*sorted(root.glob("downloads/*")), *sorted(root.glob("uploads/*"))]:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > IDLE_TRANSFER:
                yield Garbage(
                    "file", str(path.relative_to(root)), "a registry has it", _size(path), _removal(path)
                )


def _rows(context: Context, older: timedelta) -> Iterator[Garbage]:
    before = datetime.now(UTC) - older
    operations = context.store.operations
    count = operations.count_ended(before)
    if count:
        yield Garbage(
            "rows", f"{count} operations", "ended long ago", 0,
            partial(operations.forget_ended, before),
        )  # fmt: skip


def _secrets(context: Context) -> Iterator[Garbage]:
    for placeholder in vault.unneeded(context):
        removal = partial(vault.forget_value, context.home, placeholder)
        yield Garbage("secret", placeholder[-8:], "no session and no snapshot uses it", 0, removal)


def _artifacts(home: Home) -> Iterator[Garbage]:
    """Yield contents of artifacts that were removed, or never registered."""
    store = ArtifactStore(home)
    for path in store.unneeded():
        why = "no artifact refers to it"
        yield Garbage("artifact", path.name[:12], why, _size(path), partial(store.collect, path))


def _removal(path: Path) -> Callable[[], object]:
    def remove() -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    return remove


def _unmade_removal(context: Context, path: Path) -> Callable[[], object]:
    """Remove the folder of a snapshot whose name in the engine still belongs to the image below."""

    def remove() -> None:
        unmade_image.release(path)
        with suppress(EngineError, ImageError):
            context.engine.images.remove(snapshot_storage.image_ref(path.name))
        shutil.rmtree(path, ignore_errors=True)

    return remove


def _run_removal(context: Context, path: Path) -> Callable[[], object]:
    return lambda: shared_folder.remove(context.engine, context.home, path.name)


def _unlocked(folder: Path, name: str) -> Callable[[], object]:
    def remove() -> None:
        with suppress(SessionBusy), locks.exclusive(folder, name, "collect garbage"):
            locks.discard(folder, name)

    return remove


def _size(path: Path) -> int:
    total = 0
    with suppress(OSError):
        below = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
        for each in islice(chain((path,), below), MOST):
            total += each.lstat().st_blocks * 512
    return total


def stale(image: ListedImage, needed: frozenset[str], used: frozenset[str], before: float) -> list[str]:
    """Return the tags of an image that can be removed. Pure.

    Args:
        image: the engine's listing of it.
        needed: tags that this version or a session of this home wants.
        used: ids and names of images that containers were made from.
        before: Unix seconds; images made later stay.
    """
    tags = set(image.tags)
    ours = [tag for tag in image.tags if f"{tag.rpartition(':')[0]}:" in _NAMES]
    if len(ours) != len(tags) or image.id in used or used & tags or needed & tags:
        return []
    return ours if 0 < image.created < before else []


def _stale_images(context: Context, older: timedelta) -> Iterator[tuple[str, int]]:
    """Yield the tags that can be removed, with the bytes of their images."""
    engine = context.engine
    listed, used = engine.images.listed(), engine.images_in_use()
    sessions = context.store.sessions()
    wanted = {build.reference(kind) for kind in _KINDS}
    wanted |= {name for row in sessions for name in (row.image, row.image_name)}
    now, there = time.time(), {image.id for image in listed}
    for image in listed:
        source = image.labels.get(SOURCE_LABEL)
        before = now if source is not None and source not in there else now - older.total_seconds()
        for tag in stale(image, frozenset(wanted), used, before):
            yield tag, image.size
