"""The sources of packages in the tools' own configuration, and which of them are kept."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast.base.home import Home
from holdfast.errors import StoreError
from holdfast.images import apt_sources
from holdfast.runtime.egress import home_network, package_hosts
from holdfast.runtime.sessions.network_exceptions import Allowed


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://mirror.example/debian", "mirror.example:80"),
        ("https://user:secret@index.example/simple", "index.example:443"),
        ("http://proxy.example:3128", "proxy.example:3128"),
        ("proxy.example:3128", "proxy.example:3128"),
        ("https://[fd00::1]:8443/x", "[fd00::1]:8443"),
        ("file:///opt/packages", None),
        ("cdrom:[Debian]/", None),
        ("http://host:port/", None),
        ("", None),
    ],
)
def test_a_place_is_the_host_and_port_of_a_url(url: str, expected: str | None) -> None:
    """Never a user or a password."""
    found = package_hosts.place(url)
    assert (str(found) if found else None) == expected


def test_the_configuration_of_tools_is_read() -> None:
    """apt's proxies, pip's indexes, npm's registries; nothing of comments."""
    apt = 'Acquire::http::Proxy "http://apt.example:3142";\n// Acquire::http::Proxy "http://no.example";\n'
    assert list(package_hosts.apt_proxies(apt + 'Acquire::https::Proxy "DIRECT";')) == [
        "http://apt.example:3142"
    ]
    pip = "[global]\nindex-url = https://pip.example/simple\nextra-index-url =\n  https://a.example/\n  https://b.example/\n"
    assert list(package_hosts.pip_urls(pip)) == [
        "https://pip.example/simple",
        "https://a.example/",
        "https://b.example/",
    ]
    assert list(package_hosts.pip_urls("not a file of pip")) == []
    npm = "registry=https://npm.example/\n@team:registry = https://team.example/\n//npm.example/:_authToken=secret\n"
    npm += "https-proxy = http://proxy.example:3128\n"
    assert list(package_hosts.npm_urls(npm, proxies=False)) == [
        "https://npm.example/",
        "https://team.example/",
    ]
    assert list(package_hosts.npm_urls(npm, proxies=True)) == ["http://proxy.example:3128"]


def test_all_of_them_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the environment's."""
    (tmp_path / "apt" / "sources.list.d").mkdir(parents=True)
    (tmp_path / "apt" / "sources.list").write_text("deb http://mirror.example/debian stable main\n")
    (tmp_path / ".npmrc").write_text("registry=https://npm.example/\n")
    monkeypatch.setattr(apt_sources, "APT_FOLDER", tmp_path / "apt")
    environment = {"HOME": str(tmp_path), "https_proxy": "http://proxy.example:3128", "HTTPS_PROXY": ""}
    environment |= {"PIP_INDEX_URL": "https://npm.example/"}

    found = [str(one) for one in package_hosts.find(environment)]

    assert {"proxy.example:3128", "npm.example:443", "mirror.example:80"} <= set(found)
    assert len(found) == len(set(found))


def _no_address(*_: object, **__: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_NONAME, "no such name")


def test_a_resolver_that_does_not_answer_is_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session does not wait for it, and its silence is not taken for an answer."""
    home, answers = Home(tmp_path / "home").create(), threading.Event()
    asked = list[str]()

    def resolver(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(name)
        if not answers.wait(60):
            _no_address()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 0))]

    given = [Allowed.parse(one) for one in ("10.0.0.9:80", "mirror.example:80", "npm.example:443")]
    monkeypatch.setattr(package_hosts, "find", lambda **_: given)
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    monkeypatch.setattr(home_network, "GLANCE", 0.05)

    first = home_network.read(home)  # while the resolver holds all names

    assert [str(one) for one in first.every] == ["10.0.0.9:80"]
    assert sorted(asked) == ["mirror.example", "npm.example"], "they were asked at once"
    assert home_network.read(home) == first
    assert len(asked) == 2, "not again so soon"
    answers.set()
    monkeypatch.setattr(home_network, "AGAIN", -1.0)
    monkeypatch.setattr(home_network, "GLANCE", 60.0)
    assert home_network.read(home).every == tuple(given)
    assert "unknown" not in json.loads((home.root / home_network.NAME).read_text())


def test_only_closed_destinations_are_opened_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A destination on the internet or on loopback, or an invalid one, does not need an opening. Additions
    of people stay.
    """
    home = Home(tmp_path / "home").create()
    given = [
        Allowed.parse(one) for one in ("10.0.0.9:80", "8.8.8.8:443", "127.0.0.1:3128", "gone.invalid:80")
    ]
    monkeypatch.setattr(package_hosts, "find", lambda **_: given)
    monkeypatch.setattr(socket, "getaddrinfo", _no_address)
    (home.root / home_network.NAME).write_text('{"allow": ["db.example:5432"]}')

    kept = home_network.refresh(home)

    assert [str(one) for one in kept.every] == ["10.0.0.9:80", "db.example:5432"]
    assert home_network.read(home) == kept
    assert json.loads((home.root / home_network.NAME).read_text())["found"] == ["10.0.0.9:80"]


def test_a_found_destination_can_be_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For good: also when it is found again. An open proxy is reported, another mirror is not."""
    home = Home(tmp_path / "home").create()
    proxy, mirror = Allowed.parse("10.0.0.9:3128"), Allowed.parse("10.0.0.8:80")
    monkeypatch.setattr(package_hosts, "find", lambda **_: [proxy, mirror])
    monkeypatch.setenv("https_proxy", "http://10.0.0.9:3128")
    home_network.refresh(home)
    assert home_network.ways_out(home) == [proxy]

    path = home.root / home_network.NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"close": ["10.0.0.9:3128"]}))

    assert home_network.read(home).every == (mirror,)
    assert home_network.refresh(home).every == (mirror,)
    assert home_network.ways_out(home) == []


@pytest.mark.parametrize(
    "text", ['{"close": "x:1"}', "", "[]", '{"found": "x:1"}', '{"allow": ["x"]}', '{"allow": [1]}']
)
def test_a_file_of_an_unexpected_form_is_refused(tmp_path: Path, text: str) -> None:
    """It is not taken for one that opens nothing, and not overwritten."""
    home = Home(tmp_path / "home").create()
    (home.root / home_network.NAME).write_text(text)

    with pytest.raises(StoreError, match=r"^cannot use .*network\.json"):
        home_network.read(home)
    assert (home.root / home_network.NAME).read_text() == text


def test_a_project_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm is not asked where the caller is: it would read the .npmrc of a project there."""
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text('#!/bin/sh\nwhile IFS="=" read -r _ value; do echo "$value"; done <.npmrc\n')
    npm.chmod(0o755)
    (tmp_path / ".npmrc").write_text("registry=http://10.1.2.3:8080/\n")
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(["npm"], capture_output=True, text=True, check=True)
    assert done.stdout == "http://10.1.2.3:8080/\n"
    found = package_hosts.find({"HOME": str(tmp_path / "none")}, ask_npm=True)
    assert "10.1.2.3:8080" not in map(str, found)
