"""The rules that recognize failures by what commands print, and users' own.  Pure data, and its check.

Rules are tried in order: what exhausts the machine first, then causes, then what only reports them.
Expressions are those of RE2: their time only grows with the length of the text, which is the session's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.scrubbing.rule import compiled
from holdfast.runtime.task.task_record import one_line

MOST_RULES = 100
LONGEST_PATTERN = 2000


@dataclass(frozen=True, slots=True)
class FailureRule:
    """A kind of failure.

    Attributes:
        name: the name that a classification gives as its reason.
        failure_type: the kind; several rules may recognize one.
        pattern: of RE2, searched in the output line by line; its group `what` is the detail, else the line.
        focus: what to look at next; `{what}` is the group.
        command: of RE2, in the command itself; empty for any.
        codes: exit codes with which it counts; () for any other than 0.
        last: the last match counts, not the first.
        explains_crash: it counts before the signal that ended the program.
    """

    name: str
    failure_type: str
    pattern: str
    focus: str
    command: str = ""
    codes: tuple[int, ...] = ()
    last: bool = False
    explains_crash: bool = False


def _rule(name: str, failure_type: str, focus: str, *patterns: str, **more: Any) -> FailureRule:
    return FailureRule(name, failure_type, "|".join(patterns), focus, **more)


RULES: Sequence[FailureRule] = (
    _rule(
        "no space left",
        "disk_full",
        "free space or raise the session's disk limit, then run it again",
        r"No space left on device",
        r"[Dd]isk quota exceeded",
        r"database or disk is full",
    ),
    _rule(
        "memory exhausted",
        "out_of_memory",
        "use less memory at once, or raise the session's memory limit",
        r"^MemoryError\b",
        r"[Cc]annot allocate memory",
        r"JavaScript heap out of memory",
        r"virtual memory exhausted",
        r"^Out of memory",
        explains_crash=True,
    ),
    _rule(
        "port in use",
        "port_in_use",
        "find the listener with `holdfast pulse`, then stop it or choose another port",
        r"[Aa]ddress already in use",
        r"EADDRINUSE",
    ),
    _rule(
        "pytest collection",
        "test_collection_failed",
        "fix what the test module imports or its syntax before any test can run: {what}",
        r"^ERROR (?P<what>\S+\.py)(?: |$)",
        r"^ERROR: not found: (?P<what>.+)",
        r"ERROR: file or directory not found: (?P<what>\S+)",
    ),
    _rule(
        "pytest fixture",
        "test_setup_failed",
        "look at the fixture that {what} needs",
        r"^ERROR (?P<what>\S+::\S+)",
    ),
    _rule(
        "pytest failures",
        "tests_failed",
        "run {what} alone and read its assertion",
        r"^FAILED (?P<what>\S+::\S+)",
    ),
    _rule(
        "unittest failures",
        "tests_failed",
        "run {what} alone and read its traceback",
        r"^(?:FAIL|ERROR): (?P<what>\w+ \([\w.]+\))",
    ),
    _rule(
        "no tests",
        "no_tests",
        "check the path and the names: nothing was selected",
        r"^=*\s*no tests ran\b",
        r"^NO TESTS RAN",
        r"^\d+ deselected",
        r"^collected 0 items",
        codes=(4, 5),
    ),
    _rule(
        "name resolution",
        "network_unreachable",
        "check the name and what the session may reach: `holdfast network`",
        r"[Cc]ould not resolve (?:host|proxy)(?:name)?:? (?P<what>\S+)",
        r"Temporary failure (?:in name resolution|resolving '(?P<what>[^']+)')",
        r"Name or service not known",
        r"No address associated with hostname",
        r"getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (?P<what>\S+)",
    ),
    _rule(
        "connection",
        "network_unreachable",
        "check that something listens there and what the session may reach: `holdfast network`",
        r"[Cc]onnection refused",
        r"ECONNREFUSED",
        r"Network is unreachable",
        r"No route to host",
        r"[Cc]onnection (?:timed out|reset by peer)",
        r"[Ff]ailed to connect to (?P<what>\S+ port \d+)",
        r"Connection timed out after",
    ),
    _rule(
        "no such package",
        "package_not_found",
        "check the package's name and version: {what}",
        r"No matching distribution found for (?P<what>\S+)",
        r"E: Unable to locate package (?P<what>\S+)",
        r"E: Package '(?P<what>[^']+)' has no installation candidate",
        r"E: Version '(?P<what>[^']+)' for '[^']+' was not found",
        r"[Bb]ecause (?P<what>\S+) was not found in the package registry",
        r"npm (?:ERR!|error) 404 .*'(?P<what>[^']+)'",
    ),
    _rule(
        "dependency conflict",
        "dependency_conflict",
        "loosen one of the requirements that exclude each other",
        r"ResolutionImpossible",
        r"[Cc]annot install .* because these package versions have conflicting dependencies",
        r"[Uu]nmet dependencies",
        r"ERESOLVE",
        r"requirements are unsatisfiable",
        r"Requires-Python",
        r"requires a different Python",
    ),
    _rule(
        "package build",
        "package_build_failed",
        "read the build's own error above; a compiler or header may be missing",
        r"[Ff]ailed building wheel for (?P<what>\S+)",
        r"[Ff]ailed to build (?:`|')?(?P<what>[\w.@-]+)",
        r"(?P<what>subprocess-exited-with-error)",
        r"(?P<what>metadata-generation-failed)",
    ),
    _rule(
        "requirements file",
        "usage_error",
        "correct the line or the path of the requirement",
        r"ERROR: Invalid requirement: (?P<what>.+)",
        r"ERROR: Could not open requirements file: (?P<what>.+)",
    ),
    _rule(
        "package files damaged",
        "package_damaged",
        "fetch it again; its digest is not the expected one",
        r"THESE PACKAGES DO NOT MATCH THE HASHES",
        r"Hash Sum mismatch",
        r"(?:zipfile\.BadZipFile|BadZipFile): (?P<what>.+)",
        r"ERROR: Wheel '[^']+' located at \S+ is (?P<what>invalid)",
    ),
    _rule(
        "package manager locked",
        "package_manager_locked",
        "wait until the other package manager has ended",
        r"Could not get lock (?P<what>\S+)",
        r"dpkg was interrupted",
    ),
    _rule(
        "certificate",
        "network_untrusted",
        "check the certificate, the clock and the trusted roots",
        r"CERTIFICATE_VERIFY_FAILED",
        r"SSL certificate problem: (?P<what>.+)",
    ),
    _rule(
        "HTTP status",
        "http_error",
        "check the address and the credentials: {what}",
        r"The requested URL returned error: (?P<what>\d{3})",
        r"HTTP Error (?P<what>\d{3}.*)",
    ),
    _rule(
        "credentials",
        "authentication_failed",
        "give the session the credentials it needs: `holdfast new --secret`",
        r"fatal: Authentication failed for (?P<what>\S+)",
        r"fatal: could not read (?P<what>Username|Password) for",
        r"Permission denied \((?P<what>publickey[^)]*)\)",
    ),
    _rule(
        "merge conflict",
        "vcs_conflict",
        "resolve the conflict in {what}, then continue the merge",
        r"CONFLICT \([^)]+\): Merge conflict in (?P<what>.+)",
        r"CONFLICT \([^)]+\): (?P<what>.+)",
        r"error: (?P<what>.+): patch does not apply",
        r"error: patch failed: (?P<what>.+)",
        r"Hunk #\d+ FAILED at (?P<what>\d+)",
        r"error: could not apply (?P<what>.+)",
        r"(?P<what>Your local changes to the following files would be overwritten)",
    ),
    _rule(
        "git",
        "vcs_error",
        "read git's message: {what}",
        r"^fatal: (?P<what>.+)",
        r"^error: (?P<what>(?:pathspec|failed to push|src refspec|Your local|unable to) .*)",
        r"! \[rejected\]\s+(?P<what>.+)",
    ),
    _rule(
        "type checker",
        "type_check_failed",
        "correct the types at {what}",
        r"^(?P<what>\S+\.pyi?:\d+): error: .*\[[\w-]+\]$",
        r"^Found \d+ errors? in \d+ files?",
    ),
    _rule(
        "C header",
        "dependency_missing",
        "install the development package with {what}",
        r"^\S+:\d+:\d+: fatal error: (?P<what>\S+): No such file or directory",
    ),
    _rule(
        "linker",
        "link_error",
        "add the library or the object that defines {what}",
        r"undefined reference to (?:[`']|‘)(?P<what>[^'’]+)",
        r"cannot find -l(?P<what>\S+)",
        r"multiple definition of (?:[`']|‘)(?P<what>[^'’]+)",
        r"ld returned 1 exit status",
    ),
    _rule(
        "compiler",
        "compile_error",
        "read the first error of the compiler: {what}",
        r"^(?P<what>[^\s:]+:\d+:\d+): (?:fatal )?error:",
        r"^(?P<what>cc1(?:plus)?: .*error.*)",
        r"^error(?:\[E\d+\])?: (?P<what>.+)\n +-->",
        r"^(?P<what>\S+\.go:\d+:\d+): ",
        r"^(?P<what>\S+\.tsx?\(\d+,\d+\)): error TS",
        r"^(?P<what>\S+\.java:\d+): error:",
    ),
    _rule(
        "CMake",
        "build_failed",
        "read CMake's error: {what}",
        r"^CMake Error(?: at (?P<what>\S+:\d+))?",
        r"^CMake Error: (?P<what>.+)",
        r"^Error: (?P<what>.+ is not a directory|could not load cache)",
    ),
    _rule(
        "linter",
        "lint_failed",
        "correct {what}",
        r"^(?P<what>\S+\.py:\d+:\d+): [A-Z]+\d+ ",
        r"^Found \d+ errors?\.$",
        r"^Would reformat: (?P<what>\S+)",
        r"^ *--> (?P<what>\S+\.py:\d+:\d+)$",
    ),
    _rule(
        "Python module",
        "dependency_missing",
        "install the module {what}, or correct the import",
        r"^(?:E\s+)?ModuleNotFoundError: No module named '(?P<what>[^']+)'",
        r"No module named '?(?P<what>[\w.]+)'?",
        r"Error: Cannot find module '(?P<what>[^']+)'",
        r"Can't locate (?P<what>\S+) in @INC",
        r"cannot import name '(?P<what>[^']+)'",
    ),
    _rule(
        "shared library",
        "dependency_missing",
        "install the library {what}",
        r"error while loading shared libraries: (?P<what>[^:]+)",
        r"(?P<what>\S+\.so[.\d]*): cannot open shared object file",
    ),
    _rule(
        "Python syntax",
        "syntax_error",
        "correct the syntax: {what}",
        r"^(?P<what>(?:SyntaxError|IndentationError|TabError): .+)",
        last=True,
    ),
    _rule(
        "other syntax",
        "syntax_error",
        "correct the syntax: {what}",
        r"(?P<what>[Ss]yntax error.*)",
        r"^(?P<what>Expecting .+: line \d+ column \d+.*)",
        r"(?P<what>unexpected EOF while looking for matching .+)",
        r"(?P<what>unexpected end of file)",
        r"^(?P<what>SyntaxError: .+)",
        r"^jq: error: (?P<what>.+)",
        r"(?P<what>\S+:\d+: \*\*\* missing separator)",
    ),
    _rule(
        "make target",
        "build_failed",
        "read the error of the target's own command above: {what}",
        r"make(?:\[\d+\])?: \*\*\* No rule to make target '(?P<what>[^']+)'",
        r"make(?:\[\d+\])?: \*\*\* No (?P<what>targets specified.*)",
        r"ninja: (?:error|build stopped): (?P<what>.+)",
    ),
    _rule(
        "command missing",
        "command_not_found",
        "install {what}, or correct the name or PATH",
        r"(?P<what>[^\s:]+): command not found",
        r"\d+: (?P<what>[^\s:]+): not found",
        r"env: (?:'|‘)(?P<what>[^’']+)(?:'|’): No such file",
        r"make(?:\[\d+\])?: (?P<what>[^\s:]+): No such file or directory",
        r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<what>[^'/]+)'\n.*execvp",
    ),
    _rule(
        "permission",
        "permission_denied",
        "check owner and mode of {what}, or run it as another user",
        r"(?P<what>[^\s:'‘]+)[’']?: Permission denied",
        r"PermissionError: (?P<what>.+)",
        r"(?P<what>[^\s:]+): Operation not permitted",
        r"[Rr]ead-only file system",
        r"EACCES: (?P<what>.+)",
        r"[Pp]ermission denied",
        r"are you root\?",
        r"Operation not permitted",
    ),
    _rule(
        "file missing",
        "file_not_found",
        "check the path {what} and the working directory",
        r"FileNotFoundError: .*: '?(?P<what>[^'\n]+)'?",
        r"(?P<what>[^\s:'‘]+)[’']?: No such file or directory",
        r"can't open file '(?P<what>[^']+)'",
        r"ENOENT: .*'(?P<what>[^']+)'",
        r"No such file or directory",
        r"[Cc]annot stat '(?P<what>[^']+)'",
    ),
    _rule(
        "database",
        "database_error",
        "read the database's message: {what}",
        r"(?P<what>(?:sqlite3|psycopg2?|sqlalchemy|asyncpg|pymysql)\.\S*(?:Error|Exception|Violation): .+)",
        r"(?P<what>database is locked)",
    ),
    _rule(
        "failed assertion",
        "assertion_failed",
        "check what the assertion expects: {what}",
        r"^(?P<what>AssertionError.*)",
        r"(?P<what>\S+:\d+: .*Assertion .* failed)",
        last=True,
        explains_crash=True,
    ),
    _rule(
        "Python exception",
        "exception",
        "read the traceback's last frame: {what}",
        r"^(?P<what>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Group|Iteration)\b.*)",
        last=True,
    ),
    _rule(
        "other exception",
        "exception",
        "read where it was thrown: {what}",
        r"^(?:Uncaught )?(?P<what>\w*Error: .+)",
        r"^terminate called after throwing an instance of '(?P<what>[^']+)'",
        r"^(?P<what>.+ at \S+ line \d+\.)$",
    ),
    _rule(
        "usage",
        "usage_error",
        "check the arguments: {what}",
        r"^(?P<what>[Uu]sage: .+)",
        r"error: (?P<what>(?:unrecognized arguments|argument |the following arguments are required).*)",
        r"(?P<what>(?:unrecognized|invalid|unknown|illegal) (?:command-line )?option.*)",
        r"(?P<what>[Nn]o such option.*)",
        r"(?P<what>unbound variable)",
    ),
    _rule(
        "make",
        "build_failed",
        "read the error of the target's own command above: {what}",
        r"make(?:\[\d+\])?: \*\*\* (?P<what>\[.+)",
    ),
)


def parse_rules(values: Any) -> tuple[FailureRule, ...]:
    """Return a user's rules from plain values: a list of objects with the fields of `FailureRule`.

    Raises:
        InvalidArgument: one cannot be used; the message names it.
    """
    if not isinstance(values, list) or len(values) > MOST_RULES:
        raise InvalidArgument(f"cannot use the failure rules: they are not a list of at most {MOST_RULES}")
    return tuple(_checked(number, each) for number, each in enumerate(values, start=1))


def _checked(number: int, given: Any) -> FailureRule:
    if not isinstance(given, dict):
        raise _refused(number, "it is not an object")
    known = {"name", "failure_type", "pattern", "focus", "command", "codes", "last"}
    if unknown := sorted(set(given) - known):
        raise _refused(number, f"it has no field '{unknown[0]}'")
    texts = {key: _text(number, given, key) for key in ("name", "failure_type", "pattern", "focus")}
    command, codes, last = given.get("command", ""), given.get("codes", []), given.get("last", False)
    if not isinstance(codes, list) or not all(type(code) is int for code in codes):
        raise _refused(number, "its 'codes' are not a list of numbers")
    if not isinstance(command, str) or not isinstance(last, bool):
        raise _refused(number, "its 'command' is not a text, or its 'last' not true or false")
    for key, pattern in (("pattern", texts["pattern"]), ("command", command)):
        _check_pattern(number, key, pattern)
    return FailureRule(
        name=texts["name"],
        failure_type=texts["failure_type"],
        pattern=texts["pattern"],
        focus=texts["focus"],
        command=command,
        codes=tuple(codes),
        last=last,
    )


def _text(number: int, given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise _refused(number, f"its '{key}' is not a text")
    try:
        return value if key == "pattern" else one_line(value)
    except ValueError as error:
        raise _refused(number, f"its '{key}': {error}") from error


def _check_pattern(number: int, key: str, pattern: str) -> None:
    if len(pattern) > LONGEST_PATTERN:
        raise _refused(number, f"its '{key}' has more than {LONGEST_PATTERN} characters")
    try:
        compiled(pattern.encode())
    except ValueError as error:
        raise _refused(number, f"its '{key}' cannot be used: {error}") from None


def _refused(number: int, why: str) -> InvalidArgument:
    return InvalidArgument(f"cannot use failure rule {number}: {why}")
