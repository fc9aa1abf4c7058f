"""Images named by their content: built when missing, never rebuilt needlessly.

`holdfast/<kind>:<digest>` names the content (recipe, guest, the host's certificate authorities), so an image
that exists is current, and a change anywhere gives another tag. Every image starts from the same Debian
system: a registry's where one answers, else our own bootstrap of the same packages. Sessions are not known
here.
"""

from __future__ import annotations

import functools
import hashlib
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast import errors
from holdfast.base import host_environment, locks, way_to_internet
from holdfast.base.text import plain
from holdfast.engine.engine_faults import is_full, said
from holdfast.engine.engine_images import EngineImages
from holdfast.errors import EngineError, EngineUnavailable, ImageError, InvalidArgument
from holdfast.images import authorities, proxy_settings
from holdfast.images.apt_sources import AptMirror, host_mirror
from holdfast.images.build_context import BuildContext, ContextFile, tree
from holdfast.images.buildlog import BuildLog

SUITE = "trixie"
REGISTRY_REPOSITORY = "debian"
REGISTRY_TAG = f"{SUITE}-slim"
ROOTFS_REPOSITORY = "holdfast/rootfs"
# Seconds of silence from the registry after which a bootstrap (about 20 s) is the faster way.
REGISTRY_PATIENCE = 20.0

Progress = Callable[[str], None]


def obtain_base(images: EngineImages, progress: Progress) -> str:
    """Return a reference to the base image, fetched or made if the engine does not have it.

    Raises:
        ImageError: no registry answers and a base cannot be bootstrapped here.
    """
    registry = f"{REGISTRY_REPOSITORY}:{REGISTRY_TAG}"
    mirror = host_mirror()
    bootstrapped = f"{ROOTFS_REPOSITORY}:{_recipe(mirror)}"
    for reference in (registry, bootstrapped):
        if images.exists(reference):
            return reference
    progress(f"base: asking the registry for {registry}")
    try:
        _pull(images, progress)
    except _NoRegistry as reason:
        progress(f"base: no registry ({reason}); bootstrapping {SUITE} from the Debian mirror")
        _bootstrap(images, bootstrapped, mirror, progress)
        return bootstrapped
    return registry


class _NoRegistry(Exception):
    """The base cannot be pulled; the message is a few words.  A finding, not a fault."""


def _recipe(mirror: AptMirror | None) -> str:
    text = "\n".join([SUITE, *(mirror.lines(SUITE) if mirror else [])])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _pull(images: EngineImages, progress: Progress) -> None:
    """Pull in a thread: the engine is silent for minutes while a registry does not answer."""
    events: queue.Queue[dict[str, Any] | Exception | None] = queue.Queue()

    def run() -> None:
        try:
            for event in images.pull(REGISTRY_REPOSITORY, REGISTRY_TAG):
                events.put(event)
            events.put(None)
        except Exception as error:  # noqa: BLE001  # handed to the waiting thread, which judges it
            events.put(error)

    threading.Thread(target=run, name="holdfast-pull", daemon=True).start()
    last = ""
    while True:
        try:
            event = events.get(timeout=REGISTRY_PATIENCE)
        except queue.Empty:
            raise _NoRegistry(f"silent for {REGISTRY_PATIENCE:.0f} s") from None
        if event is None:
            return
        if isinstance(event, Exception):
            raise _NoRegistry(_brief(str(event))) from event
        if "error" in event:
            raise _NoRegistry(_brief(str(event["error"])))
        if event.get("status") != last and "id" not in event:
            last = str(event.get("status"))
            progress(f"base: {last}")


def _brief(text: str) -> str:
    """Return the last part of an engine's chain of causes, which is the root cause."""
    return text.strip().rsplit(": ", 1)[-1][:80]


def _bootstrap(images: EngineImages, reference: str, mirror: AptMirror | None, progress: Progress) -> None:
    _require_mmdebstrap(progress)
    attempts: list[list[str]] = [mirror.lines(SUITE)] if mirror else []
    attempts.append([])  # the tool's own default, also where the host's mirror lacks this release
    with tempfile.TemporaryDirectory(prefix="holdfast-base-") as folder:
        archive = Path(folder, "base.tar")
        tail: list[str] = []
        for sources in attempts:
            command = ["mmdebstrap", "--variant=minbase", SUITE, str(archive), *sources]
            tail = []
            for line in _lines(command):
                if line is None:
                    break
                tail.append(line)
                if line.startswith("I: ") and line.endswith("..."):
                    progress(f"base: {line[3:]}")
            else:
                import_system(images, archive, reference)
                return
        raise ImageError(
            f"cannot bootstrap Debian {SUITE}: mmdebstrap failed",
            hint="\n".join(tail[-15:]),
        )


def _lines(command: list[str]) -> Iterator[str | None]:
    """Yield the lines a command prints; a final None if it failed."""
    settings = {**proxy_settings.both_spellings(os.environ), "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=host_environment.with_settings(settings),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip()
    if process.returncode != 0:
        yield None


def import_system(images: EngineImages, archive: Path, reference: str) -> None:
    """Make a base image of the files in an archive.

    Raises:
        ImageError: the engine refuses them.
    """
    answer = images.import_files(archive, reference, ['CMD ["bash"]'])
    if '"error"' in answer:
        raise said(ImageError, "import the bootstrapped base image", "the engine refuses it", answer.strip())


def _require_mmdebstrap(progress: Progress) -> None:
    if shutil.which("mmdebstrap"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ImageError(
            "cannot make a base image: no registry answers and mmdebstrap is not installed",
            hint=f"run `docker pull {REGISTRY_REPOSITORY}:{REGISTRY_TAG}` where a registry is reachable, "
            "or install mmdebstrap and debian-archive-keyring",
        )
    progress("base: installing mmdebstrap")
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends"]
    for command in (["apt-get", "update", "-q"], [*install, "mmdebstrap", "debian-archive-keyring"]):
        lines = list(_lines(command))
        if lines and lines[-1] is None:
            tail = "\n".join(line for line in lines[-15:] if line)
            raise ImageError(f"cannot install mmdebstrap: `{' '.join(command[:2])}` failed", hint=tail)


KINDS = ("session", "toolbox", "gateway", "controller", "portable", "data")
ALWAYS = ("session", "toolbox")
"""The images every session needs; the others are built when they are first needed."""
BELOW = {"data": "session"}
"""Images that stand on a second one of ours."""
PACKAGE = Path(errors.__file__).parent
IMAGES = PACKAGE / "images"


def context(kind: str, environ: Mapping[str, str] = os.environ) -> BuildContext:
    """Return the build context of the image `kind` on this host.

    Raises:
        InvalidArgument: there is no such kind of image.
    """
    if kind not in KINDS:
        raise InvalidArgument(f"cannot build an image {kind!r}: the kinds are {', '.join(KINDS)}")
    files = dict(_own_files(kind))
    # A folder must not be empty for COPY to find it.
    files[f"{authorities.AUTHORITIES}README"] = ContextFile(
        b"Certificate authorities of the host that built this image.\n"
    )
    for name, pem in authorities.host_additions(environ).items():
        files[f"{authorities.AUTHORITIES}{name}"] = ContextFile(pem)
    return BuildContext(kind, files)


@functools.cache
def _own_files(kind: str) -> Mapping[str, ContextFile]:
    """Return the files of this package that an image is made of; they never change under a process."""
    files = dict(tree(IMAGES / kind, kind))
    if kind in ("session", "portable"):
        # The guest's packages go where the import system looks for them: namespace packages, no host code.
        for part in ("runtime", "kernels"):
            files.update(tree(PACKAGE / part / "guest", f"guest/holdfast/{part}/guest", "*.py"))
        files.update(_shared("guest/holdfast"))
        files.update(tree(PACKAGE / "runtime" / "pytest_plugin", "session", "holdfast_pytest.py"))
        for pattern in ("bash_*", "keeper.c", "*.py", "*ssh*"):
            files.update(tree(IMAGES / "session", "session", pattern))
        for pattern in ("*kernel*.py", "gather_kernels", "*.lock"):
            files.update(tree(IMAGES / "portable", "portable", pattern))
    elif kind == "data":
        files["data/session"] = ContextFile(reference(BELOW[kind]).encode())  # what it stands on
    elif kind == "gateway":
        files.update(tree(PACKAGE / "runtime" / "gateway", "runtime/gateway", "*.py"))
    elif kind == "controller":
        # Part by part: some are links to folders of the checkout, which are not followed on the way down.
        for part in sorted(each.name for each in PACKAGE.iterdir() if each.is_dir()):
            files.update(tree(PACKAGE / part, f"holdfast/{part}"))
        files.update(
            (f"holdfast/{each.name}", ContextFile(each.read_bytes())) for each in PACKAGE.glob("*.py")
        )
    else:
        files.update(tree(PACKAGE / "snapshots" / "checkpointer", "snapshots/checkpointer"))
        files.update(_shared("holdfast"))
    return files


def _shared(prefix: str) -> Iterator[tuple[str, ContextFile]]:
    """Yield the modules that code in a container shares with the host: parsers, and the value classes."""
    yield from tree(PACKAGE / "procfs", f"{prefix}/procfs", "*.py")
    yield from tree(PACKAGE / "base", f"{prefix}/base", "value_classes.py")


def reference(kind: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the tag under which the current image `kind` is or will be."""
    return f"holdfast/{kind}:{context(kind, environ).digest}"


@functools.cache
def toolbox() -> str:
    """Return the tag of the current toolbox, which stays the same for as long as this process runs."""
    return reference("toolbox")


def ensure(
    images: EngineImages,
    kind: str,
    progress: Callable[[str], None] | None = None,
    *,
    lock_folder: Path | None = None,
) -> str:
    """Return the tag of the current image `kind`, built first if the engine does not have it.

    `progress` gets one short line per step.  Two builders of one kind take turns; the second finds the image
    of the first.

    Raises:
        ImageError: the image could not be built; the hint is the end of the build's output.
    """
    say = progress or (lambda _line: None)
    made_of = context(kind)
    tag = f"holdfast/{kind}:{made_of.digest}"

    def below() -> str:
        if kind in BELOW:
            return ensure(images, BELOW[kind], progress, lock_folder=lock_folder)
        return obtain_base(images, say)

    return once(images, made_of, tag, below, say, lock_folder, turn=kind)


def once(
    images: EngineImages,
    made_of: BuildContext,
    tag: str,
    base_reference: Callable[[], str],
    say: Callable[[str], None],
    lock_folder: Path | None,
    *,
    turn: str,
) -> str:
    """Build a context under a tag unless the engine has it; builders of one `turn` wait for each other.

    Raises:
        ImageError: as `ensure`.
    """
    if images.exists(tag):
        return tag
    with _turn(lock_folder, turn, say):
        if not images.exists(tag):
            if relative := authorities.find(images, made_of):
                say(f"{made_of.kind}: {relative}: {relative.hint(tag)}")
            _build(images, made_of, tag, base_reference(), say)
    return tag


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """One of our images in the engine; `size` in bytes, `current` if a new session would use it."""

    tag: str
    kind: str
    size: int
    created: datetime
    current: bool


def list_images(images: EngineImages) -> list[BuiltImage]:
    """Return our images in the engine, current ones first, then newest first."""
    found: list[BuiltImage] = []
    listed = images.listed()
    for kind in KINDS:
        current = reference(kind)
        found += [
            BuiltImage(tag, kind, image.size, datetime.fromtimestamp(image.created, UTC), tag == current)
            for image in listed
            for tag in image.tags
            if tag.startswith(f"holdfast/{kind}:")
        ]
    return sorted(found, key=lambda image: (image.kind, not image.current, -image.created.timestamp()))


def _build(
    images: EngineImages, made_of: BuildContext, tag: str, base_reference: str, say: Callable[[str], None]
) -> None:
    say(f"{made_of.kind}: building {tag} on {base_reference}")
    log = BuildLog()
    # The engine knows the names of proxies, and keeps them out of the image.
    arguments = {"BASE": base_reference, **proxy_settings.both_spellings(os.environ)}
    try:
        events = images.build(
            made_of.tar(),
            f"{made_of.kind}/Dockerfile",
            tag,
            arguments,
            authorities.labels(made_of),
            # Networks of containers have neither this machine's loopback nor, usually, IPv6.
            host_network=proxy_settings.on_this_machine(os.environ) or way_to_internet.is_missing(),
        )
        for event in events:
            for line in log.feed(event):
                say(f"{made_of.kind}: {line}")
    except EngineUnavailable:
        raise
    except EngineError as error:
        raise ImageError(str(error), hint=error.hint or log.tail()) from error
    if log.error or not images.exists(tag):
        if is_full(f"{log.error} {log.tail()}"):  # otherwise the next attempt continues after these steps
            images.discard(reversed(log.made))
        raise said(ImageError, f"build {tag}", log.error or "the engine did not make an image", log.tail())
    say(f"{made_of.kind}: {tag} is ready")


def _default_lock_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "holdfast"


@contextmanager
def _turn(folder: Path | None, kind: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the build lock of `kind`; it is released by the end of the process at the latest.

    Without a place for it (no HOME, read-only, without locks) two concurrent builds only cost time.
    """
    with ExitStack() as held:
        try:
            folder = folder or _default_lock_folder()
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"image-{kind}.lock"
            try:
                held.enter_context(locks.whole_file(path, 0))
            except BlockingIOError:
                say(f"{kind}: another build is at work; waiting for it")
                held.enter_context(locks.whole_file(path))
        except (OSError, RuntimeError) as error:
            say(f"{kind}: not waiting for other builds: {plain(str(error), 200)}")
        yield
