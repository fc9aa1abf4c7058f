"""The Debian mirror the host itself uses, from its apt sources.

Pure: texts in, mirror out.  Both forms that apt reads: one line per source, and deb822 paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

APT_FOLDER = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")

_ONE_LINE = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)")


@dataclass(frozen=True, slots=True)
class AptMirror:
    """The addresses of the archive and its security updates; `security` may be unknown."""

    archive: str
    security: str | None = None

    def lines(self, suite: str) -> list[str]:
        """Return the one-line sources for `suite` from here."""
        lines = [f"deb {self.archive} {suite} main", f"deb {self.archive} {suite}-updates main"]
        if self.security:
            lines.append(f"deb {self.security} {suite}-security main")
        return lines


def one_line_sources(text: str) -> Iterator[tuple[str, str]]:
    """Return the (URI, suite) pairs of a `sources.list`."""
    for line in text.splitlines():
        found = _ONE_LINE.match(line.strip())
        if found:
            yield found["uri"], found["suite"]


def deb822_sources(text: str) -> Iterator[tuple[str, str]]:
    """Return the (URI, suite) pairs of the enabled binary paragraphs of a `*.sources` file."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for paragraph in re.split(r"\n\s*\n", kept):
        # A line that begins with a space continues the field above it.
        joined = re.sub(r"\n[ \t]+", " ", paragraph)
        fields = {}
        for line in joined.splitlines():
            name, colon, value = line.partition(":")
            if colon:
                fields[name.strip().lower()] = value.split()
        if "deb" not in fields.get("types", []) or fields.get("enabled", ["yes"]) == ["no"]:
            continue
        for uri in fields.get("uris", []):
            for suite in fields.get("suites", []):
                yield uri, suite


def choose(sources: Iterable[tuple[str, str]], codename: str) -> AptMirror | None:
    """Return the mirror that serves the host's own release `codename`, or None if none is named."""
    archive = security = None
    for uri, suite in sources:
        if not uri.startswith(("http://", "https://")):
            continue
        if suite in {codename, "stable"}:
            archive = archive or uri
        elif suite in {f"{codename}-security", "stable-security"}:
            security = security or uri
    return AptMirror(archive, security) if archive else None


def host_mirror(apt: Path = APT_FOLDER, os_release: Path = OS_RELEASE) -> AptMirror | None:
    """Return the mirror a Debian host uses; None on other hosts, whose mirrors lack Debian."""
    release = (
        dict(line.split("=", 1) for line in os_release.read_text().splitlines() if "=" in line)
        if os_release.is_file()
        else {}
    )
    if release.get("ID", "").strip('"') != "debian":
        return None
    pairs: list[tuple[str, str]] = []
    one_line = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    for path in one_line:
        if path.is_file():
            pairs += one_line_sources(path.read_text(errors="replace"))
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        pairs += deb822_sources(path.read_text(errors="replace"))
    return choose(pairs, release.get("VERSION_CODENAME", "").strip('"'))
