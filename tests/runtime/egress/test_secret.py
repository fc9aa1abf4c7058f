"""Secrets as they are given on the command line, and the storage of their parts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.egress import vault
from holdfast.runtime.sessions.session_options import SessionOptions, container_options
from holdfast.runtime.transfer import foreign_snapshot


def test_a_value_comes_from_a_variable_a_file_standard_input_or_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file can end with a line break."""
    (tmp_path / "key").write_text("from-a-file\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"from-stdin\r\n")))
    sources = {
        "env:KEY": "from-the-environment",
        f"@{tmp_path / 'key'}": "from-a-file",
        "@-": "from-stdin",
        "as=it=is": "as=it=is",
    }

    for source, value in sources.items():
        found = vault.parse(f"T@api.example.com={source}", {"KEY": "from-the-environment"})
        assert found.value == value
        assert value not in repr(found) + json.dumps(found.option())


def test_hosts_use_tls_by_default() -> None:
    """Each is one host and one port."""
    found = vault.parse("T@API.example.com,b.org:8443,http://c.org,https://d.org=12345678").hosts
    assert list(map(str, found)) == ["api.example.com", "b.org:8443", "http://c.org", "d.org"]
    assert [(one.scheme, one.port) for one in found] == [
        ("https", 443),
        ("https", 8443),
        ("http", 80),
        ("https", 443),
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("TOKEN=hidden-value", "does not name the hosts"),
        ("TOKEN@=hidden-value", "does not name the hosts"),
        ("hidden-value", "not a valid variable|the hosts"),
        ("1T@a.org=hidden-value", "name is not a valid variable name"),
        ("T@*.a.org=hidden-value", "is not a host"),
        ("T@ftp://a.org=hidden-value", "is not a host"),
        ("T@a.org/path=hidden-value", "is not a host"),
        ("T@a.org=env:NO", "variable NO is not set"),
        ("T@a.org=@/no/such", "No such file"),
        ("T@a.org=short", "5 characters"),
        ("T@a.org=hidden-\nvalue", "no header can have"),
    ],
)
def test_invalid_secrets_are_refused_without_the_value(text: str, why: str) -> None:
    """In one line, with the form it should have."""
    with pytest.raises(InvalidArgument, match=why) as refused:
        vault.parse(text, {})

    assert "hidden-" not in str(refused.value).replace("hidden-value is not", "")
    assert "NAME@HOST" in refused.value.hint


def test_values_are_the_owners_alone_and_go_when_they_are_forgotten(tmp_path: Path) -> None:
    """Nothing but a placeholder leads to a file."""
    home = Home(tmp_path / "home").create()
    given = vault.parse("T@a.org=hidden-value")
    vault.keep(home, [given])

    (file,) = (home.root / vault.FOLDER).iterdir()
    modes = [path.stat().st_mode & 0o777 for path in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
    found = vault.find(home, given.placeholder)
    assert found is not None
    assert (found.name, found.value, found.hosts) == ("T", "hidden-value", given.hosts)
    assert vault.find(home, "../../network.json") is None
    vault.forget_value(home, given.placeholder)
    assert vault.find(home, given.placeholder) is None


def test_a_session_gets_placeholders_and_a_bundle_has_none() -> None:
    """Its variables have them, with the address of the gateway; a bundle contains neither network nor
    secrets.
    """
    given = vault.parse("T@a.org=hidden-value")
    options = SessionOptions.parse(secrets=[given.option()])
    made = container_options(
        options, name="n", hostname="h", image="i", command=(), labels={}, run_dir=Path("/r"),
        init=Path("/i"), first="/dev/f", seccomp={}, network="holdfast", mptcp=False, trust=Path("/trust"),
    )  # fmt: skip

    assert made["environment"]["T"] == given.placeholder
    assert made["environment"]["HTTPS_PROXY"] == "http://192.0.2.1:3128"
    assert {"SSL_CERT_FILE", "GIT_SSL_CAINFO", "PIP_CERT"} <= set(made["environment"])
    assert (made["mounts"][-1]["Target"], made["mounts"][-1]["ReadOnly"]) == ("/opt/holdfast/trust", True)
    assert "hidden-value" not in str(made)
    told = options.model_dump(mode="json") | {"network": "domains", "domains": ["a.org"]}
    assert SessionOptions.parse(**foreign_snapshot.taken_options(told, {})) == SessionOptions()
    plain = container_options(
        SessionOptions(), name="n", hostname="h", image="i", command=(), labels={}, run_dir=Path("/r"),
        init=Path("/i"), first="/dev/f", seccomp={}, network="holdfast", mptcp=False,
    )  # fmt: skip
    assert plain["environment"] == {}
