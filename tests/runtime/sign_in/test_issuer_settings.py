"""The settings of sign-in: misspelled ones are refused, and rules give exactly their text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, NotPermitted
from holdfast.runtime.sign_in import issuer_settings
from holdfast.runtime.sign_in.issuer_settings import Issuer

WHOLE = """
url = "https://holdfast.example.org"

[[issuer]]
name = "corp"
url = "https://login.example.org/realms/corp"
client = "holdfast"
secret-file = "corp.secret"
scopes = ["profile", "groups"]
person = "email"
suffix = "@example.org"
hours = 8

[[issuer.role]]
claim = "realm_access.roles"
value = "ops"
role = "admin"
team = "ops"

[[issuer.role]]
role = "viewer"

[issuer.device]
client = "holdfast-cli"
days = 7

[proxy]
header = "X-Forwarded-User"
groups = "X-Forwarded-Groups"
from = ["10.0.0.5", "unix", "::1"]
"""


def read(folder: Path, text: str) -> Any:
    (folder / "sign-in.toml").write_text(text)
    return issuer_settings.read(folder / "sign-in.toml")


def test_the_settings_of_the_documentation_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    (issuer,) = found.issuer
    assert issuer.scopes == ("openid", "profile", "groups")
    assert (issuer.device.client, issuer.device.nonce, found.is_secure) == ("holdfast-cli", "required", True)
    assert found.proxy.trusts("10.0.0.5")
    assert found.proxy.trusts("unix")
    assert not found.proxy.trusts("10.0.0.50")
    assert not found.proxy.trusts("")
    with pytest.raises(InvalidArgument, match="cannot read the secret"):
        issuer.secret()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('role = "admin"', 'role = "root"'),
        ('value = "ops"\n', ""),
        ('claim = "realm_access.roles"\n', ""),
        ('value = "ops"', "value = true"),
        ('value = "ops"', 'vlaue = "ops"'),
        ("https://holdfast.example.org", "http://holdfast.example.org"),
        ("https://holdfast.example.org", "https://holdfast.example.org/path"),
        ('url = "https://holdfast.example.org"', ""),
        ("https://login.example.org/realms/corp", "http://login.example.org/realms/corp"),
        ("https://login.example.org/realms/corp", "https://user:word@login.example.org/"),
        ("https://login.example.org/realms/corp", "https://login.example.org/?a=b"),
        ('team = "ops"', 'team = "../ops"'),
        ('name = "corp"', 'name = "proxy"'),
        ('name = "corp"', 'name = "../corp"'),
        ("X-Forwarded-User", "Authorization"),
        ('"10.0.0.5"', '"10.0.0.0/8"'),
        ("hours = 8", "hours = 0"),
        ("hours = 8", "hours = 100000"),
        ("[proxy]", "[proxy"),
    ],
)
def test_wrong_values_in_them_are_refused(old: str, new: str, tmp_path: Path) -> None:
    assert WHOLE.count(old) >= 1
    with pytest.raises(InvalidArgument, match="settings of sign-in"):
        read(tmp_path, WHOLE.replace(old, new))


def issuer(**more: Any) -> Issuer:
    rules = [
        {"claim": "groups", "value": "ops", "role": "admin", "team": "ops"},
        {"claim": "realm_access.roles", "value": "dev", "role": "member"},
        {"claim": "realm_access.roles", "value": "guest", "role": "viewer"},
    ]
    told = {"name": "corp", "url": "https://login.test", "client": "holdfast", "role": rules} | more
    return Issuer.model_validate(told)


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({"groups": ["dev", "ops"]}, {"ops": "admin"}),
        ({"groups": "ops"}, {"ops": "admin"}),
        ({"groups": "ops,dev"}, None),
        ({"groups": ["opss"]}, None),
        ({"groups": {"ops": True}}, None),
        ({"groups": [["ops"]]}, None),
        ({"groups": None}, None),
        ({"realm_access": {"roles": ["dev"]}}, {"": "member"}),
        ({"realm_access.roles": ["dev"]}, {"": "member"}),
        ({"groups": ["ops"], "realm_access.roles": ["dev", "guest"]}, {"ops": "admin", "": "member"}),
        ({"realm_access.roles": ["guest"]}, {"": "viewer"}),
        ({"realm_access": ["roles", "dev"]}, None),
        ({}, None),
    ],
)
def test_a_rule_is_met_by_its_value_alone(claims: dict[str, Any], roles: dict[str, str] | None) -> None:
    """Of several for one team the first counts."""
    whole = {"sub": "u", "preferred_username": "ada", **claims}
    if roles is None:
        with pytest.raises(NotPermitted, match="not given a role"):
            issuer().person_of(whole)
    else:
        assert issuer().person_of(whole).roles == roles


def test_everyone_else_are_those_whom_no_rule_before_fits() -> None:
    """A rule without a claim adds nothing to the rights given by earlier ones, and nothing behind it
    counts."""
    rules = [
        {"claim": "groups", "value": "ops", "role": "admin", "team": "ops"},
        {"role": "viewer", "team": "all"},
        {"claim": "groups", "value": "dev", "role": "admin"},
    ]
    for groups, roles in ((["ops", "dev"], {"ops": "admin"}), (["dev"], {"all": "viewer"})):
        told = {"sub": "u", "preferred_username": "ada", "groups": groups}
        assert issuer(role=rules).person_of(told).roles == roles


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-ada",
        "ada lovelace",
        "ada/root",
        "ada:x",
        "ada#1",
        "x" * 33,
        "аda",
        "ada\n",
        ["ada", "eve"],
        None,
        7,
    ],
)
def test_a_name_that_could_be_read_otherwise_is_refused(name: Any) -> None:
    """It is not changed to fit: two people could then have one name."""
    everyone = issuer(role=[{"role": "viewer"}])
    assert everyone.person_of({"sub": "u", "preferred_username": "Ada"}).name == "ada"
    with pytest.raises(NotPermitted, match="cannot be a name"):
        everyone.person_of({"sub": "u", "preferred_username": name})


def test_an_address_counts_if_it_is_verified_and_of_its_domain() -> None:
    mail = issuer(person="email", suffix="@example.org", role=[{"role": "viewer"}])
    right = {"sub": "u", "email": "ada@example.org", "email_verified": True}
    assert mail.person_of(right).name == "ada"
    for wrong in (
        {"email_verified": False},
        {"email_verified": "true"},
        {"email": "ada@evil.test"},
        {"email": "ada@example.org.evil.test"},
        {"email": "ada@evil.test@example.org"},
    ):
        with pytest.raises(NotPermitted):
            mail.person_of(right | wrong)


@pytest.mark.parametrize(
    "text", ["", "X-User", "X-User=", "=127.0.0.1", "X-User=10.0.0.0/8", "Cookie=unix", "X User=unix"]
)
def test_a_proxy_without_an_address_is_refused(text: str) -> None:
    """A header that everyone could send would let everyone in."""
    with pytest.raises(InvalidArgument, match="cannot trust"):
        issuer_settings.of_header(text)
    assert issuer_settings.of_header("X-User=127.0.0.1,unix").peers == ("127.0.0.1", "unix")
