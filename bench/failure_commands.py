"""Commands that fail, each in a way that is known beforehand. Data of `bench.failure_corpus`.

A line is `KIND | COMMAND`; the kinds are those of `classify_failure`. Files they need are made by `SETUP`.
The rules were written before any of these was run, and then corrected by what `FIRST` and `LATER` showed. `HELD`
was run after that: the rules have never been changed because of it.
"""

from __future__ import annotations

import re

SETUP = r"""
pip install -q pytest mypy ruff cmake tox uv setuptools >/dev/null 2>&1
apt-get update -qq >/dev/null 2>&1; apt-get install -qq -y --no-install-recommends nodejs golang-go >/dev/null 2>&1
mkdir -p /w && cd /w && git init -q . && git config user.email a@b.c && git config user.name a
printf 'def test_a():\n    assert 1 + 1 == 3\n' > test_fails.py
printf 'import nowhere\ndef test_a(): pass\n' > test_import.py
printf 'def test_a(:\n' > test_syntax.py
printf 'import pytest\n@pytest.fixture\ndef db(): raise RuntimeError("no database")\ndef test_a(db): pass\n' > test_fixture.py
printf 'import pytest\ndef test_b():\n    with pytest.raises(KeyError):\n        pass\n' > test_raises.py
printf 'x = 1\n' > test_none.py
printf 'import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 2)\n' > unit_a.py
printf 'import unittest\nclass T(unittest.TestCase):\n    def test_a(self): {}["k"]\n' > unit_b.py
printf 'int main() { return x; }\n' > undeclared.c
printf 'int main() { return 0 }\n' > semicolon.c
printf '#include <nothere.h>\nint main() { return 0; }\n' > header.c
printf 'int f(void); int main() { return f(); }\n' > link.c
printf '#include <stdlib.h>\nint main() { abort(); }\n' > abort.c
printf 'int main() { int *p = 0; return *p; }\n' > null.c
printf '#include <assert.h>\nint main() { assert(1 == 2); }\n' > assert.c
printf 'all:\n\tfalse\n' > Makefile.false
printf 'all: missing.o\n' > Makefile.rule
printf 'all:\nfalse\n' > Makefile.tab
printf 'all:\n\tgcc undeclared.c\n' > Makefile.gcc
printf 'all:\n\tnosuchprogram\n' > Makefile.program
printf 'cmake_minimum_required(VERSION 3.20)\nproject(a C)\nfind_package(NoSuchThing REQUIRED)\n' > CMakeLists.txt
printf 'x: int = "a"\n' > typed.py
printf 'import os\n' > lint.py
printf 'a = {  "k" }\n' > format.py
printf '{"a": }' > bad.json
printf 'package main\nfunc main() { x := 1 }\n' > unused.go
printf 'const x = ;\n' > syntax.js
printf 'use Nothing::There;\n' > module.pl
printf 'my $x = ;\n' > syntax.pl
printf 'import argparse\np = argparse.ArgumentParser()\np.add_argument("n", type=int)\np.parse_args()\n' > args.py
printf '#!/bin/sh\necho hello\n' > script.sh
printf 'nonsense==\n' > requirements-bad.txt
printf '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.99"\n[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n' > /tmp/pyproject.toml
mkdir -p newer && cp /tmp/pyproject.toml newer/ && mkdir -p broken && printf 'raise SystemExit("no")\n' > broken/setup.py
printf 'not a wheel' > damaged-1.0-py3-none-any.whl
git add -A >/dev/null && git commit -qm one
git checkout -q -b other && printf 'two\n' > f && git add f && git commit -qm two && git checkout -q - && printf 'three\n' > f && git add f && git commit -qm three
printf 'int main() { long x = "a" 3; }\n' > types.c; printf 'int f(void) { return 1; }\n' > one.c
printf 'package main\nimport "example.com/none"\nfunc main() { none.F() }\n' > missing.go
printf 'package main\nimport "testing"\nfunc TestA(t *testing.T) { t.Fatal("no") }\n' > sum_test.go
(setsid python3 -m http.server 8098 >/dev/null 2>&1 &)
"""

FIRST = r"""
tests_failed | pytest -q test_fails.py
tests_failed | pytest -q test_raises.py
tests_failed | python3 -m unittest unit_a
tests_failed | python3 -m unittest unit_b
test_collection_failed | pytest -q test_import.py
test_collection_failed | pytest -q test_syntax.py
test_setup_failed | pytest -q test_fixture.py
no_tests | pytest -q test_none.py
compile_error | gcc undeclared.c
compile_error | gcc semicolon.c
dependency_missing | gcc header.c
link_error | gcc link.c
crashed | gcc -o null null.c && ./null
build_failed | make -f Makefile.false
build_failed | make -f Makefile.rule
compile_error | make -f Makefile.gcc
command_not_found | make -f Makefile.program
build_failed | cmake -S . -B build
type_check_failed | mypy typed.py
lint_failed | ruff check lint.py
lint_failed | ruff format --check format.py
package_not_found | pip install no-such-package-of-this-name-0
package_not_found | apt-get install -y no-such-package-0
package_not_found | pip install pytest==0.0.999
dependency_conflict | pip install 'requests==2.31.0' 'urllib3<1.20'
dependency_conflict | pip install ./newer
package_build_failed | pip install ./broken
usage_error | pip install -r requirements-bad.txt
usage_error | pip install -r nothere.txt
usage_error | python3 args.py
command_not_found | nosuchprogram --help
permission_denied | ./script.sh
file_not_found | cat nothere.txt
file_not_found | python3 nothere.py
dependency_missing | python3 -c 'import nowhere'
dependency_missing | perl module.pl
syntax_error | python3 -c 'def f(:'
syntax_error | perl syntax.pl
syntax_error | node syntax.js
exception | python3 -c '{}["k"]'
exception | python3 -c 'int("x")'
exception | node -e 'null.f'
assertion_failed | python3 -c 'assert 1 == 2, "no"'
out_of_memory | python3 -c 'x = "a" * (1 << 46)'
timeout | timeout 1 sleep 60
killed | sh -c 'kill -9 $$'
network_unreachable | curl -sS http://no.such.host.invalid/
network_unreachable | curl -sS http://127.0.0.1:9/
port_in_use | python3 -c 'import socket; a = socket.create_server(("", 0)); socket.create_server(a.getsockname())'
vcs_conflict | git merge other
vcs_error | git checkout nothere
vcs_error | git -C / status
database_error | python3 -c 'import sqlite3; sqlite3.connect(":memory:").execute("select * from nothere")'
http_error | curl -fsS http://127.0.0.1:8098/no
disk_full | python3 -c 'open("/dev/full", "w").write("x" * 9999999)'
"""

LATER = r"""
tests_failed | pytest -q test_fails.py test_raises.py unit_a.py --tb=short
tests_failed | pytest -x --tb=no -q test_raises.py
tests_failed | (cd / && python3 -m pytest -q /w/test_fails.py)
test_collection_failed | pytest -q nothere.py
no_tests | pytest -q -k nothing test_fails.py
no_tests | python3 -m unittest test_none
compile_error | go run unused.go
compile_error | printf 'int f( {' | gcc -x c -
compile_error | gcc -Werror -Wall -c undeclared.c semicolon.c
link_error | gcc undeclared.c -include stdlib.h -Dx=0 -lnosuchlib
crashed | gcc -w -o abort abort.c && ./abort
crashed | python3 -c 'import ctypes; ctypes.string_at(0)'
assertion_failed | gcc -o assert assert.c && ./assert
syntax_error | make -f Makefile.tab
build_failed | make nothere
build_failed | cmake --build nothere
type_check_failed | mypy --strict typed.py unit_a.py
lint_failed | ruff check --output-format concise lint.py
package_not_found | uv venv -q --clear /tmp/v && VIRTUAL_ENV=/tmp/v uv pip install no-such-package-of-this-name-0
package_not_found | pip download no-such-package-of-this-name-0
package_damaged | pip install ./damaged-1.0-py3-none-any.whl
usage_error | gcc --no-such-option undeclared.c
usage_error | pytest --no-such-option
usage_error | git commit --no-such-option
usage_error | tar --no-such-option
usage_error | ls --no-such-option
command_not_found | env nosuchprogram
command_not_found | sh -c nosuchprogram
permission_denied | su nobody -s /bin/sh -c 'cat /etc/shadow'
permission_denied | su nobody -s /bin/sh -c 'touch /w/x'
permission_denied | su nobody -s /bin/sh -c 'apt-get install -y hello'
file_not_found | cd /no/such/folder
file_not_found | python3 -c 'open("/no/such/file")'
file_not_found | cp nothere.txt there.txt
file_not_found | tar xf nothere.tar
dependency_missing | python3 -m nothere
dependency_missing | node -e 'require("nothere")'
dependency_missing | python3 -c 'from os import nothere'
syntax_error | python3 test_syntax.py
syntax_error | bash -c 'if true; then'
syntax_error | sh -c 'echo "a'
syntax_error | python3 -m json.tool bad.json
exception | python3 -c 'raise SystemExit("the config is wrong")'
exception | python3 -c 'import asyncio; asyncio.run(asyncio.wait_for(asyncio.sleep(9), 0.1))'
exception | node -e 'throw new Error("no")'
out_of_memory | python3 -c 'x = []
while True: x.append(bytearray(64 << 20))'
out_of_memory | node --max-old-space-size=20 -e 'a = []; while (1) a.push(new Array(1e5).fill(1))'
timeout | timeout -s KILL 1 sleep 60
killed | sh -c 'kill -TERM $$'
interrupted | sh -c 'kill -INT $$'
network_unreachable | python3 -c 'import urllib.request as u; u.urlopen("http://no.such.host.invalid/")'
network_unreachable | pip install --index-url http://127.0.0.1:9/simple --retries 0 anything
network_unreachable | git clone https://no.such.host.invalid/a.git
port_in_use | python3 -m http.server 8099 >/dev/null 2>&1 & sleep 1; python3 -m http.server 8099; s=$?; kill %1; (exit $s)
vcs_conflict | printf -- '--- a/f\n+++ b/f\n@@ -1 +1 @@\n-zero\n+one\n' | git apply
vcs_conflict | printf -- '--- f\n+++ f\n@@ -1 +1 @@\n-zero\n+one\n' | patch -p0 --dry-run
vcs_error | git push origin main
vcs_error | git log nothere
database_error | python3 -c 'import sqlite3; c = sqlite3.connect(":memory:"); c.execute("create table a (b unique)"); c.executemany("insert into a values (?)", [[1], [1]])'
http_error | python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8098/no")'
disk_full | dd if=/dev/zero of=/dev/full bs=1k count=1
waiting_for_input | python3 -c 'input("Your name? ")'
waiting_for_input | read -s -p 'Password: ' p
"""

HELD = r"""
tests_failed | python3 -m pytest test_raises.py --no-header -p no:cacheprovider --tb=line
tests_failed | go test sum_test.go
test_setup_failed | pytest --tb=line test_fixture.py
compile_error | gcc -c types.c
compile_error | go build -o /dev/null unused.go
link_error | cp one.c two.c; gcc one.c two.c link.c
syntax_error | python3 -m py_compile test_syntax.py
syntax_error | node --check syntax.js
dependency_missing | go run missing.go
command_not_found | make -f Makefile.program SHELL=/bin/bash
command_not_found | echo a | xargs nosuchprogram
permission_denied | su nobody -s /bin/sh -c 'mkdir /root/x'
permission_denied | /w
file_not_found | sed -n p nothere
file_not_found | node nothere.js
file_not_found | gcc nothere.c
exception | perl -e 'die "no\n"'
exception | node -e 'JSON.parse("{")'
exception | python3 -c 'import concurrent.futures as c; c.ThreadPoolExecutor().submit(int, "x").result()'
interrupted | python3 -c 'raise KeyboardInterrupt'
network_unreachable | git clone http://127.0.0.1:9/a.git
network_unreachable | node -e 'require("net").connect(9)'
port_in_use | node -e 'require("http").createServer().listen(8098)'
vcs_error | git clone http://127.0.0.1:8098/a.git
vcs_conflict | git checkout -q . ; git rebase other
database_error | python3 -c 'import sqlite3; sqlite3.connect("/no/such/db")'
disk_full | cp /bin/bash /dev/full
timeout | timeout 1 python3 -c 'while True: pass'
waiting_for_input | rm -i Makefile.tab
lint_failed | ruff check --select F401 --output-format full lint.py
type_check_failed | mypy unit_a.py --disallow-untyped-defs
usage_error | mypy --no-such-option
usage_error | python3 -m http.server notaport
killed | bash -c 'kill -HUP $$'
crashed | python3 -c 'import os; os.abort()'
package_not_found | VIRTUAL_ENV=/tmp/v uv pip install pytest==0.0.999
dependency_conflict | printf 'requests==2.31.0\nurllib3<1.20\n' | uv pip compile -
"""


def commands(text: str) -> list[tuple[str, str]]:
    """Return the kinds and commands of a list; a command may have several lines."""
    found: list[tuple[str, str]] = []
    for line in text.strip("\n").split("\n"):
        kind, mark, command = line.partition(" | ")
        if mark and re.fullmatch(r"[a-z_]+(?:: [^|]+)?", kind):
            found.append((kind, command))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
    return found
