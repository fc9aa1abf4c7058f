"""Certificate authorities of the host that go into images, and images that differ only in these.

Behind a proxy that re-signs TLS, nothing in a session could install or fetch anything without the authority
the host was given. Only what an administrator added is carried over: the distribution's own authorities come
with the image. The tag of an image covers them. Where others are trusted (another shell, another machine that
an image was carried to), it is not found under the tag that is wanted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base import trust_variables
from holdfast.errors import ImageError
from holdfast.images.build_context import BuildContext

if TYPE_CHECKING:
    from holdfast.engine.engine_images import EngineImages

# Where the bundle is on Debian, Ubuntu and Alpine; Fedora; older RHEL; openSUSE.
SYSTEM_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
)
# Debian and Ubuntu keep the distribution's authorities apart from those an administrator added.
DISTRIBUTION_FOLDER = Path("/usr/share/ca-certificates")

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----")


def certificates(pem: bytes) -> set[bytes]:
    """Return the certificates in a PEM text, each as base64 without its line ends."""
    return {b"".join(body.split()) for body in _PEM.findall(pem)}


def encode(der: bytes) -> bytes:
    """Return one certificate as PEM, always in the same lines."""
    body = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n".encode()


def additions(bundle: bytes, distribution: Iterable[bytes]) -> dict[str, bytes]:
    """Return the certificates of `bundle` that are missing from all PEM texts of `distribution`: file name to
    PEM.

    Those that are not base64 are left out.
    """
    found = {}
    for text in certificates(bundle) - certificates(b"\n".join(distribution)):
        try:
            der = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
        found[hashlib.sha256(der).hexdigest()] = der
    return {f"holdfast-{name[:16]}.crt": encode(der) for name, der in sorted(found.items())}


def host_bundle(environ: Mapping[str, str] = os.environ) -> bytes:
    """Return the bundle that $SSL_CERT_FILE names, else the system's with those of `trust_variables.ADDING`.

    Raises:
        ImageError: a variable names something that cannot be read.
    """
    if named := environ.get(trust_variables.REPLACING):
        return _named(Path(named), trust_variables.REPLACING)
    found = [_named(path, name) for path, name in trust_variables.added(environ).items()]
    return b"\n".join([_system(), *found])


def _named(path: Path, variable: str) -> bytes:
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return b"\n".join(file.read_bytes() for file in files if file == path or file.is_file())
    except OSError as error:
        raise ImageError(
            f"cannot read the certificate bundle {path}: {error.strerror}",
            hint=f"{variable} names it; correct or unset that variable",
        ) from error


def _system() -> bytes:
    for path in SYSTEM_BUNDLES:
        try:
            return path.read_bytes()
        except OSError:
            continue
    return b""


def host_additions(environ: Mapping[str, str] = os.environ) -> dict[str, bytes]:
    """Return the authorities the host trusts beyond its distribution: file name to PEM."""
    paths = sorted(DISTRIBUTION_FOLDER.rglob("*.crt")) if DISTRIBUTION_FOLDER.is_dir() else []
    return additions(host_bundle(environ), (path.read_bytes() for path in paths))


AUTHORITIES = "host-ca/"
"""The folder of a context that has them."""
_KIND, _CONTENT, _TRUSTED = "holdfast.image", "holdfast.content", "holdfast.authorities"


@dataclass(frozen=True, slots=True)
class ImageRelative:
    """An image with different authorities: `more` are not trusted here, `fewer` are trusted only here."""

    tag: str
    more: int
    fewer: int

    def __str__(self) -> str:
        """Return the difference, for a message."""
        count = f"{self.more} more, {self.fewer} fewer"
        return f"{self.tag} is the same with other certificate authorities ({count})"

    def hint(self, wanted: str) -> str:
        """Return the remedy."""
        return (
            f"`docker tag {self.tag} {wanted}` uses it as it is; "
            "SSL_CERT_FILE names the authorities that are trusted here, and go into images"
        )


def labels(made_of: BuildContext) -> dict[str, str]:
    """Return the labels that find the image whatever its authorities are."""
    return {
        _KIND: made_of.kind,
        _CONTENT: _content(made_of),
        _TRUSTED: " ".join(sorted(_trusted(made_of))),
    }


def find(images: EngineImages, made_of: BuildContext) -> ImageRelative | None:
    """Return the newest image with the same content; None if no image has it."""
    found = images.listed(holdfast_image=made_of.kind, holdfast_content=_content(made_of))
    ours = _trusted(made_of)
    for image in sorted(found, key=lambda each: -each.created):
        for tag in image.tags:
            theirs = set(image.labels.get(_TRUSTED, "").split())
            if tag.startswith(f"holdfast/{made_of.kind}:"):
                return ImageRelative(tag, len(theirs - ours), len(ours - theirs))
    return None


def _content(made_of: BuildContext) -> str:
    return made_of.without(AUTHORITIES).digest


def _trusted(made_of: BuildContext) -> set[str]:
    names = (name.removeprefix(AUTHORITIES) for name in made_of.files if name.startswith(AUTHORITIES))
    return {name.removesuffix(".crt") for name in names if name.endswith(".crt")}
