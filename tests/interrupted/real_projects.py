"""Small real projects whose work is handed over: what each step runs, and what verifies it.  Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProjectStep:
    """A step: its title, the shell's text that does it, and the command that verifies it."""

    title: str
    work: str
    verify: str


@dataclass(frozen=True, slots=True)
class RealProject:
    """A project: its name, what must be there before it begins, and phases of steps."""

    name: str
    setup: str
    phases: tuple[tuple[str, tuple[ProjectStep, ...]], ...]

    def plan(self) -> str:
        """Return the plan as `task plan` reads it."""
        lines: list[str] = []
        for title, steps in self.phases:
            lines += [title, *(f"- {step.title} :: {step.verify}" for step in steps)]
        return "\n".join(lines)

    def steps(self) -> dict[str, ProjectStep]:
        """Return the steps by their numbers."""
        return {
            f"{major}.{minor}": step
            for major, (_, steps) in enumerate(self.phases, start=1)
            for minor, step in enumerate(steps, start=1)
        }


def _step(title: str, work: str, verify: str) -> ProjectStep:
    return ProjectStep(title, work, verify)


PYTHON = RealProject(
    "python-library",
    "true",
    (
        (
            "Write",
            (
                _step(
                    "Write the module",
                    "printf 'class Stack(list):\\n    def top(self):\\n        return self[-1]\\n' > stack.py",
                    "python3 -c 'import stack; assert stack.Stack([1]).top() == 1'",
                ),
                _step(
                    "Test the module",
                    "printf 'import unittest, stack\\nclass T(unittest.TestCase):\\n"
                    "    def test_top(self):\\n        self.assertEqual(stack.Stack([1, 2]).top(), 2)\\n"
                    "' > test_stack.py",
                    "python3 -m unittest -q test_stack",
                ),
            ),
        ),
        (
            "Change",
            (
                _step(
                    "Rename top to peek",
                    "sed -i s/top/peek/g stack.py test_stack.py",
                    "python3 -m unittest -q test_stack && ! grep -q top stack.py",
                ),
                _step(
                    "Add a length limit",
                    "printf '    limit = 3\\n' >> stack.py",
                    "python3 -c 'import stack; assert stack.Stack.limit == 3'",
                ),
                _step("Pack it", "tar czf stack.tgz stack.py test_stack.py", "tar tzf stack.tgz"),
            ),
        ),
    ),
)
NODE = RealProject(
    "node-project",
    "command -v node || (apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs)",
    (
        (
            "Write",
            (
                _step(
                    "Describe the package",
                    'printf \'{"name": "sums", "version": "1.0.0", "type": "module"}\' > package.json',
                    'node -e \'JSON.parse(require("fs").readFileSync("package.json")).name\'',
                ),
                _step(
                    "Write the module",
                    "printf 'export const sum = (...all) => all.reduce((a, b) => a + b, 0);\\n' > sums.js",
                    "node --input-type=module -e 'import { sum } from \"./sums.js\"; if (sum(1, 2) !== 3) throw 1'",
                ),
            ),
        ),
        (
            "Test",
            (
                _step(
                    "Test the module",
                    'printf \'import test from "node:test";\\nimport { sum } from "./sums.js";\\n'
                    'test("adds", () => { if (sum(2, 2) !== 4) throw new Error("no"); });\\n\' > sums.test.js',
                    "test -e sums.test.js && node --test",
                ),
                _step(
                    "Add the product",
                    "printf 'export const product = (...all) => all.reduce((a, b) => a * b, 1);\\n' >> sums.js",
                    "node --input-type=module -e 'import { product } from \"./sums.js\"; if (product(2, 3) !== 6) throw 1'",
                ),
                _step(
                    "Raise the version", "sed -i s/1.0.0/1.1.0/ package.json", "grep -q 1.1.0 package.json"
                ),
            ),
        ),
    ),
)
_SQL = "python3 -c 'import sqlite3, sys; c = sqlite3.connect(\"rows.db\"); {}'"
C_WITH_A_DATABASE = RealProject(
    "c-project-with-a-database",
    "true",
    (
        (
            "Build",
            (
                _step(
                    "Write the generator",
                    "printf '#include <stdio.h>\\nint main(void) { for (int i = 1; i <= 100; i++) "
                    'printf("insert into rows values (%%d, %%d);\\\\n", i, i); return 0; }\\n\' > rows.c',
                    "gcc -fsyntax-only -Wall -Werror rows.c",
                ),
                _step(
                    "Build it with make",
                    "printf 'rows: rows.c\\n\\tgcc -Wall -o rows rows.c\\n' > Makefile && make",
                    'make -q && test "$(./rows | wc -l)" = 100',
                ),
            ),
        ),
        (
            "Migrate",
            (
                _step(
                    "Fill the database",
                    _SQL.format('c.executescript("create table rows (id integer primary key, n integer)")')
                    + " && ./rows | "
                    + _SQL.format("c.executescript(sys.stdin.read()); c.commit()"),
                    _SQL.format('n, = c.execute("select count(*) from rows").fetchone(); sys.exit(n != 100)'),
                ),
                _step(
                    "Add a thousand to each row",
                    _SQL.format('c.execute("update rows set n = n + 1000"); c.commit()'),
                    _SQL.format(
                        'n, = c.execute("select sum(n) from rows").fetchone(); sys.exit(n != 105050)'
                    ),
                ),
                _step(
                    "Index the rows",
                    _SQL.format('c.execute("create index by_n on rows (n)"); c.commit()'),
                    _SQL.format(
                        'sys.exit(not c.execute("select 1 from sqlite_master where name = \\"by_n\\"").fetchone())'
                    ),
                ),
            ),
        ),
    ),
)
PROJECTS = (PYTHON, NODE, C_WITH_A_DATABASE)
