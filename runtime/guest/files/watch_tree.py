"""Which folder each watch of the kernel stands for, as a tree of names. Pure."""

from __future__ import annotations

from collections.abc import Iterator


class WatchTree:
    """The watched folders by the numbers of their watches. Paths are relative to the root, which is ''."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._places: dict[int, tuple[int, str]] = {}
        self._below: dict[int, dict[str, int]] = {root: {}}

    def __len__(self) -> int:
        return len(self._below)

    def __contains__(self, watch: int) -> bool:
        return watch in self._below

    def child(self, parent: int, name: str) -> int | None:
        """Return the watch of a folder in a folder."""
        return self._below.get(parent, {}).get(name)

    def place(self, watch: int, parent: int, name: str) -> None:
        """Put a folder, with what is below it, at a place.

        Raises:
            ValueError: it would be inside itself, or its parent is not known.
        """
        if parent not in self._below or watch in self._above(parent):
            raise ValueError("a folder cannot be inside itself")
        self._detach(watch)
        self._below[parent][name] = watch
        self._places[watch] = (parent, name)
        self._below.setdefault(watch, {})

    def drop(self, watch: int) -> list[int]:
        """Forget a folder and all below it; return their watches."""
        self._detach(watch)
        dropped, left = [], [watch]
        while left:
            here = left.pop()
            below = self._below.pop(here, None)
            if below is None:
                continue
            self._places.pop(here, None)
            dropped.append(here)
            left += below.values()
        return dropped

    def path(self, watch: int, name: str = "") -> str:
        """Return the path of a folder, or of a name in it."""
        names = [name] if name else []
        while watch != self.root:
            watch, name = self._places[watch]
            names.append(name)
        return "/".join(reversed(names))

    def _above(self, watch: int) -> Iterator[int]:
        yield watch
        while watch != self.root:
            watch = self._places[watch][0]
            yield watch

    def _detach(self, watch: int) -> None:
        if watch in self._places:
            parent, name = self._places.pop(watch)
            if self._below.get(parent, {}).get(name) == watch:
                del self._below[parent][name]
