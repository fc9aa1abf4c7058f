"""The Dockerfile of a build and its sources, read once; and the check of the engine's downloads.

The checked text is the built one: builders get the text that was read here. A file of the project is not
followed out of its folder. Images that a project names are fetched before it is built: their triggers in a
build (ONBUILD) count as if they stood in the project's own file.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import ImageError
from holdfast.runtime.egress import host_network
from holdfast.runtime.lifecycle import chosen_image

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


USUAL_FILE = "Dockerfile"
_IGNORE = ".dockerignore"
_LONGEST_IGNORE = 1 << 20
_OUTSIDE = ".dockerfile.holdfast"
"""The name of a Dockerfile from elsewhere; the engine takes it out of the context."""
_NAME_SECONDS = 15.0
"""The longest time of a resolver; a name without an address leads to no host."""
_OPTION = "--allow-remote-sources builds it, if you trust the project"
LONGEST = 256 << 10
"""Bytes of a Dockerfile; those of real projects have a few thousand."""
LONGEST_VALUE = 64 << 10
"""Characters of a text with the values of its variables, which can be made of others in turn."""
USUAL_FRONTEND = re.compile(r"(?:docker\.io/)?docker/dockerfile(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?")
"""Docker's own: the same program as that in the builder."""
_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(\S+)")
_SYNTAX = re.compile(r"\s*(?:#|//)\s*syntax\s*=\s*(\S+)", re.IGNORECASE)
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[\w.-]+@[\w.-]+:")
_HERE = re.compile(r"(?:^|\s)\d*<<(-?)([\"']?)([^\s\"'<>]+)\2")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:(:?[-+])([^${}]*))?\}|(\w+))")
_USUAL_PLATFORM = re.compile(r"\$\{?(?:BUILD|TARGET)PLATFORM\}?")
_FROM_OF_MOUNT = re.compile(r"(?:^|,)from=([^,]*)")
_REFUSED_FLAGS = re.compile(r"--(?:network=host|security=insecure)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BuildSource:
    """The input of a build.

    Attributes:
        folder: the context.
        name: the Dockerfile's in the context.
        text: the Dockerfile.
        ignored: lines of the .dockerignore.
        own_ignore: that which only BuildKit heeds, beside the Dockerfile and with its name; None without.
    """

    folder: Path
    name: str
    text: str
    ignored: tuple[str, ...]
    own_ignore: str | None

    def written(self, place: Path) -> Path:
        """Write the Dockerfile into a private folder, for a builder that reads it from a file."""
        path = place / USUAL_FILE
        path.write_text(self.text, "utf-8")
        if self.own_ignore is not None:
            (place / f"{USUAL_FILE}{_IGNORE}").write_text(self.own_ignore, "utf-8")
        return path


def read(folder: Path, file: Path) -> BuildSource:
    """Read the input of a build.

    Raises:
        ImageError: a file of the folder leads out of it, is too long, or is not a file.
        OSError: one cannot be read.
    """
    inside = file.is_relative_to(folder)
    if inside and not file.resolve().is_relative_to(folder.resolve()):
        raise _refused(folder, f"{plain(file.name, 100)} leads out of the folder")
    text = _text(folder, file.resolve(), LONGEST)
    assert text is not None
    own = _text(folder, file.with_name(file.name + _IGNORE), _LONGEST_IGNORE)
    lines = (_text(folder, folder / _IGNORE, _LONGEST_IGNORE) or "").splitlines()
    ignored = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    name = str(file.resolve().relative_to(folder.resolve())) if inside else _OUTSIDE
    return BuildSource(folder, name, text, ignored, own)


def admit(context: Context, source: BuildSource, arguments: Mapping[str, str], *, remote: bool) -> None:
    """Refuse a build for which the engine would make downloads that the caller did not allow.

    Args:
        context: the context of the call.
        source: the input of the build.
        arguments: values of ARG.
        remote: all is allowed.

    Raises:
        ImageError: something of it is not, or an image cannot be had.
    """
    if remote:
        return
    found = fetched_by(source.text, arguments)
    _refuse(source, found, "its Dockerfile")
    for name in found.images:
        config = obtain(context, name)["Config"] or {}
        triggers = [str(each) for each in config.get("OnBuild") or ()]
        if triggers:
            later = fetched_by("\n".join(triggers), arguments)
            _refuse(source, later, f"its image {plain(name, 100)}")
            for other in later.images:
                obtain(context, other)


def obtain(context: Context, name: str) -> dict[str, Any]:
    """Return the engine's description of an image that a project names; it is fetched if it is missing.

    Raises:
        ImageError: it cannot be had, or its registry would be this machine.
    """
    if there := context.engine.images.inspect(name):
        return there
    host = registry_host(name)
    if host is not None and _is_this_machine(host):
        raise ImageError(
            f"cannot use image {plain(name, 100)}: the project makes the engine contact a "
            "service of this machine",
            hint=f"`docker pull` it, or {_OPTION}",
        )
    return chosen_image.pull(context, name)


def registry_host(name: str) -> str | None:
    """Return the host of the registry that an image's name has, without its port; None without one."""
    first, slash, _ = name.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first):
        return None
    return first.rpartition("]")[0].lstrip("[") if first.startswith("[") else first.partition(":")[0]


def _is_this_machine(host: str) -> bool:
    """Check whether a name leads to loopback, to a link (as of metadata services), or to the host."""
    own = host_network.look().addresses
    try:
        found = [ip_address(host)]
    except ValueError:
        found = [ip_address(text) for text in host_network.lookup_of([host], _NAME_SECONDS)(host)]
    return any(one.is_loopback or one.is_link_local or one.is_unspecified or one in own for one in found)


def _refuse(source: BuildSource, found: Fetched, where: str) -> None:
    asked = [*found.remote, *(f"images for {name}" for name in found.platforms)]
    if asked:
        raise _refused(
            source.folder,
            f"{where} makes the engine fetch from the host's network: {plain(asked[0], 200)}",
            f"COPY takes files of the folder; {_OPTION}",
        )


def _text(folder: Path, path: Path, longest: int) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(folder, f"{plain(path.name, 100)} cannot be read ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _refused(folder, f"{plain(path.name, 100)} is not a regular file")
        data = file.read(longest + 1)
    if len(data) > longest:
        raise _refused(folder, f"{plain(path.name, 100)} is longer than {longest} bytes")
    return data.decode("utf-8", "replace")


def _refused(folder: Path, why: str, hint: str = "") -> ImageError:
    return ImageError(f"cannot build {plain(str(folder), 200)}: {why}", hint=hint)


@dataclass(slots=True)
class Fetched:
    """The downloads of the engine.

    Attributes:
        remote: each as a message has it, such as "ADD http://…".
        images: names of images, but for stages of the file.
        platforms: platforms that the file names for them.
    """

    remote: list[str] = field(default_factory=list)
    images: dict[str, None] = field(default_factory=dict)
    platforms: dict[str, None] = field(default_factory=dict)


def fetched_by(text: str, arguments: Mapping[str, str]) -> Fetched:
    """Return the downloads of the engine for a Dockerfile, with these values of ARG."""
    lines = [line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n")]
    found = Fetched()
    for name in sorted(arguments):
        if name.upper().startswith("BUILDKIT_"):
            found.remote.append(f"the argument {name}, which is reserved for the builder")
    found.remote += _frontends(lines)
    escape = _escape(lines)
    for heredocs in (False, True):
        _FileReading(found, escape, arguments).read(_instructions(lines, escape, heredocs))
    # Within another instruction no line begins like this, unless the readings of builders are to differ.
    for line in lines:
        if re.match(r"\s*(?:ONBUILD\s+)*ADD\s", line, re.IGNORECASE):
            found.remote += [f"ADD {word}" for word in line.split() if _REMOTE.match(_bare(word, escape))]
    found.remote[:] = dict.fromkeys(found.remote)
    return found


def _frontends(lines: list[str]) -> Iterator[str]:
    """Yield the foreign frontends that the comments at the top name, in each form that builders know."""
    for line in lines:
        if line.strip() and not line.lstrip().startswith(("#", "//", "{")):
            return
        if (named := _SYNTAX.match(line)) and not USUAL_FRONTEND.fullmatch(named[1]):
            yield f"the frontend {named[1]}"
        elif line.lstrip().startswith("{"):
            yield "a syntax other than the Dockerfile's"
            return


def _escape(lines: list[str]) -> str:
    for line in lines:
        directive = _DIRECTIVE.match(line.strip())
        if directive is None:
            return "\\"
        if directive[1].lower() == "escape" and directive[2] in ("\\", "`"):
            return directive[2]
    return "\\"


def _instructions(lines: list[str], escape: str, heredocs: bool) -> Iterator[str]:
    """Yield the instructions, each on one line."""
    more = re.compile(rf"(?:^|(?P<last>[^{re.escape(escape)}])){re.escape(escape)}[ \t]*$")
    left = iter(lines)
    parts: list[str] = []
    for line in left:
        # Comments and empty lines are no part of an instruction, nor its end.
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        continued = more.search(line)
        if continued is not None:
            parts.append(line[: continued.start()] + (continued["last"] or ""))
            continue
        whole = "".join([*parts, line]).strip()
        parts = []
        yield whole
        if heredocs and re.match(r"(?:ONBUILD\s+)?(?:ADD|COPY|RUN)\s", whole, re.IGNORECASE):
            for dash, _, end in _HERE.findall(whole):
                _skip(left, end, tabs=bool(dash))
    if parts:
        yield "".join(parts).strip()


def _skip(left: Iterator[str], end: str, *, tabs: bool) -> None:
    """Skip a here-document."""
    for line in left:
        if (line.lstrip("\t") if tabs else line) == end:
            return


class _FileReading:
    """One reading of a file from its first instruction to its last."""

    def __init__(self, found: Fetched, escape: str, arguments: Mapping[str, str]) -> None:
        self._found = found
        self._escape = escape
        self._given = arguments
        self._known: dict[str, str] = {}
        self._stages: set[str] = set()
        self._begun = False

    def read(self, instructions: Iterator[str]) -> None:
        for text in instructions:
            word, rest = _first(text)
            while word == "ONBUILD":
                word, rest = _first(rest)
            flags, words = self._words(rest)
            if word == "ARG" and not self._begun:
                self._set(words)
            elif word == "FROM":
                self._stage(flags, words)
            elif word == "ADD":
                self._add(words)
            elif word == "COPY":
                self._images(flag.partition("=")[2] for flag in flags if flag.startswith("--from="))
            elif word == "RUN":
                self._run(flags)

    def _words(self, rest: str) -> tuple[list[str], list[str]]:
        words = rest.split()
        count = next((at for at, word in enumerate(words) if not word.startswith("--")), len(words))
        flags = [_bare(word, self._escape) for word in words[:count]]
        rest = rest.split(None, count)[count] if count < len(words) else ""
        if rest.startswith("["):
            try:
                listed = json.loads(rest)
            except (ValueError, RecursionError):
                listed = None
            if isinstance(listed, list) and all(isinstance(word, str) for word in listed):
                return flags, listed
        return flags, rest.split()

    def _set(self, words: list[str]) -> None:
        for word in words:
            name, equals, value = word.partition("=")
            if name in self._given:
                self._known[name] = self._given[name]
            elif equals:
                self._known[name] = self._expanded(value)

    def _stage(self, flags: list[str], words: list[str]) -> None:
        self._begun = True
        if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
            return  # no builder takes that
        for flag in flags:
            platform = flag.partition("=")[2]
            if flag.startswith("--platform=") and not _USUAL_PLATFORM.fullmatch(platform):
                self._found.platforms[self._expanded(platform)] = None
        self._images([self._expanded(words[0])])
        if len(words) == 3:
            self._stages.add(words[2].lower())

    def _images(self, names: Iterable[str]) -> None:
        for name in names:
            # Within a stage other values count, and builders differ in whether any do.
            ref = _bare(name, self._escape)
            if "$" in ref:
                self._found.remote.append(f"the image {name}, which depends on a variable")
            elif ref and ref.lower() not in self._stages and ref != "scratch" and not ref.isdecimal():
                self._found.images[ref] = None

    def _add(self, words: list[str]) -> None:
        for word in words[:-1] if len(words) > 1 else words:
            bare = _bare(word, self._escape)
            constant = bare.partition("$")[0]
            if _REMOTE.match(bare):
                self._found.remote.append(f"ADD {word}")
            elif "$" in bare and not re.match(r"[^:@]*/", constant):
                self._found.remote.append(f"ADD {word}, which depends on a variable")

    def _run(self, flags: list[str]) -> None:
        for flag in flags:
            if _REFUSED_FLAGS.match(flag):
                self._found.remote.append(f"RUN {flag}")
            elif flag.startswith("--mount="):
                self._images(_FROM_OF_MOUNT.findall(flag.partition("=")[2]))

    def _expanded(self, text: str) -> str:
        """Return a text without quotes, with the values of the arguments before the first stage."""
        left = LONGEST_VALUE

        def one(found: re.Match[str]) -> str:
            nonlocal left
            value = self._known.get(found[1] or found[4], "")
            if found[2] and found[2][-1] == "-":
                value = value or found[3]
            elif found[2]:
                value = found[3] if value else ""
            left -= len(value)
            return value if left >= 0 else ""

        made = _VARIABLE.sub(one, _bare(text, self._escape))
        if left < 0:
            self._found.remote.append(
                f"{text[:100]}, whose variables expand to more than {LONGEST_VALUE} characters"
            )
        return made


def _first(text: str) -> tuple[str, str]:
    word, rest = [*text.split(None, 1), "", ""][:2]
    return word.upper(), rest


def _bare(word: str, escape: str) -> str:
    """Return a word as it is without quotes and escapes."""
    return word.replace('"', "").replace("'", "").replace(escape, "")
