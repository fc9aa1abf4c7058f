"""An engine in memory, for tests of its users: containers and images as an engine lists them.

`contract.py` compares it with the real engine. Missing features raise AttributeError: it has no client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.engine.container_files import ContainerFiles
from holdfast.engine.container_state import ContainerState
from holdfast.engine.engine import Engine
from holdfast.engine.engine_images import EngineImages, ListedImage
from holdfast.engine.engine_layers import EngineLayers
from holdfast.errors import EngineError, ImageError


class FakeImages(EngineImages):
    """Images by id, each with its labels and its tags."""

    def __init__(self) -> None:
        self.labels: dict[str, dict[str, str]] = {}
        self.tags: dict[str, list[str]] = {}
        self.configs: dict[str, dict[str, Any]] = {}

    def add(self, identity: str, *tags: str, **labels: str) -> None:
        self.labels[identity] = {key.replace("_", "."): value for key, value in labels.items()}
        self.tags[identity] = list(tags)

    def inspect(self, ref: str) -> dict[str, Any] | None:
        identity = next((key for key, tags in self.tags.items() if ref == key or ref in tags), None)
        if identity is None:
            return None
        return {
            "Id": identity,
            "Size": 1,
            "Config": {"Labels": self.labels[identity], **self.configs.get(identity, {})},
        }

    def described(self, ref: str) -> dict[str, Any]:
        found = self.inspect(ref)
        if found is None:
            raise ImageError(f"cannot inspect image: no such image: {ref}")
        return found

    def listed(self, **labels: str) -> list[ListedImage]:
        return [
            ListedImage(identity, tuple(self.tags[identity]), has, 1, 1.0)
            for identity, has in self.labels.items()
            if _fits(has, labels)
        ]

    def layers(self, ref: str) -> list[Path]:
        return []

    def tag(self, ref: str, name: str) -> None:
        self.tags[str(self.described(ref)["Id"])].append(name)

    def untag(self, ref: str) -> None:
        for identity, tags in list(self.tags.items()):
            if ref in tags:
                tags.remove(ref)
                if not tags:
                    self.remove(identity)

    def remove(self, ref: str) -> bool:
        found = self.inspect(ref)
        if found is not None:
            del self.labels[found["Id"]], self.tags[found["Id"]]
        return found is not None


class FakeFiles(ContainerFiles):
    """Files by container and path."""

    def __init__(self) -> None:
        self.contents: dict[tuple[str, str], bytes] = {}

    def read(self, container_id: str, path: str, limit: int = 1 << 20) -> bytes:
        return self.contents.get((container_id, path), b"")[-limit:]


class FakeLayers(EngineLayers):
    """Layers of an engine of this description; it has no containers that lead to their folders."""

    def __init__(self, info: Callable[[], dict[str, Any]]) -> None:
        self._described = info

    def _info(self) -> dict[str, Any]:
        return self._described()

    def _pids(self) -> Iterator[int]:
        return iter(())


class FakeEngine(Engine):
    """Containers by id, each with its name and its state.

    A container whose name is in `coming` is one that the engine is still making: it appears, under the id
    `c-late`, when its name was asked for three times.
    """

    def __init__(self) -> None:
        self.images: FakeImages = FakeImages()
        self.layers = FakeLayers(self.info)
        self.states: dict[str, ContainerState] = {}
        self.names: dict[str, str] = {}
        self.files: FakeFiles = FakeFiles()
        self.unpaused: list[str] = []
        self.coming: dict[str, dict[str, str]] = {}
        self.refused = 0
        self.asked: list[str] = []
        """What was done with containers, in order."""

    @property
    def socket(self) -> str:
        return ""

    def close(self) -> None:
        self.asked.append("close")

    def info(self) -> dict[str, Any]:
        return {"Driver": "overlay2", "DockerRootDir": "/nonexistent", "ServerVersion": "0"}

    def container(self, identity: str, *, running: bool = True, paused: bool = False, **labels: str) -> None:
        """Have a container of this id and name."""
        dotted = {key.replace("_", "."): value for key, value in labels.items()}
        self.names[identity] = identity
        self.states[identity] = ContainerState(identity, running, paused, 1, 137, dotted, "i", False)

    def create_session_container(self, **options: Any) -> str:
        if options["name"] in self.names.values():
            raise EngineError(f"cannot create container: the name {options['name']} is in use")
        image = str(self.images.described(options["image"])["Id"])
        return self._add(uuid4().hex, options["name"], image, options.get("labels") or {})

    def reserve(self, name: str, image: str, labels: Mapping[str, str]) -> str | None:
        if name in self.coming:
            self.refused += 1
            if self.refused == 3:
                self._add("c-late", name, image, self.coming.pop(name))
            return None
        if name in self.names.values():
            return None
        return self._add(name, name, image, labels)

    def start(self, container_id: str) -> None:
        self._change("start", container_id, running=True, pid=1)

    def rename(self, container_id: str, name: str) -> None:
        self._change("rename", container_id)
        self.names[container_id] = name

    def pause(self, container_id: str) -> None:
        self._change("pause", container_id, paused=True)

    def unpause(self, container_id: str) -> None:
        self._change("unpause", container_id, paused=False)
        self.unpaused.append(container_id)

    def inspect(self, container_id: str) -> ContainerState | None:
        named = (key for key, name in self.names.items() if name == container_id)
        return self.states.get(container_id) or self.states.get(next(named, ""))

    def inspect_with_layers(self, container_id: str) -> tuple[ContainerState, list[Path]] | None:
        found = self.inspect(container_id)
        return None if found is None else (found, [])

    def logs(self, container_id: str) -> bytes:
        return b""

    def containers(self, **labels: str) -> dict[str, dict[str, str]]:
        return {key: dict(state.labels) for key, state in self.states.items() if _fits(state.labels, labels)}

    def running(self, **labels: str) -> set[str]:
        return {key for key in self.containers(**labels) if self.states[key].running}

    def kill_remove(self, container_id: str) -> bool:
        state = self.inspect(container_id)
        if state is None:
            return False
        self.asked.append(f"remove {state.id}")
        del self.states[state.id], self.names[state.id]
        return True

    def _add(self, identity: str, name: str, image: str, labels: Mapping[str, str]) -> str:
        self.asked.append(f"create {name}")
        self.names[identity] = name
        self.states[identity] = ContainerState(identity, False, False, 0, 0, dict(labels), image, False)
        return identity

    def _change(self, what: str, container_id: str, **changes: Any) -> None:
        state = self.inspect(container_id)
        if state is None:
            raise EngineError(f"cannot {what} container: no such container: {container_id}")
        self.asked.append(f"{what} {state.id}")
        self.states[state.id] = replace(state, **changes)


def _fits(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key.replace("_", ".")) == value for key, value in wanted.items())
