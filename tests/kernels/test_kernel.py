"""A real supervisor with a real ipykernel, on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.guest.wire.protocol import Frame


def text_of(frames: list[Frame], name: str = "stdout") -> str:
    return b"".join(frame.payload for frame in frames if frame.head.get("name") == name).decode()


def rich(frames: list[Frame], event: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(next(frame.payload for frame in frames if frame.event == event))
    return content


def kernel_of(guest: Guest) -> dict[str, Any]:
    state: dict[str, Any] = guest.ask("hello")[0].head["kernels"][0]
    return state


def test_a_kernel_whose_process_has_not_begun_is_starting(guest: Guest) -> None:
    """Its process waits a moment, so that the first command does not share the processor with it."""
    assert kernel_of(guest)["state"] in ("starting", "idle")
    assert guest.run_cell("1")[-1].head["status"] == "ok"
    assert (kernel_of(guest)["state"], kernel_of(guest)["epoch"]) == ("idle", 1)


def test_results_streams_and_state(guest: Guest) -> None:
    """Cells share one namespace; results are mime bundles; both streams are distinguished."""
    frames = guest.run_cell("import sys\nx = 41\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
    assert frames[0].event == "started"
    assert (text_of(frames), text_of(frames, "stderr")) == ("out\n", "err\n")
    assert rich(frames, "execute_result")["data"] == {"text/plain": "42"}
    assert frames[-1].head["status"] == "ok"
    again = guest.run_cell("x")
    assert rich(again, "execute_result")["data"]["text/plain"] == "41"
    assert again[-1].head["execution_count"] == frames[-1].head["execution_count"] + 1
    events = frames[1:-1]  # three or more: a stream may come in parts
    assert [frame.head["seq"] for frame in events] == list(range(1, len(events) + 1))


def test_rich_output(guest: Guest) -> None:
    """Displays, their updates and the clearing of output arrive as they were sent."""
    frames = guest.run_cell(
        "from IPython.display import display, clear_output, HTML\n"
        "handle = display(HTML('<b>a</b>'), display_id=True)\nhandle.update(HTML('<b>b</b>'))\n"
        "clear_output(wait=True)"
    )
    assert rich(frames, "display_data")["data"]["text/html"] == "<b>a</b>"
    assert rich(frames, "update_display_data")["data"]["text/html"] == "<b>b</b>"
    assert rich(frames, "clear_output") == {"wait": True}


def test_errors_have_a_traceback(guest: Guest) -> None:
    """An exception is the result of its cell, with all lines of its traceback."""
    frames = guest.run_cell("def f():\n    1 / 0\nf()")
    error = rich(frames, "error_output")
    assert error["ename"] == "ZeroDivisionError"
    assert len(error["traceback"]) >= 3
    assert frames[-1].head["status"] == "error"
    assert guest.run_cell("'alive'")[-1].head["status"] == "ok"


def test_output_comes_while_the_cell_runs(guest: Guest) -> None:
    """Text is seen before the cell ends: here the cell waits for a file that its reader makes."""
    flag = guest.folder / "seen"
    wait = f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)"
    code = f"import os, time\nprint('first', flush=True)\n{wait}"
    with guest.cell(code) as connection:
        assert connection.until("stream").payload == b"first\n"
        flag.touch()
        assert connection.until("finished").head["status"] == "ok"


def test_input_is_answered_from_outside(guest: Guest) -> None:
    """input() and getpass() ask, and any client can answer."""
    code = "import getpass\nname = input('name? ')\nword = getpass.getpass('word? ')\nprint(name, word)"
    with guest.cell(code) as cell:
        request = cell.until("input_request")
        assert (request.head["prompt"], request.head["password"]) == ("name? ", False)
        guest.ask("input", "Ada é".encode())
        assert cell.until("input_request").head["password"] is True
        guest.ask("input", b"secret")
        assert cell.until("stream").payload.decode() == "Ada é secret\n"
        assert cell.until("finished").head["status"] == "ok"
    with pytest.raises(Refused, match="no cell waits"):
        guest.ask("input", b"x")


def test_an_interrupt_ends_the_cell_and_keeps_its_state(guest: Guest) -> None:
    """After an interrupt the kernel still has its state."""
    with guest.cell("y = 5\nprint('go', flush=True)\nwhile True: pass") as cell:
        cell.until("stream")
        guest.ask("kernel_interrupt")
        assert cell.until("finished").head["status"] == "interrupted"
    assert rich(guest.run_cell("y"), "execute_result")["data"]["text/plain"] == "5"


def test_a_timeout_is_an_interrupt_with_a_different_name(guest: Guest) -> None:
    """A cell that times out is interrupted, and the kernel continues."""
    frames = guest.run_cell("z = 6\nimport time\nwhile True: time.sleep(0.01)", timeout=0.3)
    assert frames[-1].head["status"] == "timeout"
    assert rich(guest.run_cell("z"), "execute_result")["data"]["text/plain"] == "6"


def test_one_cell_at_a_time(guest: Guest) -> None:
    """A second cell is refused, and the message names the running one."""
    with guest.cell("input()", id="holder") as cell:
        cell.until("input_request")
        with pytest.raises(Refused, match="holder") as caught:
            guest.run_cell("1")
        assert caught.value.code == "busy"
        guest.ask("input", b"")
        cell.until("finished")


def test_a_restart_ends_the_cell_and_begins_a_new_epoch(guest: Guest) -> None:
    """The running cell ends as restarted; the new process does not know the old one's names."""
    epoch = kernel_of(guest)["epoch"]
    with guest.cell("gone = 1\ninput()") as cell:
        cell.until("input_request")
        answer = guest.ask("kernel_restart")[0].head
        assert cell.until("finished").head["status"] == "restarted"
    assert answer["epoch"] == epoch + 1
    frames = guest.run_cell("gone")
    assert frames[0].head["epoch"] == epoch + 1
    assert rich(frames, "error_output")["ename"] == "NameError"


def test_a_dead_kernel_is_reported_and_replaced(guest: Guest) -> None:
    """A process that ends ends its cell immediately, with its output; the next cell starts a new process."""
    epoch = guest.run_cell("0")[0].head["epoch"]
    with guest.cell("import os\nprint('last words', flush=True)\ninput()\nos._exit(3)") as cell:
        assert cell.until("stream").payload == b"last words\n"
        cell.until("input_request")
        guest.ask("input", b"")
        assert cell.until("finished").head["status"] == "died"
    assert kernel_of(guest)["state"] == "dead"
    assert guest.run_cell("1")[0].head["epoch"] == epoch + 1


def test_a_cell_that_ends_its_kernel_says_so_and_the_next_one_is_not_lost(guest: Guest) -> None:
    """`exit()` at the end of a cell: the kernel replies and ends, with the next cell on its way to it."""
    for count in range(3):
        frames = guest.run_cell(f"kept = {count}; exit()")
        assert frames[-1].head["status"] == "ok"
        assert "has ended its kernel" in text_of(frames, "stderr")
        after = guest.run_cell("'kept' in globals()")
        assert after[-1].head["status"] == "ok"
        assert rich(after, "execute_result")["data"]["text/plain"] == "False"
        assert after[0].head["epoch"] == frames[0].head["epoch"] + 1


def test_a_kernel_killed_while_idle_is_noticed(guest: Guest) -> None:
    """A death between cells shows in the state of the session."""
    guest.run_cell("1")
    pid = kernel_of(guest)["pid"]
    guest.exec(f"kill -9 {pid}; while [ -e /proc/{pid} ]; do :; done")
    with guest.cell("'new'") as cell:
        assert cell.until("finished").head["status"] == "ok"
    assert kernel_of(guest)["pid"] != pid


def test_a_lost_client_can_come_back(guest: Guest) -> None:
    """A cell continues alone; its events can be fetched again, from any number on, and it ran once."""
    lost = guest.cell("for i in range(3): print(i, flush=True)\ninput('more? ')\nprint('end')", id="lost")
    lost.until("input_request")
    lost.close()
    with guest.cell("never run: the id is known", id="lost") as cell:
        seen = [next(cell.frames())]
        for frame in cell.frames():
            seen.append(frame)
            if frame.event == "input_request":
                guest.ask("input", b"")
    assert text_of(seen) == "0\n1\n2\nend\n"
    numbers = [frame.head["seq"] for frame in seen[1:-1]]
    later = guest.run_cell("", id="lost", after_seq=numbers[-2])
    assert [frame.head["seq"] for frame in later[1:-1]] == numbers[-1:]
    asked_again = guest.run_cell("", id="lost")
    assert "input_request" not in [frame.event for frame in asked_again]


def test_much_output_is_bounded_and_its_loss_is_reported(guest: Guest) -> None:
    """A flood of text is delivered as it comes; the amount that a late client missed is known."""
    with guest.cell("for _ in range(100): print('x' * 1_000_000)", id="flood") as cell:
        cell.until("finished")
    late = guest.run_cell("", id="flood")
    gaps = [frame for frame in late if frame.event == "gap"]
    assert len(gaps) == 1
    assert gaps[0].head["count"] > 0
    assert gaps[0].head["size"] > 0
    assert sum(len(frame.payload) for frame in late) < 65 << 20


def test_other_kernels_and_unknown_specs(guest: Guest, tmp_path: Path) -> None:
    """More kernels can be opened by name, each in a directory; a failed start leaves nothing behind."""

    def names() -> list[str]:
        return [each["name"] for each in guest.ask("hello")[0].head["kernels"]]

    def refused(code: str, **asked: Any) -> None:
        with pytest.raises(Refused) as caught:
            guest.ask(**asked)
        assert caught.value.code == code

    opened = guest.ask("kernel_open", kernel="second", cwd=str(tmp_path))[0].head["kernel"]
    assert (opened["epoch"], opened["language"], opened["cwd"]) == (1, "python", str(tmp_path))
    assert text_of(guest.run_cell("import os; print(os.getcwd())", kernel="second")) == f"{tmp_path}\n"
    assert guest.ask("kernel_open", kernel="second")[0].head["kernel"]["pid"] == opened["pid"]
    guest.run_cell("only_here = 1", kernel="second")
    assert rich(guest.run_cell("only_here"), "error_output")["ename"] == "NameError"
    refused("invalid", op="kernel_open", kernel="second", spec="other")
    refused("unknown_spec", op="kernel_open", kernel="third", spec="no-such")
    refused("invalid", op="kernel_open", kernel="third", cwd="/no/such")
    for name in ("../x", "x" * 41, "ä"):
        refused("invalid", op="kernel_open", kernel=name)
    assert names() == ["main", "second"]


def test_a_kernel_is_closed(guest: Guest) -> None:
    """Its process and its variables are removed; a kernel that runs a cell is closed by force only."""
    with pytest.raises(Refused, match="always has it"):
        guest.ask("kernel_close", kernel="main")
    pid = guest.ask("kernel_open", kernel="closing")[0].head["kernel"]["pid"]
    with guest.cell("import time; print('now'); time.sleep(600)", kernel="closing") as cell:
        cell.until("stream")
        with pytest.raises(Refused) as caught:
            guest.ask("kernel_close", kernel="closing")
        assert caught.value.code == "in_use"
        guest.ask("kernel_close", kernel="closing", force=True)
        assert cell.until("finished").head["status"] == "died"
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Refused) as caught:
        guest.run_cell("1", kernel="closing")
    assert caught.value.code == "unknown_kernel"
    assert guest.ask("kernel_open", kernel="closing")[0].head["kernel"]["epoch"] == 1


def test_code_run_before_a_cell_leaves_no_trace(guest: Guest) -> None:
    """It is neither shown nor counted, its error ends nothing, and the cell finds what it has done."""
    first = guest.run_cell("1")[-1].head["execution_count"]
    before = "given = 7; print('unseen'); 1 / 0"
    frames = guest.ask("cell_after", b"given", id="prepared", before=before)
    assert [frame.event for frame in frames] == ["started", "execute_result", "finished"]
    assert rich(frames, "execute_result")["data"]["text/plain"] == "7"
    assert frames[-1].head["execution_count"] == first + 1


def test_an_interrupt_that_hits_the_reply_does_not_hold_the_kernel(guest: Guest) -> None:
    """The kernel is idle then, and its reply never comes."""
    code = """
session = get_ipython().kernel.session
def send(stream, kind, *words, _send=session.send, **more):
    if kind == 'execute_reply':
        session.send = _send
        raise KeyboardInterrupt
    return _send(stream, kind, *words, **more)
session.send = send
print('now'); import time; time.sleep(600)
"""
    with guest.cell(code) as cell:
        cell.until("stream")
        guest.ask("kernel_interrupt")
        assert cell.until("finished").head["status"] == "interrupted"
    assert guest.run_cell("1")[-1].head["status"] == "ok"


def test_only_the_cell_that_is_meant_is_interrupted(guest: Guest) -> None:
    """Anyone who leaves a cell that has just ended does not interrupt the next one."""
    with guest.cell("print('now'); import time; time.sleep(600)", id="meant") as cell:
        cell.until("stream")
        guest.ask("kernel_interrupt", only="another")
        assert kernel_of(guest)["state"] == "busy"
        guest.ask("kernel_interrupt", only="meant")
        assert cell.until("finished").head["status"] == "interrupted"


def test_code_that_is_not_text_is_refused(guest: Guest) -> None:
    """A cell must be UTF-8."""
    with pytest.raises(Refused, match="UTF-8"):
        guest.ask("cell", b"\xff", id="bytes")


def test_a_cell_that_is_interrupted_before_it_begins_never_runs(guest: Guest, tmp_path: Path) -> None:
    """While the kernel starts the cell ends immediately as interrupted, and the next one runs."""
    trace = tmp_path / "it ran"
    guest.ask("kernel_open", kernel="late")
    guest.run_cell("import os; os._exit(0)", kernel="late")  # the next cell has to start a process
    with guest.cell(f"open({str(trace)!r}, 'w'); input()", id="early", kernel="late", accepted=True) as cell:
        assert cell.until("accepted").head["id"] == "early"
        kernel = next(each for each in guest.ask("hello")[0].head["kernels"] if each["name"] == "late")
        assert (kernel["state"], kernel["cell_id"]) == ("starting", "early")
        guest.ask("kernel_interrupt", kernel="late", only="another")
        guest.ask("kernel_interrupt", kernel="late", only="early")
        assert cell.until("finished").head["status"] == "interrupted"
    assert rich(guest.run_cell("40 + 2", kernel="late"), "execute_result")["data"]["text/plain"] == "42"
    assert not trace.exists()


def test_an_interrupt_right_behind_a_cell_is_not_lost(guest: Guest) -> None:
    """A kernel ignores interrupts until it runs the code it was sent; the supervisor waits for that."""
    guest.run_cell("import time")
    for _ in range(5):
        with guest.cell("time.sleep(1000)") as cell:
            cell.until("started")
            guest.ask("kernel_interrupt")
            assert cell.until("finished").head["status"] == "interrupted"
    assert guest.run_cell("1")[-1].head["status"] == "ok"
