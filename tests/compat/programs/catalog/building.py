"""Tools that build, install and rewrite, interrupted only by the capture."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run

_FAMILY = "building"
# The step in the middle waits for the file `go`.
_HOLD = "touch $W/half; until [ -e $W/go ]; do sleep 0.05; done"

PROGRAMS = (
    Program(
        name="git-rebase",
        family=_FAMILY,
        does="git in the middle of a rebase of 12 commits, in the command that runs between two of them",
        prepare="""
            rm -rf repo; git init -q repo; cd repo; git config user.email a@example.org; git config user.name A
            echo base > base; git add base; git commit -qm base; git branch other
            for i in $(seq 12); do echo $i > file$i; git add .; git commit -qm "change $i"; done
            git checkout -q other; echo more > more; git add more; git commit -qm more; git checkout -q main""",
        start=f"""
            export W=$PWD; cd repo
            git rebase -x 'if [ -e file6 ]; then {_HOLD}; fi' other >$W/log 2>&1; echo $? > $W/status; sleep 100021""",
        ready="[ -e half ] && [ -d repo/.git/rebase-merge ]",
        check=(
            Run(
                "touch go; patiently test -s status || bad 'it does not end'\n"
                '[ "$(cat status)" = 0 ] || bad "it failed: $(tail -n 2 log)"\n'
                "cd repo; git fsck --strict 2>&1 | grep -i error && bad 'objects are damaged'\n"
                '[ "$(git rev-list --count other..main) $(ls file* | wc -l)" = \'12 12\' ] && [ -z "$(git status -s)" ] '
                "&& ok '12 commits on the new base' || bad \"$(git log --oneline | head -n 3)\""
            ),
        ),
    ),
    Program(
        name="make",
        family=_FAMILY,
        does="make -j4 in the middle of 60 compilations with its job server",
        prepare="""
            for i in $(seq 60); do echo "int f$i(int x) { return x + $i; }" > f$i.c; done
            { echo 'int main(void) { int s = 0;'; for i in $(seq 60); do echo "extern int f$i(int); s += f$i(0);"; done
              echo 'return s != 1830; }'; } > main.c
            printf 'all: program\\nprogram: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tcc -o $@ $^\\n%%.o: %%.c\\n' > Makefile
            printf '\\t@touch half; sleep 0.05; cc -O1 -c -o $@ $<\\n' >> Makefile""",
        start="rm -f *.o; make -j4 >log 2>&1; echo $? > status; sleep 100022",
        ready="[ $(ls *.o 2>/dev/null | wc -l) -gt 3 ] && [ ! -e status ]",
        check=(
            Run(
                "patiently test -s status || bad 'it does not end'\n"
                '[ "$(cat status)" = 0 ] && ./program && ok \'all is built, and right\' || bad "$(tail -n 3 log)"'
            ),
        ),
    ),
    Program(
        name="pip",
        family=_FAMILY,
        does="pip in the middle of building and installing a package",
        prepare="""
            mkdir -p package/hfprobe; echo 'answer = 42' > package/hfprobe/__init__.py
            echo "import os, time
from setuptools import setup
w = os.environ['W']
open(w + '/half', 'w').close()
while not os.path.exists(w + '/go'): time.sleep(0.05)
setup(name='hfprobe', version='1', packages=['hfprobe'])" > package/setup.py
            python -m venv --system-site-packages env && env/bin/python -c 'import setuptools, wheel' 2>/dev/null \\
                || env/bin/pip install -q setuptools wheel""",
        start="""
            export W=$PWD; env/bin/pip install --no-build-isolation --no-deps ./package >log 2>&1
            echo $? > status; sleep 100023""",
        ready="[ -e half ]",
        check=(
            Run(
                "touch go; patiently test -s status || bad 'it does not end'\n"
                "cd env; [ \"$(bin/python -c 'import hfprobe; print(hfprobe.answer)')\" = 42 ] && ok 'installed' "
                '|| bad "$(tail -n 3 ../log)"'
            ),
        ),
    ),
    Program(
        name="apt",
        family=_FAMILY,
        does="apt-get in the middle of installing a package, with dpkg's locks and terminal",
        prepare="""
            rm -rf package; mkdir -p package/DEBIAN package/usr/share/hf-probe; echo 42 > package/usr/share/hf-probe/answer
            printf 'Package: hf-probe\\nVersion: 1\\nArchitecture: all\\nMaintainer: A <a@example.org>\\nDescription: probe\\n' \\
                > package/DEBIAN/control
            printf '#!/bin/sh\\ntouch %s/half\\nuntil [ -e %s/go ]; do sleep 0.05; done\\n' $PWD $PWD > package/DEBIAN/postinst
            chmod 755 package/DEBIAN/postinst; dpkg-deb --root-owner-group -b package hf-probe.deb >/dev/null""",
        start="""
            export DEBIAN_FRONTEND=noninteractive; apt-get install -y ./hf-probe.deb >log 2>&1
            echo $? > status; sleep 100024""",
        ready="[ -e half ]",
        check=(
            Run(
                "touch go; patiently test -s status || bad 'it does not end'\n"
                "dpkg-query -W -f '${Status}' hf-probe | grep -q 'ok installed' || bad \"$(tail -n 3 log)\"\n"
                "dpkg --audit | grep . && bad 'packages are half installed'\n"
                '[ "$(cat status)" = 0 ] && ok \'installed\' || bad "$(tail -n 3 log)"'
            ),
        ),
    ),
    Program(
        name="cargo",
        family="rust",
        does="cargo in the middle of a build, in a build script",
        prepare="""
            mkdir -p package/src
            printf '[package]\\nname = "probe"\\nversion = "0.1.0"\\nedition = "2021"\\n' > package/Cargo.toml
            echo 'fn main() { println!("{}", env!("ANSWER")); }' > package/src/main.rs
            echo 'fn main() { let w = std::env::var("W").unwrap(); std::fs::write(format!("{w}/half"), "").unwrap();
                while !std::path::Path::new(&format!("{w}/go")).exists() {
                    std::thread::sleep(std::time::Duration::from_millis(50)); }
                println!("cargo:rustc-env=ANSWER=42"); }' > package/build.rs""",
        start="export W=$PWD; cd package; cargo build --offline >$W/log 2>&1; echo $? > $W/status; sleep 100025",
        ready="[ -e half ]",
        check=(
            Run(
                "touch go; patiently test -s status || bad 'it does not end'\n"
                '[ "$(package/target/debug/probe)" = 42 ] && ok \'built, and right\' || bad "$(tail -n 3 log)"'
            ),
        ),
        stack="rust",
    ),
)
