from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import holdfast
from holdfast import errors

PACKAGE = Path(holdfast.__file__).parent
ROOT = PACKAGE.parent.parent


def _classes() -> Any:
    return {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.HoldfastError)
    }


def test_the_public_names_are_pinned() -> None:
    """A program can rely on exactly these names."""
    values = {
        "NewOptions",
        "Notices",
        "SharedLink",
        "LifetimeOptions",
        "PolicyOptions",
        "AsyncHoldfast",
        "AsyncSession",
        "RemoteHoldfast",
        "RemoteSession",
        "CellError",
        "CellEvent",
        "CellResult",
        "Check",
        "Copied",
        "Debugger",
        "Deviation",
        "Diff",
        "Difference",
        "Drift",
        "Entry",
        "Event",
        "ExecResult",
        "Exported",
        "Failure",
        "Holdfast",
        "Home",
        "KernelInfo",
        "KernelSpecInfo",
        "Ladder",
        "Lease",
        "ListeningPort",
        "Preview",
        "Memory",
        "Mount",
        "Metrics",
        "Moved",
        "OpenFile",
        "Patience",
        "Lifetime",
        "Policy",
        "Port",
        "Process",
        "ProgramInfo",
        "ProgramResult",
        "Pulse",
        "Pushed",
        "Reach",
        "Recorded",
        "Recording",
        "Refusal",
        "Rewound",
        "Run",
        "RunningProgram",
        "Screen",
        "Series",
        "Served",
        "Serving",
        "Session",
        "FoundFile",
        "GitBranch",
        "GitChange",
        "GitStatus",
        "SessionFile",
        "SessionFiles",
        "SessionGit",
        "SessionOptions",
        "SessionSpawn",
        "SessionTask",
        "SessionTerminal",
        "ShellInfo",
        "Snapshot",
        "Socket",
        "Spread",
        "Step",
        "State",
        "Redo",
        "RedoneAction",
        "StatedAction",
        "Survivability",
        "SyntaxCheck",
        "Job",
        "JobInfo",
        "TaskRecord",
        "TaskResumed",
        "HomeArtifacts",
        "KeptArtifact",
        "OrphanFile",
        "TaskStanding",
        "TaskVerdict",
        "TerminalLink",
        "Thawed",
        "Verification",
        "Verified",
        "WorkReport",
    }

    assert values | set(_classes()) == set(holdfast.__all__)
    assert list(holdfast.__all__) == sorted(holdfast.__all__)
    for name in holdfast.__all__:
        assert getattr(holdfast, name).__name__ == name


def test_types_in_signatures_of_handles_are_public() -> None:
    """Types of arguments and results; but for methods that only this package calls."""
    handles = (
        holdfast.Holdfast,
        holdfast.Session,
        holdfast.SessionTerminal,
        holdfast.Snapshot,
        holdfast.Job,
    )
    internal = {"Holdfast.engine", "Holdfast.store", "Session.row", "Snapshot.row"}
    aliases = {"Keep", "KeepAs", "Name", "SnapshotKind", "Progress", "Self"}
    aliases |= {
        "OnBytes",
        "OnEvent",
        "OnInput",
        "OnOutput",
        "OnStart",
        "OnWaiting",
        "OnOffset",
        "OnStreamOffset",
    }
    outside = {"AbstractContextManager", "Any", "Callable", "Collection", "Iterable", "Iterator", "Mapping"}
    outside |= {"None", "Path", "Sequence", "Unpack"}
    mentioned: dict[str, list[str]] = {}
    for handle in handles:
        for name, member in vars(handle).items():
            function = member.fget if isinstance(member, property) else member
            where = f"{handle.__name__}.{name}"
            if name.startswith("_") or not inspect.isfunction(function) or where in internal:
                continue
            signature = inspect.signature(function)
            kinds = [str(one.annotation) for one in signature.parameters.values()]
            for found in re.findall(r"\b[A-Z]\w+", " ".join([*kinds, str(signature.return_annotation)])):
                mentioned.setdefault(found, []).append(where)

    assert "ExecResult" in mentioned
    unknown = mentioned.keys() - set(holdfast.__all__) - aliases - outside
    assert {name: mentioned[name] for name in unknown} == {}


def test_the_verbs_of_a_handle_are_methods_of_its_class() -> None:
    """With signature and documentation, so that `help`, editors and type checkers know them."""
    verbs = {
        holdfast.Session: "exec cell join send answer interrupt detach pulse events journal drift snapshot "
        "fork suspend resume rewind policy network allow",
        holdfast.Snapshot: "restore fork retry export push pin remove",
        holdfast.Holdfast: "new session sessions snapshot snapshots import_ pull thaw diff fork verify",
    }
    for handle, names in verbs.items():
        for name in names.split():
            assert inspect.getdoc(getattr(handle, name)), name
            assert next(iter(inspect.signature(getattr(handle, name)).parameters)) == "self"


def test_every_error_is_in_the_drawn_tree() -> None:
    """The tree in the module's docstring is the tree of the classes."""
    drawn: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        words = line.split()
        if not words or words[0] not in _classes():
            continue
        depth = len(line) - len(line.lstrip())
        above = [(d, name) for d, name in above if d < depth]
        drawn[words[0]] = above[-1][1] if above else "Exception"
        above.append((depth, words[0]))

    assert {name: kind.__bases__[0].__name__ for name, kind in _classes().items()} == drawn


def test_every_error_has_a_code_of_its_own() -> None:
    """Programs distinguish errors by their code, wherever they are defined."""
    host = ("runtime", "snapshots", "images")
    for path in (path for root in host for path in (ROOT / root).rglob("*.py")):
        inside = {"guest", "checkpointer", "gateway", "adapters"} & set(path.parts)
        if not inside and re.search(r"^class \w+\(.*\):$", path.read_text(), re.MULTILINE):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            importlib.import_module(f"holdfast.{name}".removesuffix(".__init__"))

    kinds = {errors.HoldfastError}
    while more := {kind for known in kinds for kind in known.__subclasses__()} - kinds:
        kinds |= more
    ours = [kind for kind in kinds if kind.__module__.startswith("holdfast.")]

    assert len(ours) > len(_classes())
    codes = Counter(kind.code for kind in ours)
    assert [code for code, times in codes.items() if times > 1] == []


def test_an_error_is_its_message() -> None:
    """Each error can be raised with a message and a hint, and prints as the message."""
    for kind in _classes().values():
        error = kind("cannot do that", hint="do this")

        assert (str(error), error.hint) == ("cannot do that", "do this")


def test_the_parts_are_the_folders_at_the_root() -> None:
    """A checkout without symbolic links would build a package without its parts."""
    for part in ("runtime", "images", "kernels", "snapshots"):
        assert (PACKAGE / part).resolve() == ROOT / part


def test_importing_the_package_is_cheap() -> None:
    """Neither the engine's SDK nor Rich or Pydantic is imported before it is needed."""
    code = """
import sys
import holdfast.runtime.cli.command_line
from holdfast import Holdfast
heavy = {"docker", "rich", "pydantic", "pyte", "tenacity", "requests"}
sys.exit(" ".join(sorted(heavy & set(sys.modules))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stderr.strip() == ""
