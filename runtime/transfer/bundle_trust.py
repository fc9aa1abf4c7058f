"""Decides whether a bundle may be imported, by its signer and by the parts that are wanted. Pure."""

from __future__ import annotations

from holdfast.errors import BundleUntrusted

FILES = "its files alone can be had without trust: --files-only"


def check(name: str, signed_by: str | None, trusted_as: str | None, *, files_only: bool) -> None:
    """Refuse a bundle without a trusted signature, unless only its files are wanted.

    Memory and processes of a snapshot are code that runs at once, as its author left it; files are no more
    than those of any image.

    Raises:
        BundleUntrusted: with the command that would trust it.
    """
    if files_only or trusted_as is not None:
        return
    if signed_by is None:
        raise BundleUntrusted(
            f"cannot import {name}: it is not signed",
            hint=f"on the machine it comes from, export it again, which signs it; {FILES}",
        )
    raise BundleUntrusted(
        f"cannot import {name}: it is signed by a key you do not trust ({signed_by})",
        hint=f"if you expect this signer: `holdfast key trust {signed_by}`; {FILES}",
    )


def made(key: str) -> str:
    """Describe a key that was made because there was none to sign with."""
    return (
        f"a key to sign with was made, as there was none; to trust it elsewhere: `holdfast key trust {key}`"
    )
