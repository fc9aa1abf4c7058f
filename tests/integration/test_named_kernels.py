"""Kernels of a session in addition to the main one: opened, used, copied with the session, closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving

from holdfast import InvalidArgument, KernelDied, KernelNotFound, SessionBusy
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.guest_rpc import guest_client


@pytest.fixture
def plain(shared: Session) -> Iterator[Session]:
    """The shared session, which has its main kernel only before and after the test."""
    yield shared
    for kernel in shared.kernels.list()[1:]:
        shared.kernels.close(kernel.name, force=True)


def names(session: Session) -> list[str]:
    return [kernel.name for kernel in session.kernels.list()]


def test_a_kernel_has_its_own_variables_and_directory(plain: Session) -> None:
    opened = plain.kernels.open("second", cwd="/tmp")
    assert (opened.name, opened.spec, opened.language, opened.cwd) == ("second", "python3", "python", "/tmp")
    plain.cell("x = 'there'", kernel="second")
    plain.cell("x = 'here'")
    assert plain.cell("import os; x, os.getcwd()", kernel="second").text == "('there', '/tmp')"
    assert plain.cell("x").text == "'here'"
    assert plain.kernels.open("second").pid == opened.pid
    plain.kernel.restart("second")
    assert plain.cell("import os; os.getcwd()", kernel="second").text == "'/tmp'"
    assert names(plain) == ["main", "second"]


def test_invalid_opening_and_closing_is_refused(plain: Session) -> None:
    for name in ("", "../x", "x" * 41):
        with pytest.raises(InvalidArgument):
            plain.kernels.open(name)
    with pytest.raises(InvalidArgument, match="no such directory"):
        plain.kernels.open("second", cwd="/no/such")
    with pytest.raises(KernelNotFound, match="no-such"):
        plain.kernels.open("second", spec="no-such")
    with pytest.raises(InvalidArgument, match="always has it"):
        plain.kernels.close("main")
    with pytest.raises(KernelNotFound):
        plain.kernels.close("second")
    assert names(plain) == ["main"]


def test_a_kernel_that_runs_a_cell_is_closed_by_force_only(plain: Session) -> None:
    plain.kernels.open("second")
    left = plain.cell("import time; time.sleep(600)", kernel="second", patience=1)
    with pytest.raises(SessionBusy, match="a cell is running"):
        plain.kernels.close("second")
    plain.kernels.close("second", force=True)
    with pytest.raises(KernelNotFound):
        plain.kernel.join(left.cell_id, kernel="second")
    assert names(plain) == ["main"]


def test_a_caller_of_a_kernel_that_is_closed_learns_of_it(plain: Session) -> None:
    plain.kernels.open("second")
    with pytest.raises(KernelDied):
        plain.cell(
            "print('now', flush=True); import time; time.sleep(600)",
            kernel="second",
            on_event=lambda _: plain.kernels.close("second", force=True),
        )


def test_kernels_are_copied_with_their_session(plain: Session, shared_hf: Holdfast) -> None:
    plain.kernels.open("second", cwd="/tmp")
    plain.cell("x = 42", kernel="second")
    (copy,) = plain.fork(1, name="copied")
    with copy:
        assert names(copy) == ["main", "second"]
        assert copy.cell("x", kernel="second").text == "42"
        copy.kernels.close("second")
    assert shared_hf.session("copied").state == "running"
    copy.remove()
    assert plain.cell("x", kernel="second").text == "42"


def test_a_kernel_that_does_not_start_takes_no_place(plain: Session) -> None:
    """At most 16 can be open."""
    for number in range(20):
        with pytest.raises(KernelNotFound):
            plain.kernels.open(f"k{number}", spec="no-such")
    assert names(plain) == ["main"]


def test_code_before_a_cell_leaves_no_trace(plain: Session) -> None:
    seen: list[str] = []
    count = plain.cell("1").execution_count or 0
    found = plain.cell(
        "given + 1",
        before="given = 41; print('unseen'); raise ValueError",
        on_event=lambda event: seen.append(event.kind),
    )
    assert (found.text, found.execution_count, seen) == ("42", count + 1, ["execute_result"])


def test_only_the_cell_that_is_meant_is_interrupted(plain: Session) -> None:
    left = plain.cell("import time; time.sleep(600)", patience=1)
    plain.kernel.interrupt(cell_id="another")
    assert plain.kernel.join(left.cell_id, patience=0.5).status == "running"
    plain.kernel.interrupt(cell_id=left.cell_id)
    assert plain.kernel.join(left.cell_id).status == "interrupted"


def test_named_kernels_are_served(plain: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> None:
    path = "/v1/sessions/shared/kernels"

    def listed(server: Served) -> list[str]:
        return [each["name"] for each in server.get(path)]

    with serving(make_cli(shared_home), shared_home) as server:
        made = server.post(path, {"name": "second", "cwd": "/tmp"}, 201)
        assert (made["name"], made["language"], made["cwd"], made["epoch"]) == ("second", "python", "/tmp", 1)
        asked = {"code": "import os; print(os.getcwd())", "kernel": "second"}
        assert server.post("/v1/sessions/shared/cells", asked)["stdout"] == "/tmp\n"
        assert listed(server) == ["main", "second"]
        assert [each["name"] for each in server.get("/v1/sessions/shared/kernel-specs")] == ["python3"]
        assert (
            server.post(path, {"name": "third", "spec": "no-such"}, 404)["error"]["code"]
            == "kernel_not_found"
        )
        server.call("DELETE", f"{path}/second", status=204)
        server.call("DELETE", f"{path}/second", status=404)
        server.call("DELETE", f"{path}/main", status=400)
        assert listed(server) == ["main"]


SPEC = """
import json, os, pathlib
place = pathlib.Path.home() / ".local/share/jupyter/kernels"
for name in ("mine", "pipe"):
    (place / name).mkdir(parents=True, exist_ok=True)
argv = ["sh", "-c", "sleep 2; exec python -m ipykernel_launcher -f $0", "{connection_file}"]
spec = {"argv": argv, "display_name": "Mine \\x1b[31mred", "language": "python", "env": {"MINE": "1"}}
(place / "mine" / "kernel.json").write_text(json.dumps(spec))
if not (place / "pipe" / "kernel.json").exists():
    os.mkfifo(place / "pipe" / "kernel.json")
"""


@pytest.mark.thorough
def test_any_spec_that_is_found_can_be_opened(
    plain: Session, shared_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listed as text that is safe to show; a spec that would hold up its reader is passed over."""
    assert plain.cell(SPEC).ok
    specs = plain.kernels.specs()
    assert [(each.name, each.language) for each in specs] == [("mine", "python"), ("python3", "python")]
    assert "\x1b" not in specs[0].display_name
    opened = shared_cli("kernels", plain.name, "open", "other", "--spec", "mine")
    assert (opened.code, opened.out, opened.err) == (0, "", "")
    code = "import os; print(os.environ['MINE'])"
    assert shared_cli("cell", plain.name, "--kernel", "other", code).out == "1\n"
    listed = shared_cli("kernels", plain.name).out
    assert "other" in listed
    assert "Mine" in listed
    shared_cli("kernels", plain.name, "close", "other")
    assert names(plain) == ["main"]
    monkeypatch.setattr(guest_client, "ANSWER_SECONDS", 1.0)  # other answers take milliseconds
    plain.kernels.open("slow", spec="mine")
    plain.kernel.restart("slow")
    monkeypatch.undo()
    plain.kernels.close("slow")
    assert plain.exec("rm -r ~/.local/share/jupyter").ok
