"""Small real projects whose work is handed over: the commands of each step, and its verification.  Pure.

The verification of a step fails before its work was done, and some work would be seen if it ran twice.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProjectStep:
    """A step: its title, the shell's text that does it, and the command that verifies it."""

    title: str
    work: str
    verify: str


@dataclass(frozen=True, slots=True)
class RealProject:
    """A project: its name, the files needed before it begins, and phases of steps."""

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


def _writes(path: str, text: str) -> str:
    return f"printf %s {shlex.quote(text)} > {path}"


_COUNT = '''"""Counts words."""

from collections import Counter


def count(text):
    return Counter(text.lower().split())
'''
_TEST_COUNT = """import unittest

from wordtools.count import count


class CountTest(unittest.TestCase):
    def test_words_are_counted_whatever_their_case(self):
        self.assertEqual(count("a B A")["a"], 2)
"""
_COMMAND = """import sys

from wordtools.counting import count

for word, times in count(sys.stdin.read()).most_common():
    print(word, times)
"""
PYTHON = RealProject(
    "python-library",
    "git init -q .",
    (
        (
            "Write",
            (
                _step(
                    "Write the module",
                    f"mkdir -p wordtools && touch wordtools/__init__.py && {_writes('wordtools/count.py', _COUNT)}",
                    'python3 -c \'from wordtools.count import count; assert count("a A")["a"] == 2\'',
                ),
                _step(
                    "Test the module",
                    f"mkdir -p tests && touch tests/__init__.py && {_writes('tests/test_count.py', _TEST_COUNT)}",
                    "python3 -m unittest -q tests.test_count",
                ),
            ),
        ),
        (
            "Change",
            (
                _step(
                    "Rename count to counting",
                    "mv wordtools/count.py wordtools/counting.py && sed -i s/wordtools.count/wordtools.counting/ "
                    "tests/test_count.py",
                    "python3 -m unittest -q tests.test_count && ! test -e wordtools/count.py",
                ),
                _step(
                    "Add a command",
                    _writes("wordtools/__main__.py", _COMMAND),
                    "echo a b a | python3 -m wordtools | grep -qx 'a 2'",
                ),
                _step(
                    "Add a limit",
                    "printf '\\n\\nLIMIT = 3\\n' >> wordtools/counting.py",
                    'test "$(grep -c LIMIT wordtools/counting.py)" = 1',
                ),
            ),
        ),
        (
            "Ship",
            (
                _step(
                    "Document it",
                    _writes("README.md", ">>> from wordtools.counting import LIMIT\n>>> LIMIT\n3\n"),
                    "python3 -m doctest README.md",
                ),
                _step(
                    "Name the version",
                    _writes("pyproject.toml", '[project]\nname = "wordtools"\nversion = "1.0"\n'),
                    'python3 -c \'import tomllib; tomllib.load(open("pyproject.toml", "rb"))["project"]\'',
                ),
                _step(
                    "Pack it",
                    "mkdir -p build && cp -r wordtools build/ && cp wordtools/__main__.py build/ && "
                    "python3 -m zipapp build -o wordtools.pyz",
                    "echo x | python3 wordtools.pyz | grep -qx 'x 1'",
                ),
            ),
        ),
    ),
)

_SERVER = """import http from "node:http";
import { sum } from "./sums.js";

let visits = 0;
http.createServer((request, response) => {
  visits = sum(visits, 1);
  response.end(String(visits));
}).listen(8123, "127.0.0.1");
"""
_VISIT = (
    "node -e 'fetch(\"http://127.0.0.1:8123\").then(async (r) => process.exit(await r.text() > {} ? 0 : 1))'"
)
_MODULE = "node --input-type=module -e 'import {{ {0} }} from \"./sums.js\"; if ({0}(2, 3) !== {1}) throw 1'"
NODE = RealProject(
    "node-project",
    "command -v node || (apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs)",
    (
        (
            "Write",
            (
                _step(
                    "Describe the package",
                    _writes("package.json", '{"name": "sums", "version": "1.0.0", "type": "module"}\n'),
                    'node -e \'JSON.parse(require("fs").readFileSync("package.json")).name\'',
                ),
                _step(
                    "Write the module",
                    _writes("sums.js", "export const sum = (...all) => all.reduce((a, b) => a + b, 0);\n"),
                    _MODULE.format("sum", 5),
                ),
                _step(
                    "Test the module",
                    _writes(
                        "sums.test.js",
                        'import test from "node:test";\nimport { sum } from "./sums.js";\n'
                        'test("adds", () => { if (sum(2, 2) !== 4) throw new Error("no"); });\n',
                    ),
                    "test -e sums.test.js && node --test",
                ),
            ),
        ),
        (
            "Extend",
            (
                _step(
                    "Add the product",
                    "echo 'export const product = (...all) => all.reduce((a, b) => a * b, 1);' >> sums.js",
                    _MODULE.format("product", 6),
                ),
                _step(
                    "Test the product",
                    "sed -i 's/{ sum }/{ sum, product }/' sums.test.js && "
                    'echo \'test("multiplies", () => { if (product(2, 4) !== 8) throw new Error("no"); });\' '
                    ">> sums.test.js",
                    "grep -q multiplies sums.test.js && node --test",
                ),
                _step(
                    "Serve it",
                    f"{_writes('server.js', _SERVER)} && (node server.js > server.log 2>&1 &)",
                    "for i in 1 2 3 4 5 6 7 8 9; do "
                    + _VISIT.format(0)
                    + " && exit 0; test -e server.js || exit 1; sleep 0.3; done; exit 1",
                ),
            ),
        ),
        (
            "Ship",
            (
                _step(
                    "Count visits in memory",
                    f"{_VISIT.format(1)} && echo 'visits are in memory' > NOTES",
                    f"test -e NOTES && {_VISIT.format(2)}",
                ),
                _step(
                    "Raise the version", "sed -i s/1.0.0/1.1.0/ package.json", "grep -q 1.1.0 package.json"
                ),
            ),
        ),
    ),
)

# SQLite's functions are declared here, since the image has the library without its header.
_STORE = r"""#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
int sqlite3_open(const char *path, sqlite3 **db);
int sqlite3_exec(sqlite3 *db, const char *sql, int (*row)(void *, int, char **, char **), void *to, char **why);

static sqlite3 *db;
static volatile sig_atomic_t looks;

static int keep(void *to, int n, char **value, char **name) {
    (void)n, (void)name;
    *(long *)to = value[0] ? atol(value[0]) : 0;
    return 0;
}

static long run(const char *sql) {
    long found = 0;
    char *why = NULL;
    if (sqlite3_exec(db, sql, keep, &found, &why) != 0) {
        fprintf(stderr, "error: %s\n", why);
        exit(1);
    }
    return found;
}

static void look(int number) { (void)number, looks++; }

static void fill(void) {
    char sql[80];
    run("create table rows (id integer primary key, n integer)");
    for (int i = 1; i <= 100; i++)
        snprintf(sql, sizeof sql, "insert into rows values (%d, %d)", i, i), run(sql);
}

static void migrate(void) {
    char sql[120];
    for (int part = 0; part < 20; part++)
        snprintf(sql, sizeof sql, "update rows set n = n + 1000 where id %% 20 = %d", part), run(sql);
}

static void watch(void) {
    struct sigaction how;
    memset(&how, 0, sizeof how);
    how.sa_handler = look;
    sigaction(SIGUSR1, &how, NULL);
    for (int seen = 0;; pause())
        for (; seen < looks; seen++)
            printf("look %d: sum %ld\n", seen + 1, run("select sum(n) from rows")), fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 3 || sqlite3_open(argv[2], &db) != 0)
        return 2;
    if (!strcmp(argv[1], "fill")) fill();
    else if (!strcmp(argv[1], "migrate")) migrate();
    else if (!strcmp(argv[1], "index")) run("create index by_n on rows (n)");
    else if (!strcmp(argv[1], "indexes")) printf("%ld\n", run("select count(*) from sqlite_master where type = 'index'"));
    else if (!strcmp(argv[1], "count")) printf("%ld\n", run("select count(*) from rows"));
    else if (!strcmp(argv[1], "sum")) printf("%ld\n", run("select sum(n) from rows"));
    else if (!strcmp(argv[1], "watch")) watch();
    else return 2;
    return 0;
}
"""
_BUILD = "store: store.c\n\tgcc -Wall -Wextra -Werror -o store store.c -l:libsqlite3.so.0\n"
_LOOK = 'kill -USR1 "$(cat watch.pid)"'
C_WITH_A_DATABASE = RealProject(
    "c-project-with-a-database",
    "true",
    (
        (
            "Build",
            (
                _step(
                    "Write the store", _writes("store.c", _STORE), "gcc -fsyntax-only -Wall -Werror store.c"
                ),
                _step(
                    "Build it with make",
                    f"{_writes('Makefile', _BUILD)} && make",
                    "make -q && ./store sum :memory: 2>&1 | grep -q 'no such table'",
                ),
            ),
        ),
        (
            "Migrate",
            (
                _step("Fill the database", "./store fill rows.db", 'test "$(./store count rows.db)" = 100'),
                _step(
                    "Watch the database",
                    "(./store watch rows.db > watch.log 2>&1 & echo $! > watch.pid)",
                    f"{_LOOK} && for i in 1 2 3 4 5 6 7 8 9; do grep -q 'sum 5050' watch.log && exit 0; "
                    "sleep 0.3; done; exit 1",
                ),
                _step(
                    "Add a thousand to each row",
                    "./store migrate rows.db",
                    'test "$(./store sum rows.db)" = 105050',
                ),
            ),
        ),
        (
            "Ship",
            (
                _step("Index the rows", "./store index rows.db", 'test "$(./store indexes rows.db)" = 1'),
                _step(
                    "Show the migration to those who watch",
                    f"{_LOOK} && until grep -q 105050 watch.log; do sleep 0.1; done",
                    "tail -n 1 watch.log | grep -q 'sum 105050'",
                ),
                _step("Pack it", "tar czf store.tgz store.c Makefile", "tar tzf store.tgz"),
            ),
        ),
    ),
)
PROJECTS = (PYTHON, NODE, C_WITH_A_DATABASE)
