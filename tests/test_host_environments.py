"""Nothing but one module builds an environment for a process of the host, and nothing changes our own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.test_layers import ALONE, MODULES, room, short

STARTS = frozenset(
    (
        *("run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"),
        *("create_subprocess_shell", "subprocess_exec", "subprocess_shell", "Process"),
        *("posix_spawn", "posix_spawnp", "execve", "execle", "execlpe", "execvpe"),
        *("spawnle", "spawnlpe", "spawnve", "spawnvpe", "fexecve"),
    )
)
COMMON = frozenset(("run", "call", "Process"))
"""Names that other objects than modules have too."""
PLACES = {"posix_spawn": 2, "posix_spawnp": 2, "execve": 2, "execvpe": 2, "spawnve": 3, "spawnvpe": 3}
"""Where these take the environment, without its name. Those with an `l` take it last."""
CHANGES = frozenset(("update", "setdefault", "pop", "clear", "popitem"))
IN_SESSIONS = ("e2b.code_execution", "images.portable.image_kernel")
"""Modules, or texts in them, that run in a session."""


def of_host() -> dict[str, ast.Module]:
    return {
        short(name): ast.parse(path.read_text())
        for name, path in MODULES.items()
        if room(name) not in ALONE and short(name) not in IN_SESSIONS
    }


def environments(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """Yield the environments that a module gives to processes, each with its line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(node.func, "value", None)
        known = owner is None or getattr(owner, "id", "") in (
            "subprocess",
            "asyncio",
            "os",
            "multiprocessing",
        )
        if called not in STARTS or not (known or called not in COMMON):
            continue
        yield from ((node.lineno, key.value) for key in node.keywords if key.arg == "env")
        if called.endswith(("le", "lpe")):
            yield node.lineno, node.args[-1]
        elif len(node.args) > PLACES.get(called, 99):
            yield node.lineno, node.args[PLACES[called]]


def changes(tree: ast.AST) -> Iterator[int]:
    """Yield the lines on which a module changes its own environment, which others inherit."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="putenv" | "unsetenv")):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ"), attr=attr)) if (
                attr in CHANGES
            ):
                yield node.lineno
            case ast.Subscript(value=ast.Attribute(attr="environ"), ctx=ast.Store() | ast.Del()):
                yield node.lineno
            case ast.AugAssign(target=ast.Attribute(attr="environ")):
                yield node.lineno


def is_built(given: ast.expr) -> bool:
    """Check that an expression is a call of that one module."""
    match given:
        case ast.Constant(value=None):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="host_environment"), attr=_)):
            return True
    return False


def test_environments_of_host_processes_come_from_one_module() -> None:
    """Of every module that runs on the host."""
    found = [
        f"{name}:{line}"
        for name, tree in of_host().items()
        for line, given in environments(tree)
        if not is_built(given)
    ]
    assert found == []


def test_no_module_changes_the_environment_that_processes_inherit() -> None:
    found = [f"{name}:{line}" for name, tree in of_host().items() for line in changes(tree)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run(['a'], env={'A': 'b'})",
        "subprocess.Popen(words, env=os.environ | given)",
        "Popen(words, env=environment)",
        "os.posix_spawn('a', ['a'], given)",
        "os.execve('a', ['a'], {**os.environ})",
        "os.execle('a', 'a', 'b', given)",
        "os.spawnve(0, 'a', [], given)",
        "await asyncio.create_subprocess_exec('a', env=dict(os.environ, A='b'))",
    ],
)
def test_others_would_be_found(text: str) -> None:
    """Each way to start a process with an environment is known to this test."""
    tree = ast.parse(f"async def one():\n    {text}")
    assert [is_built(given) for _, given in environments(tree)] == [False]


@pytest.mark.parametrize(
    "text", ["os.environ['A'] = 'b'", "os.environ.update(a)", "os.putenv('A', 'b')", "del os.environ['A']"]
)
def test_changes_would_be_found(text: str) -> None:
    assert list(changes(ast.parse(text))) == [1]
