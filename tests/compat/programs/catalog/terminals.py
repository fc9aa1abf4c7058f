"""Programs that take the whole terminal, and terminals in terminals."""

from __future__ import annotations

from tests.compat.programs.program import Program, Run, Shows, Type

_FAMILY = "terminal"

PROGRAMS = (
    Program(
        name="vim",
        family=_FAMILY,
        does="vim in insert mode with unsaved text and an undo history",
        start="rm -f .text.swp; exec vim -N -u NONE -i NONE text",
        ready="sleep 0.5; running 'vim -N -u NONE' && [ -e .text.swp ]",
        check=(
            Type("ifirst line\x1bosecond line\x1b:w! saved\r"),
            Run(
                'patiently test -s saved && [ "$(head -n 2 saved)" = \'first line\nsecond line\' ] && ok written || bad "$(cat saved)"'
            ),
            Type("u:w! undone\r"),
            Run(
                "patiently test -s undone && [ \"$(cat undone)\" = 'first line' ] && ok 'edits, writes and undoes' || bad \"$(cat undone)\""
            ),
        ),
        stack="tools",
    ),
    Program(
        name="vi-in-the-shell",
        family=_FAMILY,
        does="vi in the foreground of the main shell, with unsaved text",
        where="foreground",
        start="vi -N -u NONE text",
        ready="sleep 0.5; pgrep -x vi",
        check=(
            Type("ifrom the shell\x1b:w! saved\r"),
            Run("patiently grep -q 'from the shell' saved && ok written || bad \"$(cat saved)\""),
        ),
        alone=True,
    ),
    Program(
        name="less",
        family=_FAMILY,
        does="less in the middle of a file",
        start="seq 100000 199999 > lines; exec less lines",
        ready="sleep 0.5; running 'less lines'",
        check=(Type("5000g"), Shows("104999"), Type("/177777\n"), Shows("177777")),
    ),
    Program(
        name="top",
        family=_FAMILY,
        does="top, which draws anew every 0.2 s",
        start="exec top -d 0.2",
        ready="sleep 0.5; running 'top -d'",
        check=(
            Shows(r"load average"),
            Type("h"),
            Shows("Help for Interactive Commands"),
            Type("q"),
            Shows(r"PID USER"),
        ),
    ),
    Program(
        name="tmux",
        family=_FAMILY,
        does="a tmux server with two panes and an attached client; shells count in the panes",
        start="""
            tmux -L hf -f /dev/null new-session -d -s work 'bash --norc'
            tmux -L hf split-window -t work 'i=0; while :; do i=$((i+1)); echo $i | tee count; sleep 0.05; done'
            tmux -L hf send-keys -t work.0 'kept=here' Enter
            exec tmux -L hf attach -t work""",
        ready='begun count && [ -n "$(tmux -L hf list-clients)" ]',
        check=(
            Run(
                "grows count 5 || bad 'the pane that counts stands still'\n"
                "tmux -L hf send-keys -t work.0 'echo \"$kept $((6*7))\" > said' Enter\n"
                "patiently grep -q 'here 42' said || bad \"the other shell does not answer: $(cat said)\"\n"
                "shows() { [ \"$(tmux -L hf capture-pane -p -t work.1 | grep -c '[0-9]')\" -gt 3 ]; }\n"
                "patiently shows && [ -n \"$(tmux -L hf list-clients)\" ] && ok 'panes go on, the client is attached' "
                "|| bad 'the screen or the client is lost'"
            ),
        ),
    ),
    Program(
        name="script",
        family=_FAMILY,
        does="`script`, which makes a terminal of its own, around a shell",
        start="exec script -qc 'bash --norc' typescript",
        ready="running 'script -qc' && pgrep -fx 'bash --norc'",
        check=(Type("echo $((6*7))-there; tty\n"), Shows("42-there"), Shows("/dev/pts/")),
    ),
    Program(
        name="python-prompt",
        family=_FAMILY,
        does="Python's interactive prompt with names",
        start="PYTHON_BASIC_REPL=1 exec python3 -q -i -c 'kept = 42'",
        ready="sleep 0.3; running 'q -i -c'",
        check=(Type("kept * 100001\n"), Shows("4200042")),
    ),
    Program(
        name="tail-follow",
        family=_FAMILY,
        does="`tail -f` of a file that is written to afterwards",
        start="echo first > log; exec tail -f log",
        ready="pgrep -fx 'tail -f log'",
        check=(Run("echo second >> log; ok written"), Shows("second")),
    ),
    Program(
        name="bc",
        family=_FAMILY,
        does="an interactive program on its terminal, with values of before",
        start="exec bc -q",
        ready="running 'bc -q'",
        check=(Type("x=6*7\nx+100000\n"), Shows("100042")),
    ),
    Program(
        name="getpass",
        family=_FAMILY,
        does="a password prompt, which holds /dev/tty open; answered afterwards",
        start="exec python3 -c 'import getpass; print(\"got\", len(getpass.getpass()))'",
        ready="sleep 0.5; running 'import getpass'",
        check=(Type("twelve chars\n"), Shows("got 12")),
    ),
    Program(
        name="sudo",
        family=_FAMILY,
        does="a command that runs by sudo for a user who is not root",
        prepare="id tester || { useradd -m tester; echo 'tester ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/tester; }; chmod 777 .",
        start="exec runuser -u tester -- sudo bash -c 'i=0; while :; do i=$((i+1)); echo $i $UID > new; mv new count; sleep 0.02; done'",
        ready="begun count",
        check=(Run("steady count"),),
    ),
)
