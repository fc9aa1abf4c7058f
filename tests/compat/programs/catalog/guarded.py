"""Programs that can be refused, in advance and by name: nested sandboxes, debuggers, FUSE file systems."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run

_CHROMIUM = (
    "exec chromium --headless --disable-gpu --user-data-dir=$PWD/profile --remote-debugging-port={port}"
    " --no-first-run {more} 'data:text/html,<title>0</title><script>let n=0;"
    "setInterval(()=>document.title=++n,20)</script>' >log 2>&1"
)
_TITLE = (
    "title() { curl -sf --max-time 30 http://127.0.0.1:9333/json/list | jq -r '[.[] | select(.type == \"page\")][0].title'"
    ' >count && [ -n "$(first count)" ]; }\n'
)

PROGRAMS = (
    Program(
        name="chromium-no-sandbox",
        family="browser",
        does="Chromium, headless, without its inner sandbox; a script on a page counts",
        start=_CHROMIUM.format(port=9333, more="--no-sandbox"),
        ready=_TITLE + "title && beyond count 5",
        check=(
            Run(
                _TITLE + "title || bad 'it does not answer'; before=$(first count)\n"
                "more() { title && beyond count $((before + 10)); }\n"
                'patiently more && ok "the page counts on to $(cat count)" || bad "the page stands still at $before"'
            ),
        ),
        stack="chromium",
        alone=True,
        refusable=("chromium", "chrome"),
    ),
    Program(
        name="chromium-sandbox",
        family="browser",
        does="Chromium, headless, of a user, with its inner sandbox",
        prepare="id tester || useradd -m tester; chmod 777 .",
        start='runuser -u tester -- bash -c "'
        + _CHROMIUM.format(port=9333, more="").replace('"', '\\"').replace("$PWD", "\\$PWD")
        + '"; grep -m1 namespace log',
        ready="! running 'chromium --headless' && cat log && exit 1; " + _TITLE + "title && beyond count 5",
        check=(
            Run(
                _TITLE + "title || bad 'it does not answer'; before=$(first count)\n"
                "more() { title && beyond count $((before + 10)); }\n"
                "patiently more && ok \"the page counts on\" || bad 'the page stands still'"
            ),
        ),
        stack="chromium",
        alone=True,
        refusable=("chromium", "chrome", "namespace"),
    ),
    Program(
        name="gdb",
        family="debugger",
        does="gdb that holds a program it has stopped",
        prepare="echo 'int main(void) { for (volatile long i = 0;; i++); }' > spin.c; gcc -g -o spin spin.c",
        start="exec gdb -q -nx -ex 'break main' -ex run ./spin",
        ready="pgrep -x spin && grep -q '[1-9]' <<<\"$(grep TracerPid /proc/$(pgrep -x spin)/status)\"",
        check=(
            Run("pgrep -x gdb >/dev/null && pgrep -x spin >/dev/null && ok 'both are there' || bad 'gone'"),
        ),
        alone=True,
        refusable=("gdb", "spin"),
    ),
    Program(
        name="strace",
        family="debugger",
        does="strace of a program that runs",
        start="exec strace -o trace bash -c 'i=0; while :; do i=$((i+1)); echo $i 0 > count; sleep 0.05; done'",
        ready="begun count",
        check=(Run("steady count 5"),),
        alone=True,
        refusable=("strace", "bash"),
    ),
    Program(
        name="unshare",
        family="sandbox",
        does="a process in user, mount and pid namespaces of its own",
        start="exec unshare --user --map-root-user --mount --pid --fork sleep 100031",
        ready="running 'sleep 100031' && sleep 0.2 && running 'sleep 100031'",
        check=(Run("running 'sleep 100031' && ok 'it is there' || bad 'it is gone'"),),
        alone=True,
        refusable=("unshare", "sleep"),
    ),
    Program(
        name="bubblewrap",
        family="sandbox",
        does="a process in the sandbox of bwrap",
        start="exec bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all sleep 100032",
        ready="running 'sleep 100032' && sleep 0.2 && pgrep -x sleep -a | grep -q 100032",
        check=(Run("running 'sleep 100032' && ok 'it is there' || bad 'it is gone'"),),
        stack="tools",
        alone=True,
        refusable=("bwrap", "sleep"),
    ),
    Program(
        name="fuse",
        family="sandbox",
        does="a file system that a program serves (fuse-zip)",
        prepare="mkdir -p mount; echo 42 > answer; zip -q archive.zip answer",
        start="exec fuse-zip -f archive.zip mount",
        ready="grep -q 42 mount/answer",
        check=(Run("grep -q 42 mount/answer && ok 'it serves on' || bad 'it serves nothing'"),),
        stack="tools",
        alone=True,
        refusable=("fuse",),
    ),
)
