"""Identity tokens that are not what a sign-in expects are refused, whatever their maker."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from holdfast.errors import NotPermitted
from holdfast.runtime.sign_in.identity_tokens import Expected, UnknownKey, claims_of

NOW = 1_800_000_000.0
ISSUER, CLIENT, NONCE = "https://login.test", "holdfast", "the nonce of this sign-in"
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
STRANGER = RSAKey.generate_key(2048, {"kid": "one"})
CURVE = ECKey.generate_key("P-256", {"kid": "two"})
KEYS: dict[str, Any] = {"keys": [KEY.as_dict(private=False), CURVE.as_dict(private=False)]}
EXPECTED = Expected(ISSUER, CLIENT, NONCE, issued_after=NOW - 10)
RIGHT: dict[str, Any] = {
    "iss": ISSUER, "aud": CLIENT, "sub": "u-ada", "nonce": NONCE, "iat": int(NOW) - 5, "exp": int(NOW) + 300,
}  # fmt: skip


def token(key: Any = KEY, header: dict[str, Any] | None = None, **changed: Any) -> str:
    """Return a token with some claims changed; None leaves one out."""
    claims = {name: value for name, value in (RIGHT | changed).items() if value is not None}
    return jwt.encode(
        header or {"alg": "RS256", "kid": "one"}, claims, key, algorithms=["RS256", "ES256", "HS256"]
    )


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def mac(secret: bytes, kid: str) -> str:
    """Return a token that anyone who knows a secret can make."""
    text = f"{part({'alg': 'HS256', 'kid': kid})}.{part(RIGHT)}"
    made = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


def test_a_token_that_is_right_is_accepted() -> None:
    assert claims_of(token(), KEYS, EXPECTED, NOW)["sub"] == "u-ada"
    assert claims_of(token(CURVE, {"alg": "ES256", "kid": "two"}), KEYS, EXPECTED, NOW)["sub"] == "u-ada"
    both = token(aud=[CLIENT, "another"], azp=CLIENT)
    assert claims_of(both, KEYS, EXPECTED, NOW)["sub"] == "u-ada"
    lax = Expected(ISSUER, CLIENT, NONCE, nonce_may_lack=True)
    assert claims_of(token(nonce=None), KEYS, lax, NOW)["sub"] == "u-ada"


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://other.test"},
        {"iss": f"{ISSUER}/"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": [CLIENT, "another"]},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"azp": "another"},
        {"aud": None},
        {"aud": {CLIENT: 1}},
        {"exp": int(NOW) - 31},
        {"exp": None},
        {"exp": "never"},
        {"exp": True},
        {"iat": int(NOW) - 3600},
        {"iat": int(NOW) + 3600},
        {"iat": None},
        {"nbf": int(NOW) + 3600},
        {"nonce": None},
        {"nonce": "of another sign-in"},
        {"nonce": [NONCE]},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
    ],
)
def test_a_claim_that_is_not_right_is_refused(changed: dict[str, Any]) -> None:
    """Of another issuer, client or sign-in, too old, or for no one; an optional nonce must still be right."""
    lax = Expected(ISSUER, CLIENT, NONCE, nonce_may_lack=True, issued_after=NOW - 10)
    for expected in (EXPECTED, lax):
        if expected is lax and changed == {"nonce": None}:
            continue
        with pytest.raises(NotPermitted):
            claims_of(token(**changed), KEYS, expected, NOW)


def test_a_signature_that_anyone_can_make_is_refused() -> None:
    """`none`, a MAC with the public key as its secret, and a key that the token brings along."""
    public = KEY.as_dict(private=False)
    pem = KEY.public_key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secrets = [pem, pem.strip(), json.dumps(public).encode(), str(public["n"]).encode()]
    forged = [mac(each, "one") for each in secrets]
    forged += [f"{part({'alg': alg})}.{part(RIGHT)}." for alg in ("none", "None", "NONE", "")]
    other_subject = part(RIGHT | {"sub": "u-eve"})
    own = STRANGER.as_dict(private=False)
    forged += [
        token(STRANGER),
        f"{part({'alg': 'RS256', 'kid': 'one', 'jwk': own})}.{token(STRANGER).partition('.')[2]}",
        f"{part({'alg': 'RS256', 'kid': 'one', 'jku': 'https://evil.test'})}.{token(STRANGER).partition('.')[2]}",
        f"{part({'alg': 'RS256', 'kid': 'one', 'crit': ['b64'], 'b64': False})}.{token().partition('.')[2]}",
        token()[:-4] + "AAAA",
        f"{part({'alg': 'RS256', 'kid': 'one'})}.{other_subject}.{token().rpartition('.')[2]}",
    ]
    for each in forged:
        with pytest.raises(NotPermitted):
            claims_of(each, KEYS, EXPECTED, NOW)


def test_a_symmetric_key_of_an_issuer_is_not_used() -> None:
    """An issuer that published one by mistake would let everyone sign."""
    secret = b"known to everyone who reads the set"
    known = base64.urlsafe_b64encode(secret).decode().rstrip("=")
    keys = {"keys": [*KEYS["keys"], {"kty": "oct", "k": known, "kid": "three"}]}
    with pytest.raises(NotPermitted):
        claims_of(mac(secret, "three"), keys, EXPECTED, NOW)


@pytest.mark.parametrize(
    "text", ["", ".", "a.b", "a.b.c", "\x00.\x00.\x00", "é.é.é", "x" * 20_000, "....", "[" * 9]
)
def test_malformed_tokens_are_refused(text: str) -> None:
    sets: list[dict[str, Any]] = [KEYS, {}, {"keys": []}, {"keys": [None, 7, {"kty": "RSA"}]}]
    for keys in sets:
        with pytest.raises(NotPermitted):
            claims_of(text, keys, EXPECTED, NOW)


def test_a_key_that_the_issuer_has_made_since_is_distinguished() -> None:
    """Its keys are fetched once more then, and for nothing else."""
    later = RSAKey.generate_key(2048, {"kid": "later"})
    with pytest.raises(UnknownKey):
        claims_of(token(later, {"alg": "RS256", "kid": "later"}), KEYS, EXPECTED, NOW)
