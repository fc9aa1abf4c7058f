"""Packages beyond the session image that some projects and programs need: an image for each set.

Each is made from the session image when it is first needed, and named by its content like all others
(`images/build.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast import Holdfast
from holdfast.errors import InvalidArgument
from holdfast.images import build
from holdfast.images.build_context import BuildContext, ContextFile, tree

KIND = "programs"
_RECIPE = Path(__file__).parent / "stack_image"


@dataclass(frozen=True, slots=True)
class Stack:
    """The packages to install, by package manager, and the commands that are run once after that."""

    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    once: str = ""


STACKS: Mapping[str, Stack] = {
    "tools": Stack(apt=("vim", "sqlite3", "bubblewrap", "fuse3", "fuse-zip", "zip", "fio"), pip=("ipdb",)),
    "science": Stack(apt=("python3-numpy", "python3-pandas", "python3-matplotlib")),
    "services": Stack(apt=("postgresql", "redis-server", "nginx-light")),
    "node": Stack(
        apt=("nodejs", "npm"),
        npm=(
            "vite@6",
            "nodemon@3",
            "webpack@5",
            "webpack-cli@6",
            "jest@29",
            "@parcel/watcher@2",
            "typescript@5",
            "pnpm@9",
            "bun@1",
        ),
    ),
    # The cache of compiled packages: each program is then compiled in seconds.
    "go": Stack(apt=("golang-go",), once="GOFLAGS=-mod=mod go build net/http"),
    "java": Stack(apt=("default-jdk-headless",)),
    "rust": Stack(apt=("rustc", "cargo")),
    "chromium": Stack(apt=("chromium", "chromium-sandbox"), pip=("playwright",)),
    "everyday": Stack(
        apt=("cron", "erlang-base", "inotify-tools", "mariadb-server"),
        pip=("scikit-learn", "gunicorn", "uvicorn", "watchfiles"),
    ),
}


def context(name: str, environ: Mapping[str, str] = os.environ) -> BuildContext:
    """Return the content of a stack's image.

    Raises:
        InvalidArgument: the stack does not exist.
    """
    stack = STACKS.get(name)
    if stack is None:
        raise InvalidArgument(f"cannot build packages '{name}': there are {', '.join(STACKS)}")
    lists = {"apt": stack.apt, "pip": stack.pip, "npm": stack.npm}
    files = dict(tree(_RECIPE, KIND))
    for manager, packages in lists.items():
        files[f"{KIND}/{manager}"] = ContextFile("".join(f"{package}\n" for package in packages).encode())
    files[f"{KIND}/once"] = ContextFile(f"{stack.once or 'true'}\n".encode())
    # Another session image gives another image; the file itself is not used in it.
    files["base"] = ContextFile(build.reference("session", environ).encode())
    return BuildContext(KIND, files)


def reference(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the tag under which the image of a stack is or will be."""
    return f"holdfast/{KIND}:{name}-{context(name, environ).digest}"


def image(controller: Holdfast, name: str) -> str | None:
    """Return the tag of the image of a stack, built first if the engine does not have it; none for no stack.

    Raises:
        ImageError: it could not be built; the hint is the end of the build's output.
        InvalidArgument: the stack does not exist.
    """
    if not name:
        return None
    images, say = controller.engine.images, controller.context.progress
    return build.once(
        images,
        context(name),
        reference(name),
        lambda: build.ensure(images, "session", say),
        say,
        None,
        turn=f"{KIND}-{name}",
    )
