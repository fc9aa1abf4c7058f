"""Identity tokens: judged against the keys of their issuer.  Pure.

Only signatures that the issuer alone can make are looked at, whatever a token's header says: neither
`none` nor a MAC, for which the issuer's public key could be taken as the secret. Does not use the network.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from holdfast.errors import NotPermitted

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
LEEWAY_SECONDS = 30
"""Between the clocks of two machines."""
MOST_TOKEN = 16 << 10


class UnknownKey(Exception):
    """The key that signed a token is not among the issuer's keys, which change now and then."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The claims that a token must have."""

    issuer: str
    client: str
    nonce: str
    nonce_may_lack: bool = False
    issued_after: float = 0.0


def claims_of(
    text: str, keys: Mapping[str, Any], expected: Expected, now: float | None = None
) -> dict[str, Any]:
    """Return the claims of a token.

    Raises:
        UnknownKey: it was signed with a key that is not among `keys`, a JWK set.
        NotPermitted: it is not the expected one.
    """
    now = time.time() if now is None else now
    if len(text) > MOST_TOKEN:
        raise NotPermitted("cannot accept the identity token: it is too long")
    try:
        usable = KeySet.import_key_set({"keys": [each for each in keys["keys"] if _is_public(each)]})
        token = jwt.decode(text, usable, algorithms=list(ALGORITHMS))
        claims = CodeIDToken(
            token.claims,
            token.header,
            {"iss": {"essential": True, "value": expected.issuer}, "exp": {"essential": True}},
            {"client_id": expected.client},
        )
        claims.validate(int(now), LEEWAY_SECONDS)
    except InvalidKeyIdError as error:
        raise UnknownKey("cannot accept the identity token: its issuer does not have that key") from error
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = str(error).partition("\n")[0][:120] or type(error).__name__
        raise NotPermitted(f"cannot accept the identity token: {why}") from error
    _check(dict(claims), expected, now)
    return dict(claims)


def _check(claims: Mapping[str, Any], expected: Expected, now: float) -> None:
    """Check the claims that the library leaves to its caller."""
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or expected.client not in audiences:
        raise NotPermitted("cannot accept the identity token: it is for a different client")
    if len(audiences) > 1 and claims.get("azp") != expected.client:
        raise NotPermitted("cannot accept the identity token: it was given to a different client")
    subject, issued, ends = claims.get("sub"), claims.get("iat"), claims.get("exp")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise NotPermitted("cannot accept the identity token: it does not name a person")
    if (
        not (isinstance(issued, int | float) and isinstance(ends, int | float))
        or now >= ends + LEEWAY_SECONDS
    ):
        raise NotPermitted("cannot accept the identity token: it has expired")
    if issued < expected.issued_after - LEEWAY_SECONDS or issued > now + LEEWAY_SECONDS:
        raise NotPermitted("cannot accept the identity token: it was not made for this sign-in")
    nonce = claims.get("nonce")
    if nonce is None and expected.nonce_may_lack:
        return
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise NotPermitted(
            "cannot accept the identity token: its nonce belongs to a different sign-in",
            hint="" if nonce is not None else "the issuer leaves it out; see `nonce` in docs/sign-in.md",
        )


def _is_public(key: Any) -> bool:
    """Return whether a key is one half of a pair that signs: a symmetric one could be anyone's."""
    return (
        isinstance(key, dict)
        and key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use", "sig") == "sig"
        and key.get("crv") not in ("X25519", "X448")
    )
