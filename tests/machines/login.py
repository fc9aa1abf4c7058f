"""How one machine logs in on the second: with a real ssh and sshd, or past them.

sshd does not need a port: each connection starts one (`sshd -i`), in the machine's namespaces.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from tests.machines.second import Machine
from tests.machines.unpacked import program

HOST = "there"
_SSHD = """#!/bin/sh
set -eu
mkdir -p /run/sshd
mount --bind "{folder}/passwd" /etc/passwd
export LD_LIBRARY_PATH={libraries}
exec {sshd} -i -e -f "{folder}/sshd_config" 2>>"{folder}/sshd.log"
"""
_SSHD_CONFIG = """
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv {environment}
"""
_SSH_CONFIG = """
Host {host}
    ProxyCommand {proxy}
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
"""


def past_ssh(machine: Machine, folder: Path) -> Path:
    """Return a command that does what ssh does, without a login: it enters the machine."""
    command = folder / "enter"
    entering = shlex.join(machine.command("env", "-i", *_assignments(machine), "sh", "-c"))
    command.write_text(f'#!/bin/sh\nshift\nexec {entering} "$*"\n')
    command.chmod(0o755)
    return command


def by_ssh(machine: Machine, folder: Path) -> list[str]:
    """Return the command of an ssh that knows the machine as HOST, and has a key for it."""
    sshd = program("usr/sbin/sshd", "openssh-server", "libwrap0")
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True)
    (folder / "known_hosts").write_text(f"{HOST} {(folder / 'host.pub').read_text()}")
    users = Path("/etc/passwd").read_text()
    if "\nsshd:" not in users:
        users += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    (folder / "passwd").write_text(users)
    libraries = ":".join(str(each) for each in sshd.parents[2].glob("usr/lib/*-linux-*"))
    script = folder / "sshd"
    script.write_text(_SSHD.format(folder=folder, libraries=shlex.quote(libraries), sshd=sshd))
    script.chmod(0o755)
    environment = " ".join(f'"{each}"' for each in _assignments(machine))
    (folder / "sshd_config").write_text(_SSHD_CONFIG.format(folder=folder, environment=environment))
    proxy = shlex.join(machine.command("unshare", "--mount", str(script)))
    (folder / "ssh_config").write_text(_SSH_CONFIG.format(host=HOST, proxy=proxy, folder=folder))
    return ["ssh", "-F", str(folder / "ssh_config")]


def _assignments(machine: Machine) -> list[str]:
    kept = ("PATH", "HOME", "DOCKER_HOST", "HOLDFAST_HOME")
    return [f"{key}={value}" for key, value in machine.environment.items() if key in kept]
