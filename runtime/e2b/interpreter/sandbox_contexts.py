"""The contexts of a sandbox: kernels of its session, found or opened; in a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.errors import InvalidArgument, KernelNotFound
from holdfast.runtime.api.session import Session
from holdfast.runtime.e2b.interpreter import context_languages as languages
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.guest import defaults
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo

SECOND = "javascript"
"""The language, and the id, of the other context that every sandbox of E2B's template has."""


def described(kernel: KernelInfo) -> dict[str, Any]:
    """Return a context for a client."""
    return {"id": kernel.name, "language": languages.language_of(kernel), "cwd": kernel.cwd}


def listed(found: Session) -> list[dict[str, Any]]:
    """Return all contexts, the one that every sandbox has first, then the one that E2B begins with as well.

    The latter's process is started by the first code for it.
    """
    kernels = found.kernels.list()
    facts = SandboxFacts.of(found.row)
    if facts is None or not _waits(found, SECOND, kernels):
        return [described(each) for each in kernels]
    waiting = {"id": SECOND, "language": SECOND, "cwd": facts.home or ""}
    return [described(kernels[0]), waiting, *map(described, kernels[1:])]


def _waits(found: Session, context: str, kernels: Iterable[KernelInfo]) -> bool:
    """Return whether a context is listed that has no kernel yet."""
    facts = SandboxFacts.of(found.row)
    has = context == SECOND and facts is not None and facts.javascript
    return has and all(each.name != context for each in kernels)


def opened(found: Session, language: str, cwd: str | None, name: str | None = None) -> KernelInfo:
    """Open a context; its id is made up if none is given.

    Raises:
        InvalidArgument: the sandbox has no kernel for this language, or no such directory.
    """
    if name is not None:
        for kernel in found.kernels.list():
            if kernel.name == name:  # of whichever of these specs the image has
                return kernel
    for spec in languages.specs_of(language):
        try:
            return found.kernels.open(name or languages.new_context(language), spec=spec, cwd=cwd)
        except KernelNotFound:
            continue
    raise languages.unavailable(language)


def removed(found: Session, context: str) -> None:
    """End a context, and what runs in it.

    Raises:
        KernelNotFound: there is none of that id.
        InvalidArgument: it is the one that every sandbox has.
    """
    name = languages.context_named(context)
    if name == defaults.MAIN:
        raise InvalidArgument(
            "cannot remove the context main: every sandbox has it", hint="restart it to clear it"
        )
    if not _waits(found, name, found.kernels.list()):
        found.kernels.close(name, force=True)


def restarted(found: Session, context: str) -> None:
    """Restart a context.

    Raises:
        KernelNotFound: there is none of that id.
    """
    name = languages.context_named(context)
    if not _waits(found, name, found.kernels.list()):
        found.kernel.restart(name)


def chosen(found: Session, context: str | None, language: str | None) -> tuple[str, str | None]:
    """Return the context for an execution, and its language if that is known without asking the session.

    Raises:
        InvalidArgument: both are given, or the sandbox has no kernel for this language.
        KernelNotFound: there is no context of that id.
    """
    if context and language:
        raise InvalidArgument("cannot run code: it names a context and a language; name one of them")
    if context and context != SECOND:
        name = languages.context_named(context)
        return name, languages.PYTHON if name == defaults.MAIN else None
    wanted = languages.language_named(context or language)
    name = languages.shared_context(wanted)
    if name != defaults.MAIN:
        opened(found, wanted, None, name)
    return name, wanted


def language_in(found: Session, context: str) -> str:
    """Return the language of a context.

    Raises:
        KernelNotFound: there is none of that id.
    """
    for each in found.kernels.list():
        if each.name == context:
            return languages.language_of(each)
    raise KernelNotFound(f"cannot find the context {context}: the sandbox has none of that id")
