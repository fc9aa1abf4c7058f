"""Decides whether a bundle may come in: by who signed it, and by what is wanted of it. Pure."""

from __future__ import annotations

from holdfast.errors import BundleUntrusted

FILES = "its files alone can be had without trust: --files-only"


def check(name: str, signed_by: str | None, trusted_as: str | None, *, files_only: bool) -> None:
    """Refuse what nobody vouches for, except its files when only those are wanted.

    Memory and processes of a snapshot are code that runs at once, as whoever made it left it; files are what
    any image is.

    Raises:
        BundleUntrusted: with the command that would trust it.
    """
    if files_only or trusted_as is not None:
        return
    if signed_by is None:
        raise BundleUntrusted(
            f"cannot import {name}: it is not signed",
            hint=f"where it was made: export it once more, which signs it; {FILES}",
        )
    raise BundleUntrusted(
        f"cannot import {name}: it is signed by a key you do not trust ({signed_by})",
        hint=f"if that is whom you expect: `holdfast key trust {signed_by}`; {FILES}",
    )


def made(key: str) -> str:
    """What is said of a key that was made because there was none to sign with."""
    return f"a key to sign with was made, as there was none; where it is to count: `holdfast key trust {key}`"
