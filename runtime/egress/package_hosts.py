"""This machine's sources of packages and its proxies, as apt, pip and npm are configured.

The parsers are pure; `find` reads the tools' configuration. It makes no network requests.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit

from holdfast.errors import InvalidArgument
from holdfast.images import apt_sources
from holdfast.runtime.sessions.network_exceptions import Allowed

_PORTS = {"http": 80, "https": 443, "ftp": 21, "socks5": 1080, "socks5h": 1080}
_COMMON = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
_PROXIES = (
    *_COMMON,
    *(name.upper() for name in _COMMON),
    "PIP_PROXY",
    "npm_config_proxy",
    "npm_config_https_proxy",
)
_INDEXES = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "npm_config_registry",
)
_PIP_PROXY, _PIP_INDEXES = ("proxy",), ("index-url", "extra-index-url")
_NPM_PROXIES = ("proxy", "https-proxy")
_NPM_SECONDS = 20
_URL = re.compile(r"[a-z0-9]+://[^\s\"';,]+")


def find(environ: Mapping[str, str] = os.environ, *, ask_npm: bool = False) -> list[Allowed]:
    """Return the hosts and ports of all of these, each once. With `ask_npm` npm is run: half a second."""
    indexes = [
        *_environment(environ, _INDEXES),
        *_apt(apt_sources.APT_FOLDER),
        *_pip_files(environ, _PIP_INDEXES),
        *_pip_default(),
        *_npm_files(environ, proxies=False),
        *(_npm_answer() if ask_npm else ()),
    ]
    return list(dict.fromkeys((*_places(indexes), *proxies(environ))))


def proxies(environ: Mapping[str, str] = os.environ) -> list[Allowed]:
    """Return the proxies among them, which forward connections wherever they are allowed to, each once."""
    urls = [
        *_environment(environ, _PROXIES),
        *_apt_proxy_files(apt_sources.APT_FOLDER),
        *_pip_files(environ, _PIP_PROXY),
        *_npm_files(environ, proxies=True),
    ]
    return _places(urls)


def place(url: str) -> Allowed | None:
    """Return host and port of a URL; None if it has none, or invalid ones. Pure."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or _PORTS.get(parts.scheme)
        host = parts.hostname
        if not host or port is None:
            return None
        return Allowed.parse(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except (ValueError, InvalidArgument):
        return None


def apt_proxies(text: str) -> Iterator[str]:
    """Return the proxies in a file of apt.conf(5); pure. `DIRECT` does not count."""
    for line in text.splitlines():
        statement = line.partition("//")[0] if line.lstrip().startswith("//") else line
        if re.search(r"\bproxy\b", statement, re.IGNORECASE):
            yield from _URL.findall(statement)


def pip_urls(text: str, keys: Iterable[str] = (*_PIP_INDEXES, *_PIP_PROXY)) -> Iterator[str]:
    """Return the indexes and the proxy in a pip.conf; pure."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    with suppress(configparser.Error):
        parser.read_string(text)
        for section in parser.sections():
            for key in keys:
                yield from (parser.get(section, key, fallback="") or "").split()


def npm_urls(text: str, *, proxies: bool) -> Iterator[str]:
    """Return the registries in an npmrc, or the proxies; pure."""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        name = key.strip()
        registry = name == "registry" or name.endswith(":registry")
        if equals and (name in _NPM_PROXIES if proxies else registry):
            yield value.strip().strip("\"'")


def _places(urls: Iterable[str]) -> list[Allowed]:
    return list(dict.fromkeys(found for url in urls if (found := place(url)) is not None))


def _environment(environ: Mapping[str, str], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from environ.get(name, "").split()


def _apt(folder: Path) -> Iterator[str]:
    for path in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))):
        yield from (uri for uri, _ in apt_sources.one_line_sources(_read(path)))
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        yield from (uri for uri, _ in apt_sources.deb822_sources(_read(path)))


def _apt_proxy_files(folder: Path) -> Iterator[str]:
    for path in (folder / "apt.conf", *sorted((folder / "apt.conf.d").glob("*"))):
        yield from apt_proxies(_read(path))


def _pip_files(environ: Mapping[str, str], keys: Iterable[str]) -> Iterator[str]:
    home = Path(environ.get("HOME") or "/")
    chosen = environ.get("PIP_CONFIG_FILE")
    paths = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", home / ".config" / "pip" / "pip.conf"]
    for path in [*paths, *([Path(chosen)] if chosen else [])]:
        yield from pip_urls(_read(path), keys)


def _pip_default() -> Iterator[str]:
    """Return the index that pip uses by default, and the host that serves its files."""
    with suppress(ImportError, AttributeError):
        from pip._internal.models.index import PyPI

        yield from (PyPI.url, f"https://{PyPI.file_storage_domain}/")


def _npm_files(environ: Mapping[str, str], *, proxies: bool) -> Iterator[str]:
    for path in (Path(environ.get("HOME") or "/") / ".npmrc", Path("/etc/npmrc")):
        yield from npm_urls(_read(path), proxies=proxies)


def _npm_answer() -> Iterable[str]:
    if which("npm") is None:
        return ()
    with suppress(OSError, subprocess.SubprocessError):
        # Not where the caller is: the .npmrc of a project there does not say what sessions may reach.
        done = subprocess.run(
            ["npm", "config", "get", "registry"],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_NPM_SECONDS,
        )
        return done.stdout.split()
    return ()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
