"""Images that are the same but for the certificate authorities in them.

The tag of an image covers the authorities of the host it was made on. Where others are trusted (another
shell, another machine that an image was carried to), it is not found under the tag that is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.images.build_context import BuildContext

if TYPE_CHECKING:
    from holdfast.engine.engine_images import EngineImages

AUTHORITIES = "host-ca/"
"""The folder of a context that has them."""
_KIND, _CONTENT, _TRUSTED = "holdfast.image", "holdfast.content", "holdfast.authorities"


@dataclass(frozen=True, slots=True)
class Relative:
    """An image with other authorities: `more` are not trusted here, `fewer` are trusted only here."""

    tag: str
    more: int
    fewer: int

    def __str__(self) -> str:
        """Return what is different about it, for a message."""
        count = f"{self.more} more, {self.fewer} fewer"
        return f"{self.tag} is the same with other certificate authorities ({count})"

    def hint(self, wanted: str) -> str:
        """Return what to do about it."""
        return (
            f"`docker tag {self.tag} {wanted}` uses it as it is; "
            "SSL_CERT_FILE names the authorities that are trusted here, and go into images"
        )


def labels(made_of: BuildContext) -> dict[str, str]:
    """Return the labels by which an image is found whatever its authorities are."""
    return {
        _KIND: made_of.kind,
        _CONTENT: _content(made_of),
        _TRUSTED: " ".join(sorted(_trusted(made_of))),
    }


def find(images: EngineImages, made_of: BuildContext) -> Relative | None:
    """Return the newest image with the same content; None if no image has it."""
    found = images.listed(holdfast_image=made_of.kind, holdfast_content=_content(made_of))
    ours = _trusted(made_of)
    for image in sorted(found, key=lambda each: -each.created):
        for tag in image.tags:
            theirs = set(image.labels.get(_TRUSTED, "").split())
            if tag.startswith(f"holdfast/{made_of.kind}:"):
                return Relative(tag, len(theirs - ours), len(ours - theirs))
    return None


def _content(made_of: BuildContext) -> str:
    return made_of.without(AUTHORITIES).digest


def _trusted(made_of: BuildContext) -> set[str]:
    names = (name.removeprefix(AUTHORITIES) for name in made_of.files if name.startswith(AUTHORITIES))
    return {name.removesuffix(".crt") for name in names if name.endswith(".crt")}
