"""The programs, and the truth about them.

A case's truth is the view of a person in front of it. Half of them wait for input, half do not;
the latter include some that seem to wait: silence, prompts without a reader, servers
that read keys, a hidden echo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Truth = Literal["line", "password", "key", "pager", "repl", "cpu", "io", "sleep", "stopped", "running"]
WAITING = ("line", "password", "key", "pager", "repl")

PACKAGES = "vim gdb nodejs sqlite3 postgresql openssl whiptail fzf openssh-server netcat-openbsd expect bc"

SETUP = r"""
export DEBIAN_FRONTEND=noninteractive TZ=UTC
useradd -m -s /bin/bash tester && echo 'tester:correct horse' | chpasswd
echo 'tester ALL=(ALL) ALL' > /etc/sudoers.d/tester
mkdir -p /run/sshd && /usr/sbin/sshd -o PasswordAuthentication=yes
ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519 && cat ~/.ssh/id_ed25519.pub >> ~/.ssh/authorized_keys
pg_ctlcluster $(pg_lsclusters -h | awk '{print $1, $2}') start
mkdir -p /srv/repo && cd /srv/repo && git init -q . && git config user.email a@b.c && git config user.name A
for i in $(seq 60); do echo $i >> file; git add file; git commit -qm "Change $i"; done; echo more >> file
mkdir -p /srv/build && cd /srv/build
printf 'all: a b c\n%%: ; @sh -c "i=0; while [ $$i -lt 4000000 ]; do i=$$((i+1)); done"\n' > Makefile
for i in $(seq 3000); do
    echo "int f$i(int x) { for (int i = 0; i < x; i++) x = x * $i + i; return x; }"
done > big.c
mkdir -p /srv/web && head -c 20000000 /dev/urandom > /srv/web/blob
(cd /srv/web && python3 -m http.server 8800 >/dev/null 2>&1 &)
(cd /srv/web && touch x && zip -q x.zip x)
cat > /srv/keys.js <<'JS'
// As development servers do: it serves, and reads keys for shortcuts.
require("http").createServer((q, s) => s.end("hi")).listen(8900);
process.stdin.setRawMode(true); process.stdin.resume(); process.stdin.on("data", () => {});
console.log("  ready on http://localhost:8900\n  press h + enter to show help");
JS
cat > /srv/question.js <<'JS'
const lines = require("readline").createInterface({input: process.stdin, output: process.stdout});
lines.question("package name: (work) ", () => lines.close());
JS
cat > /srv/bar.py <<'PY'
import time
for n in range(200):
    print(f"\rprogress {n:3d} % [{'#' * (n // 4):50s}] ", end="", flush=True); time.sleep(0.05)
PY
cat > /srv/hidden.py <<'PY'
import termios, time
modes = termios.tcgetattr(0); modes[3] &= ~termios.ECHO; termios.tcsetattr(0, termios.TCSANOW, modes)
print("Password: ", end="", flush=True); time.sleep(20)
PY
cd /workspace
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One command. `truth` is running where it is not important how it runs; `warm` seconds belong to it."""

    name: str
    command: str
    truth: Truth
    warm: float = 0.0


_TESTER = "runuser -u tester --"
_SSH = "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

CASES = (
    # Lines.
    Case("read -p", "read -p 'Name: ' x", "line"),
    Case("read without a prompt", "read x", "line"),
    Case("read -e (line editor)", "read -e -p 'Edit: ' x", "line"),
    Case("select", "bash -c 'select x in one two; do break; done'", "line"),
    Case("cat, bare", "cat", "line"),
    Case("cat in a pipeline", "cat | sort", "line"),
    Case("python input()", """python3 -c 'input("who? ")'""", "line"),
    Case("python input() with readline", """python3 -c 'import readline; input("who? ")'""", "line"),
    Case("apt-get install, [Y/n]", "apt-get install cowsay sl", "line"),
    Case("rm -i", "touch f; rm -i f", "line"),
    Case("cp -i", "cp -i /etc/passwd /etc/hosts /tmp; cp -i /etc/passwd /tmp", "line"),
    Case("git add -p", "cd /srv/repo; git add -p", "line"),
    Case("unzip over a file", "cd /srv/web && unzip x.zip", "line"),
    Case("ssh, unknown host", "ssh -o UserKnownHostsFile=/dev/null localhost true", "line"),
    Case("ssh-keygen, file name", "ssh-keygen", "line"),
    Case("node, a question", "node /srv/question.js", "line"),
    Case("cat through script's terminal", "script -qc cat /dev/null", "line"),
    Case("cat through sudo's terminal", "sudo cat", "line"),
    Case("expect that hands over", "expect -c 'spawn cat; interact'", "line"),
    # Passwords.
    Case("read -s", "read -s -p 'Secret: ' x", "password"),
    Case("python getpass", "python3 -c 'import getpass; getpass.getpass()'", "password"),
    Case("su", f"{_TESTER} su root", "password"),
    Case("sudo", f"{_TESTER} sudo true", "password"),
    Case("passwd", "passwd tester", "password"),
    Case("openssl passphrase", "openssl genrsa -aes128 2048", "password"),
    Case("ssh password", f"{_SSH} -o PubkeyAuthentication=no tester@localhost true", "password"),
    Case("ssh-keygen passphrase", "ssh-keygen -f /tmp/k", "password"),
    Case("psql password", "psql -h localhost -U postgres -W", "password"),
    # Keys.
    Case("read -n1", "read -n1 -p 'Continue? ' x", "key"),
    Case("vim", "vim /tmp/text", "key"),
    Case("nano", "nano /tmp/text", "key"),
    Case("git commit, opens an editor", "cd /srv/repo; EDITOR=vim git commit -a", "key"),
    Case("whiptail", "whiptail --yesno 'Really?' 10 40", "key"),
    Case("debconf screen", "DEBIAN_FRONTEND=dialog dpkg-reconfigure tzdata", "key"),
    Case("top", "top", "key"),
    Case("fzf", "seq 100 | fzf", "key"),
    # Pagers.
    Case("less", "less /etc/services", "pager"),
    Case("less at the end of a pipe", "seq 10000 | less", "pager"),
    Case("more", "more /etc/services", "pager"),
    Case("git log", "cd /srv/repo; GIT_PAGER=less git log", "pager"),
    # Programs that read commands.
    Case("python", "python3", "repl"),
    Case("python, without its editor", "PYTHON_BASIC_REPL=1 python3", "repl"),
    Case("ipython", "python3 -m IPython --no-banner", "repl"),
    Case("pdb", "python3 -m pdb /srv/bar.py", "repl"),
    Case("node", "node", "repl"),
    Case("psql", "runuser -u postgres psql", "repl"),
    Case("sqlite3", "sqlite3 /tmp/db", "repl"),
    Case("gdb", "gdb -q /bin/true", "repl"),
    Case("bash in bash", "bash", "repl"),
    Case("sh", "sh", "repl"),
    Case("bc", "bc -q", "repl"),
    Case("remote shell over ssh", f"{_SSH} -t localhost", "repl", warm=1.0),
    # Those that do not wait for input.
    Case("sleep 30", "sleep 30", "sleep"),
    Case("loop in bash", "while :; do :; done", "cpu"),
    Case("loop in python", "python3 -c 'while True: pass'", "cpu"),
    Case("gcc", "cd /srv/build; gcc -O3 -c big.c -o /dev/null", "cpu"),
    Case("make -j2", "cd /srv/build; make -j2", "running"),
    Case("quiet download", "curl -s --limit-rate 50k -o /dev/null localhost:8800/blob", "running"),
    Case("download with progress", "wget --limit-rate=50k -O /dev/null localhost:8800/blob", "running"),
    Case("apt-get update", "apt-get update", "running"),
    Case("apt-get install -y (dpkg in its terminal)", "apt-get install -y cowsay sl figlet", "running"),
    Case("pip download", "pip download -q --no-deps -d /tmp/p numpy", "running"),
    Case("python http.server", "python3 -m http.server 8801", "io"),
    Case("node server that reads keys", "node /srv/keys.js", "io"),
    Case("node timer", "node -e 'setInterval(() => {}, 1000)'", "running"),
    Case("netcat, listening", "nc -l 8802", "io"),
    Case("tail -f", "tail -f /etc/hosts", "running"),
    Case("pipeline", "yes | head -c 100G > /dev/null", "running"),
    Case("sleep into cat", "sleep 20 | cat", "sleep"),
    Case("read from a fifo", "mkfifo /tmp/f; exec 7<>/tmp/f; read x <&7", "running"),
    Case("wait for a job", "sleep 20 & wait", "running"),
    Case("progress bar", "python3 /srv/bar.py", "sleep"),
    Case("prompt without a reader", """printf 'Continue? [y/N] '; sleep 20""", "sleep"),
    Case("hidden echo without a reader", "python3 /srv/hidden.py", "sleep"),
    Case("asyncio sleep", "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(20))'", "running"),
    Case("waiting for a lock", "flock /tmp/l sleep 20 & sleep 0.3; flock /tmp/l true", "io"),
    Case("sleep through script's terminal", "script -qc 'sleep 20' /dev/null", "sleep"),
    Case("sleep through sudo's terminal", "sudo sleep 20", "sleep"),
    Case("ssh, remote sleep", f"{_SSH} localhost sleep 20", "running"),
    Case("ssh -t, remote sleep", f"{_SSH} -t localhost sleep 20", "running"),
    Case("expect with a silent program", "expect -c 'set timeout 20; spawn sleep 30; expect eof'", "running"),
    Case("find", "find / -xdev -type f -exec cat {} + > /dev/null 2>&1", "running"),
    Case("a stopped child", "bash -c 'sleep 20 & sleep 0.2; kill -STOP $!; wait'", "stopped", warm=0.5),
    Case(
        "thread that computes, main that joins",
        """python3 -c '
import threading
thread = threading.Thread(target=lambda: [pow(3, n, 7) for n in range(10**9)])
thread.start(); thread.join()'""",
        "cpu",
    ),
)
