"""Languages of contexts, and the kernels that run them.  Pure."""

from __future__ import annotations

import re
import secrets

from holdfast.errors import InvalidArgument, KernelNotFound
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo

PYTHON = "python"
SPECS = {
    PYTHON: ("python3",),
    "javascript": ("javascript", "jslab", "deno"),
    "typescript": ("deno", "tslab"),
    "r": ("ir", "r"),
    "bash": ("bash",),
    "java": ("java",),
}
"""Jupyter's names of kernels for a language; the first that a session's image has is used."""
_SHORT = {"js": "javascript", "ts": "typescript", "python3": PYTHON, "py": PYTHON}
_LANGUAGE = re.compile(r"[a-z0-9_+.#-]{1,40}")
_CONTEXT = re.compile(r"[A-Za-z0-9_-]{1,40}")


def language_named(given: str | None) -> str:
    """Return the language that a client means; Python if it says none.

    Raises:
        InvalidArgument: it cannot be one.
    """
    language = (given or PYTHON).strip().lower()
    if not _LANGUAGE.fullmatch(language):
        raise InvalidArgument("cannot run code: the language has another form than a name")
    return _SHORT.get(language, language)


def specs_of(language: str) -> tuple[str, ...]:
    """Return the kernels that may run a language."""
    return SPECS.get(language, (language,))


def language_of(kernel: KernelInfo) -> str:
    """Return the language of a context: the one its name begins with, since a kernel may run several."""
    named = kernel.name.partition("-")[0]
    if kernel.spec in SPECS.get(named, ()):
        return named
    if kernel.language:
        return kernel.language
    return next((name for name, specs in SPECS.items() if kernel.spec in specs), kernel.spec)


def shared_context(language: str) -> str:
    """Return the id of the context in which code of a language runs if it names none."""
    return defaults.MAIN if language == PYTHON else re.sub(r"[^a-z0-9_-]", "-", language)


def new_context(language: str) -> str:
    """Return the id of a context that is to be made, which says its language."""
    return f"{language}-{secrets.token_hex(8)}" if language in SPECS else secrets.token_hex(8)


def context_named(given: str) -> str:
    """Return the id of a context.

    Raises:
        KernelNotFound: there is none of that form.
    """
    if not _CONTEXT.fullmatch(given):
        raise KernelNotFound("cannot find the context: its id has another form than those there are")
    return given


def unavailable(language: str) -> InvalidArgument:
    """Return the error for a language that a session's image has no kernel for."""
    wanted = " or ".join(specs_of(language))
    return InvalidArgument(
        f"cannot run code in {language}: the sandbox's image has no Jupyter kernel for it",
        hint=f"use an image that has one ({wanted}), or run a program of it as a command",
    )
