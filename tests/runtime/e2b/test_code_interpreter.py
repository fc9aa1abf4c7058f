"""Languages of contexts."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument, KernelNotFound
from holdfast.runtime.e2b import code_interpreter
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo


def kernel(spec: str, language: str = "") -> KernelInfo:
    return KernelInfo(name="x", spec=spec, language=language)


@pytest.mark.parametrize(
    ("given", "language", "context"),
    [
        (None, "python", "main"),
        ("", "python", "main"),
        ("Python", "python", "main"),
        ("js", "javascript", "javascript"),
        ("ts", "typescript", "typescript"),
        (" R ", "r", "r"),
        ("c++", "c++", "c--"),
    ],
)
def test_a_language_has_its_context(given: str | None, language: str, context: str) -> None:
    assert code_interpreter.language_named(given) == language
    assert code_interpreter.shared_context(language) == context


@pytest.mark.parametrize("given", ["x" * 41, "a b", "../x", "\x1b[31m"])
def test_invalid_names_are_refused(given: str) -> None:
    with pytest.raises(InvalidArgument):
        code_interpreter.language_named(given)
    with pytest.raises(KernelNotFound):
        code_interpreter.context_named(given)


def test_a_context_has_the_language_of_its_kernel() -> None:
    assert code_interpreter.language_of(kernel("python3")) == "python"
    assert code_interpreter.language_of(kernel("deno", "typescript")) == "typescript"
    assert code_interpreter.language_of(kernel("other")) == "other"


def test_a_language_without_kernel_is_named() -> None:
    assert "not have a Jupyter kernel" in str(code_interpreter.unavailable("bash"))
