"""Kernels of other languages, as their authors publish them: R, bash, Scheme and JavaScript."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.integration.any_image import image

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(1200)

RECIPE = """
FROM {session}
RUN apt-get update -q && apt-get install -q -y --no-install-recommends r-cran-irkernel
RUN pip install -q bash_kernel calysto_scheme && python -m bash_kernel.install --sys-prefix
WORKDIR /opt/python/share/jupyter/kernels
RUN mkdir -p calysto_scheme ir
RUN echo '{{"argv": ["python", "-m", "calysto_scheme", "-f", "{{connection_file}}"]}}' \\
    >calysto_scheme/kernel.json
RUN echo '{{"argv": ["R", "--slave", "-e", "IRkernel::main()", "--args", "{{connection_file}}"]}}' \\
    >ir/kernel.json
WORKDIR /workspace
"""
# Its sockets have names of their own: `c:1` where others have `c-1`.
JAVASCRIPT = """
FROM {session}
RUN apt-get update -q && apt-get install -q -y --no-install-recommends nodejs npm
RUN NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt npm install -g --no-audit --no-fund tslab
WORKDIR /opt/python/share/jupyter/kernels/tslab
RUN echo '{{"argv": ["tslab", "kernel", "--js", "--config-path={{connection_file}}"]}}' >kernel.json
WORKDIR /workspace
"""
LANGUAGES = {"bash": "bash", "calysto_scheme": "scheme", "ir": "r"}
GROW = {
    "bash": "x=$((x + 1)); echo $x",
    "calysto_scheme": "(set! x (+ x 1)) x",
    "ir": "x <- x + 1; print(x)",
}


def _grown(session: Session, spec: str) -> str:
    ran = session.cell(GROW[spec], kernel=spec)
    assert ran.ok, ran
    return (ran.stdout + (ran.text or "")).split()[-1]


def test_three_languages_at_once(hf: Holdfast, image: Callable[..., str]) -> None:
    """Each runs cells next to the others, and is captured and forked with its variables."""
    name = image("languages", RECIPE)
    session = hf.new("it", image=name)
    assert [each.name for each in session.kernels.specs()] == [*LANGUAGES, "python3"]
    for spec, language in LANGUAGES.items():
        assert session.kernels.open(spec, spec=spec).language == language
    for spec, code in {"bash": "x=40", "calysto_scheme": "(define x 40)", "ir": "x <- 40"}.items():
        assert session.cell(code, kernel=spec).ok
    shown = session.cell("data.frame(a = 1:2)", kernel="ir")
    assert "text/html" in shown.outputs[-1].data
    for spec, code in {
        "calysto_scheme": '(input "name? ")',
        "ir": "y <- readline('name? '); print(y)",
    }.items():
        answered = session.cell(code, kernel=spec, on_input=lambda _prompt, _hidden: "ada")
        assert "ada" in answered.stdout + str(answered.text)
    taken = session.snapshot()
    assert taken.kind == "live"
    for copy in (*session.fork(2), taken.restore()):
        for spec in LANGUAGES:
            assert _grown(copy, spec) == "41"
        for spec, code in {"bash": "sleep 600", "ir": "Sys.sleep(600)"}.items():
            left = copy.cell(code, kernel=spec, patience=2)
            copy.kernel.interrupt(spec, cell_id=left.cell_id)
            assert copy.kernel.join(left.cell_id, kernel=spec).status in ("interrupted", "error")
            assert _grown(copy, spec) == "42"
    assert _grown(session, "ir") == "41"


def test_one_of_them_as_the_kernel_of_cells(hf: Holdfast, image: Callable[..., str]) -> None:
    """Cells run in the kernel that `new` chose, also after a restart in a restored session."""
    session = hf.new("it", image=image("languages", RECIPE), kernel="ir")
    assert session.cell("print(R.version$major)").ok
    copy = session.snapshot().restore()
    copy.kernel.restart()
    assert [each.spec for each in copy.kernels.list()] == ["ir"]
    assert copy.cell("nchar('four')").ok


def _shown(session: Session, code: str) -> str:
    """Run a cell again until the kernel takes it: for 0.2 s after a failed one, it drops all others."""
    deadline = time.monotonic() + 60
    while (ran := session.cell(code)).status == "interrupted":
        assert time.monotonic() < deadline, "it drops every cell"
    return ran.stdout


def test_javascript(hf: Holdfast, image: Callable[..., str]) -> None:
    """It shows what is rich, waits for promises, is interrupted, and continues in copies."""
    session = hf.new("it", image=image("javascript", JAVASCRIPT), kernel="tslab")
    assert session.cell("let x = 40; x").stdout == "40\n"
    assert [each.language for each in session.kernels.list()] == ["javascript"]
    shown = session.cell("require('tslab').display.html('<b>bold</b>')")
    assert shown.outputs[-1].data == {"text/html": "<b>bold</b>"}
    assert "Cannot find name 'missing'" in session.cell("missing").stderr
    assert _shown(session, "x") == "40\n"
    taken = session.snapshot()
    assert taken.kind == "live"
    for copy in (*session.fork(2), taken.restore()):
        assert copy.cell("x += 1; x").stdout == "41\n"
        for busy in ("for (;;) {}", "await new Promise(done => setTimeout(done, 600000))"):
            left = copy.cell(busy, patience=2)
            copy.kernel.interrupt(cell_id=left.cell_id)
            assert copy.kernel.join(left.cell_id).status == "error"
            assert _shown(copy, "x") == "41\n"
    assert session.cell("x").stdout == "40\n"
