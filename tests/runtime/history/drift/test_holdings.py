from __future__ import annotations

from typing import Any

from holdfast.runtime.history.drift import holdings
from holdfast.runtime.history.drift.authors import Authors, authors, by_name
from holdfast.runtime.history.drift.holdings import (
    HeldKernel,
    HeldProcess,
    HeldShell,
    Holdings,
    Value,
    encode,
    parse,
)
from holdfast.runtime.history.drift.undo_journal import rewind


def process(
    pid: int, command: str, started: float = 0.0, ports: tuple[int, ...] = (), **more: str
) -> HeldProcess:
    return HeldProcess(pid=pid, command=command, started=started, ports=ports, **more)


def shell(
    pid: int, cwd: str = "", umask: int | None = None, variables: Any = None, functions: Any = None
) -> HeldShell:
    return HeldShell(pid=pid, cwd=cwd, umask=umask, variables=variables or {}, functions=functions or {})


def held(
    *processes: HeldProcess, shell: HeldShell | None = None, kernel: HeldKernel | None = None, **more: Any
) -> Holdings:
    return Holdings(
        processes={one.pid: one for one in processes},
        shells={"main": shell or HeldShell()},
        kernels={"main": kernel or HeldKernel()},
        **more,
    )


def shell_with(cwd: str = "/w", **variables: Value) -> HeldShell:
    return shell(7, cwd, 0o022, variables)


def value(shown: str | None, attributes: str = "", digest: str = "") -> Value:
    return Value(attributes, len(shown or ""), digest or f"digest of {shown}", shown)


SERVER = process(20, "node server.js", 50.0, (3000,), origin="c2")


def test_processes_that_began_and_ended() -> None:
    """New ones are reported with their ports, ended ones as well; the session's own are not."""
    before = held(process(1, "init", role="supervisor"), process(10, "python3", 5.0, (8000,)))
    now = held(process(1, "init", role="supervisor"), SERVER, process(9, "bash", role="shell"))

    found = holdings.changed_processes(before, now)
    assert [(one.pid, one.change, one.ports) for one in found] == [
        (20, "new", (3000,)),
        (10, "deleted", (8000,)),
    ]


def test_a_reused_pid_is_another_process() -> None:
    """In one generation the start time decides; after a restore only the command can."""
    old, new = process(20, "sleep 5", 1.0), process(20, "sleep 6", 90.0)

    assert [one.change for one in holdings.changed_processes(held(old), held(new))] == ["new", "deleted"]
    again = process(20, "sleep 5", 90.0)
    assert holdings.changed_processes(held(old), held(again, generation=1)) == []
    assert len(holdings.changed_processes(held(old), held(new, generation=1))) == 2


def test_changed_ports_of_a_process_are_reported() -> None:
    """A server that listens elsewhere is reported with the ports it opened and closed."""
    before, now = held(process(20, "node", 1.0, (1, 2))), held(process(20, "node", 1.0, (2, 3)))

    (found,) = holdings.changed_processes(before, now)
    assert (found.change, found.ports, found.closed) == ("changed", (3,), (1,))


def test_changes_in_a_shell() -> None:
    """Directory, umask, variables and functions, with both values; ordinary ones follow from others."""
    before = shell(7, "/a", 0o022, {"A": value("1"), "B": value("1"), "PWD": value("/a")}, {"f": value(None)})
    now = shell(7, "/b", 0o077, {"A": value("2"), "C": value("3", "x"), "PWD": value("/b")}, {})

    found = [
        (one.kind, one.name, one.old, one.new, one.exported)
        for one in holdings.changed_shells({"m": before}, {"m": now})
    ]
    assert found == [
        ("directory", "cwd", "/a", "/b", False),
        ("umask", "umask", "0022", "0077", False),
        ("variable", "A", "1", "2", False),
        ("variable", "B", "1", None, False),
        ("variable", "C", None, "3", True),
        ("function", "f", "(0 bytes)", None, False),
    ]


def test_long_values_and_arrays_are_reported_by_size() -> None:
    """A digest shows that they changed; their size is all there is to show."""
    before = shell_with(a=Value("a", 3, "x"), s=value("***", digest="1"))
    now = shell_with(a=Value("a", 4, "y"), s=value("***", digest="2"))

    found = holdings.changed_shells({"m": before}, {"m": now})
    assert [(one.old, one.new) for one in found] == [("(3 elements)", "(4 elements)"), ("***", "***")]


def test_a_shell_without_known_state_is_not_compared() -> None:
    """A shell of a different kind writes no state; that is not the loss of all variables."""
    assert holdings.changed_shells({"m": shell_with(A=value("1"))}, {"m": shell(9)}) == []


def test_names_of_kernels() -> None:
    """New, removed and changed names; a restart is reported; a busy kernel's names are not known."""
    before = held(kernel=HeldKernel(epoch=1, names={"x": ("int", "1"), "gone": ("str", "")}))
    now = held(kernel=HeldKernel(epoch=2, names={"x": ("int", "2"), "df": ("DataFrame 3x4", "")}))

    found = holdings.changed_kernels(before.kernels, now.kernels)
    assert [(one.kind, one.name, one.change) for one in found] == [
        ("kernel", "main", "changed"),
        ("name", "df", "new"),
        ("name", "gone", "deleted"),
        ("name", "x", "changed"),
    ]
    assert (
        holdings.changed_kernels(before.kernels, held(kernel=HeldKernel(epoch=1, names=None)).kernels) == []
    )


def test_holdings_survive_the_wire() -> None:
    """The state kept with a snapshot is the reported one."""
    all_of_it = held(
        SERVER,
        shell=shell_with(A=value("1", "x")),
        kernel=HeldKernel(epoch=1, names={"x": ("int", "1")}),
        at=5.0,
    )

    assert parse(encode(all_of_it)) == all_of_it


ENTRIES: list[dict[str, Any]] = [
    {"seq": 1, "at": 10.0, "kind": "command_started", "id": "c1", "actor": "agent", "command": "make\nall"},
    {"seq": 2, "at": 12.0, "kind": "command_ended", "id": "c1"},
    {
        "seq": 3,
        "at": 12.0,
        "kind": "changed",
        "shell": "main",
        "id": "c1",
        "variables": {"A": [None, ["", 1, "d", "1"]]},
    },
    {"seq": 4, "at": 20.0, "kind": "command_started", "id": "c2", "actor": "person:ann", "command": "node &"},
    {"seq": 5, "at": 20.5, "kind": "cell_started", "id": "k1", "actor": "agent", "code": "x = 1"},
    {"seq": 6, "at": 21.0, "kind": "command_ended", "id": "c2"},
    {
        "seq": 7,
        "at": 21.0,
        "kind": "changed",
        "shell": "main",
        "id": "c2",
        "cwd": ["/old", "/w"],
        "variables": {"A": [["", 1, "d", "1"], ["", 1, "e", "2"]]},
    },
    {
        "seq": 8,
        "at": 22.0,
        "kind": "changed",
        "kernel": "main",
        "id": "k1",
        "names": {"x": [None, ["int", "1"]]},
    },
    {
        "seq": 9,
        "at": 23.0,
        "kind": "process_exited",
        "pid": 5,
        "command": "old",
        "origin": {"id": "c1"},
        "ports": [80],
    },
    {"seq": 10, "at": 24.0, "kind": "process_exited", "pid": 6, "command": "brief", "origin": {"id": "c2"}},
]


def test_authors_by_time() -> None:
    """All commands running at a time are its authors; without any, the author is unknown."""
    known = authors(ENTRIES)

    assert known.at(11.0) == (1,)
    assert known.at(20.7) == (4, 5)
    assert known.at(15.0) == ()
    assert known.at(None) == ()
    assert known.of("c2") == (4,)
    assert (known.by_seq[1].text, known.by_seq[4].actor) == ("make …", "person:ann")


def test_times_can_be_off_by_a_tick() -> None:
    """A file's time can be a tick older than its command, but an exact match is preferred."""
    assert authors(ENTRIES).at(9.99) == (1,)
    assert authors(ENTRIES).at(20.0) == (4,)


def test_a_command_is_at_work_before_its_entry_is_written() -> None:
    """Its effects until then are its own; a time later than the entry's is not believed."""
    late = [{**ENTRIES[0], "not_before": 9.5}, *ENTRIES[1:]]
    odd: list[Any] = ["9.5", None, [], 1e300, 10**400, -(10**400), float("nan")]

    assert authors(late).at(9.6) == (1,)
    assert [authors([{**ENTRIES[0], "not_before": one}]).by_seq[1].begin for one in odd] == [10.0] * len(odd)


def test_people_are_named_where_no_command_ran() -> None:
    """An attached person is the author, if nothing else was at work."""
    attached = [{"seq": 1, "at": 1.0, "kind": "attached", "shell": "main", "actor": "person:ann"}]

    assert authors(attached).at(5.0) == (1,)
    assert authors([*attached, *({**one, "seq": one["seq"] + 1} for one in ENTRIES)]).at(11.0) == (2,)


def test_the_author_of_a_name() -> None:
    """The last command that touched a variable or name, after the starting point."""
    found = by_name(ENTRIES, 3, authors(ENTRIES))

    assert found == {
        ("variable", "main", "A"): (4,),
        ("directory", "main", "cwd"): (4,),
        ("name", "main", "x"): (5,),
    }


def test_the_past_is_the_present_without_later_changes() -> None:
    """At an entry, variables, directory and names were as before all later entries; also processes."""
    now = held(
        SERVER,
        process(7, "init", 1.0),
        shell=shell_with(A=value("2", digest="e")),
        kernel=HeldKernel(epoch=1, names={"x": ("int", "1")}),
    )
    past = rewind(now, ENTRIES, 3, 12.0, authors(ENTRIES))

    assert past.shells["main"].cwd == "/old"
    assert past.shells["main"].variables["A"].shown == "1"
    assert past.kernels["main"].names == {}
    assert {pid: one.ports for pid, one in past.processes.items()} == {7: (), 5: (80,)}
    assert rewind(now, ENTRIES, 0, 1.0, authors(ENTRIES)).shells["main"].variables == {}


def test_a_restore_gives_processes_new_start_times() -> None:
    """A process without a known command, started at the restore, can be older than the starting point."""
    restored = {"seq": 11, "at": 90.0, "kind": "woken", "event": "restored"}
    now = held(process(7, "old", 89.9), process(8, "new", 95.0))
    past = rewind(now, [*ENTRIES, restored], 3, 12.0, authors(ENTRIES))

    assert set(past.processes) == {7, 5}


def test_entries_of_an_unexpected_form_are_passed_over() -> None:
    """The journal is writable by the session: invalid entries are not believed and break nothing."""
    wrong: list[dict[str, Any]] = [
        {"seq": "1", "at": 0, "kind": "command_started"},
        {"seq": 2, "kind": "command_started", "at": None},
        {"seq": 3, "at": 1.0, "kind": "changed", "shell": "main", "variables": {"A": "no pair"}, "id": 5},
        {"seq": 4, "at": 1.0, "kind": "changed", "ports": [[[1, 2, 3]], 5]},
        {"seq": 5, "at": 1.0, "kind": "process_exited", "pid": "x"},
    ]
    now = held(SERVER, shell=shell_with(A=value("2")))

    assert authors(wrong).by_seq == {}
    assert rewind(now, wrong, 0, 0.0, Authors()).shells == now.shells
