"""The report on the names in a kernel: in this process, and by a real ipykernel."""

import json
import sys
import types
from collections import Counter
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest

from holdfast.kernels.guest import kernel_state, look_inside


def looked(namespace: dict[str, Any], limit: int = 100) -> dict[str, dict[str, Any]]:
    told = json.loads(look_inside.look(namespace, {}, limit))
    return {row["name"]: row for row in told["rows"]}


def asked(guest: Guest) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(guest.ask("kernel_variables")[0].payload)
    return answer


def told(guest: Guest) -> dict[str, Any]:
    """Ask until the idle kernel answers in time: on a busy machine it can be late."""
    while not (answer := asked(guest))["current"]:
        pass
    return answer


def named(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in answer["rows"]}


def test_builtin_values_have_a_length_and_a_size() -> None:
    """Lengths are the built-in base's, sizes the value's own."""
    found = looked({"text": "abc", "items": [1, 2], "counts": Counter("aab"), "n": 7})
    assert (found["text"]["type"], found["text"]["length"]) == ("str", 3)
    assert (found["items"]["length"], found["items"]["bytes"]) == (2, [1, 2].__sizeof__())
    assert (found["counts"]["type"], found["counts"]["length"]) == ("collections.Counter", 2)
    assert "length" not in found["n"]


def test_digests_show_changes_of_plain_values() -> None:
    """Equal numbers and texts have equal digests, others not; a digest is not the value."""
    first, same, other = (looked({"x": value})["x"]["digest"] for value in ("secret", "secret", "other"))
    assert first == same != other
    assert "secret" not in json.dumps(looked({"x": "secret"}))


def test_no_user_code_is_called() -> None:
    """Classes that object to inspection are not inspected."""
    calls = []

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            calls.append(name)
            return super().__getattribute__(name)

    class Touchy(list[int], metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            calls.append(name)
            raise RuntimeError

        def __len__(self) -> int:
            calls.append("__len__")
            return 99

        def __repr__(self) -> str:
            calls.append("__repr__")
            return "?"

    namespace = {"touchy": Touchy([1, 2]), "kind": Touchy}
    calls.clear()
    found = looked(namespace)
    assert calls == []
    assert found["touchy"]["length"] == 2
    assert found["kind"]["kind"] == "class"


def test_kinds_of_names() -> None:
    """Modules, functions and classes are distinguished from values; hidden and private names are left out."""
    found = looked({"m": json, "f": looked, "b": len, "c": Counter, "v": 1, "_private": 1})
    assert {name: row["kind"] for name, row in found.items()} == {
        "m": "module",
        "f": "function",
        "b": "function",
        "c": "class",
        "v": "value",
    }


def test_arrays_have_shape_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array has the shape, type of elements and bytes that it states itself."""

    class Array:
        shape = property(lambda self: (3, 4))
        dtype = property(lambda self: "float64")
        nbytes = property(lambda self: 96)

    library = types.ModuleType("numpy")
    library.__dict__["ndarray"] = Array
    monkeypatch.setitem(sys.modules, "numpy", library)
    row = looked({"a": Array()})["a"]
    assert (row["shape"], row["dtype"], row["bytes"]) == ([3, 4], "float64", 96)


def test_of_many_names_the_newest_are_reported() -> None:
    """The number of names is bounded, and omitted ones are counted."""
    told = json.loads(look_inside.look({f"n{i}": i for i in range(50)}, {}, 10))
    assert [row["name"] for row in told["rows"]] == [f"n{i}" for i in range(40, 50)]
    assert told["left_out"] == 40


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"user_expressions": []},
        {"user_expressions": {"holdfast": {"status": "error", "ename": "X"}}},
        {"user_expressions": {"holdfast": {"status": "ok", "data": {"text/plain": "no text"}}}},
        {"user_expressions": {"holdfast": {"status": "ok", "data": {"text/plain": "'[1]'"}}}},
    ],
)
def test_a_malformed_reply_is_a_note(content: Any) -> None:
    """Whatever a kernel answers, the result is a note and not an error."""
    found = kernel_state.parse(content, 1)
    assert (found.rows, found.current) == ((), False)
    assert found.note


def test_a_kernel_reports_its_names_without_a_trace(guest: Guest) -> None:
    """Names of cells are reported; asking does not count as a cell, adds no name, and builtins can be
    shadowed."""
    guest.run_cell("import json as j\ntext = 'hello'\ndef f(): pass\neval = exec = type = globals = None")
    before = guest.run_cell("sorted(__builtins__.globals())")
    found = named(told(guest))
    assert found["text"]["length"] == 5
    assert (found["j"]["kind"], found["f"]["kind"]) == ("module", "function")
    assert "In" not in found
    assert "exit" not in found
    after = guest.run_cell("sorted(__builtins__.globals())")
    assert after[-1].head["execution_count"] == before[-1].head["execution_count"] + 1
    names = [json.loads(f.payload)["data"]["text/plain"] for f in (before[1], after[1])]
    grown = set(names[1].split()) - set(names[0].split())
    assert {name.strip("[],'") for name in grown} <= {"_i" + str(n) for n in range(99)} | {
        "_" + str(n) for n in range(99)
    }
    guest.run_cell("del eval, exec, type, globals")


def test_a_busy_kernel_is_not_asked(guest: Guest) -> None:
    """While a cell runs, the earlier names are reported, with the cell they are as of."""
    count = guest.run_cell("kept = 1")[-1].head["execution_count"]
    told(guest)
    with guest.cell("input('go? ')") as running:
        running.until("input_request")
        answer = asked(guest)
        guest.ask("input", b"now")
        running.until("finished")
    assert (answer["current"], answer["as_of"]) == (False, count)
    assert "kept" in named(answer)


def test_a_new_process_knows_nothing(guest: Guest) -> None:
    """After a restart the names of the previous process are no longer reported."""
    guest.run_cell("lost = 1")
    assert "lost" in named(told(guest))
    guest.ask("kernel_restart")
    assert "lost" not in named(told(guest))
