"""Tries to write to the files of a session whose root is read-only, as root there, in every way it knows.

Prints the names of the attempts that succeeded. Each makes or changes something outside of the folders that
are writable, or gets hold of something with which it could.
"""

import ctypes
import fcntl
import mmap
import os
import socket
import stat
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress

LIBC = ctypes.CDLL(None, use_errno=True)
VICTIM = "/etc/debian_version"
FD_HERE = -100
REMOUNT, BIND, MOVE, REC, PRIVATE = 32, 4096, 8192, 16384, 1 << 18
NEWNS, NEWUSER = 0x20000, 0x10000000
OPEN_TREE, MOVE_MOUNT, FSOPEN, MOUNT_SETATTR = 428, 429, 430, 442
SETFLAGS, FOLLOW = 0x40086602, 0x400


Attack = Callable[[], None]
PLAIN: list[Attack] = []
"""What succeeds where the root is writable."""
PRIVILEGED: list[Attack] = []
"""What no session can do, or no file system in which it is."""


def attack(function: Attack) -> Attack:
    PLAIN.append(function)
    return function


def privileged(function: Attack) -> Attack:
    PRIVILEGED.append(function)
    return function


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(number: int, *arguments: object) -> int:
    return checked(LIBC.syscall(number, *arguments))


def mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int) -> None:
    checked(LIBC.mount(source, target, kind, flags, None))


def put(path: str, name: str = "planted") -> None:
    with open(os.path.join(path, name), "w") as file:
        file.write("planted")


def change(path: str) -> None:
    with open(path, "a") as file:
        file.write("changed")


@attack
def create() -> None:
    put("/etc")


@attack
def create_at_top() -> None:
    put("/")


@attack
def create_at_home() -> None:
    put(os.path.expanduser("~"))


@attack
def create_in_guest() -> None:
    put("/opt/holdfast")


@attack
def append() -> None:
    change(VICTIM)


@attack
def truncate() -> None:
    os.truncate(VICTIM, 0)


@attack
def remove() -> None:
    os.unlink(VICTIM)


@attack
def replace() -> None:
    put("/tmp")
    os.replace("/tmp/planted", VICTIM)


@privileged
def rename() -> None:
    os.rename("/etc", "/cte")


@attack
def move_out() -> None:
    os.rename(VICTIM, "/workspace/mine")


@attack
def change_mode() -> None:
    os.chmod(VICTIM, 0o666)


@attack
def change_owner() -> None:
    os.chown(VICTIM, 1, 1)


@attack
def change_time() -> None:
    os.utime(VICTIM, (1, 1))


@attack
def set_attribute() -> None:
    os.setxattr("/etc", "user.planted", b"1")


@privileged
def hide() -> None:
    os.setxattr("/workspace", "trusted.overlay.redirect", b"/etc")


@privileged
def set_flags() -> None:
    fcntl.ioctl(os.open("/etc", os.O_RDONLY), SETFLAGS, struct.pack("l", 0x10))


@attack
def make_folder() -> None:
    os.mkdir("/etc/planted")


@attack
def make_fifo() -> None:
    os.mkfifo("/etc/planted")


@attack
def make_link() -> None:
    os.symlink("/tmp", "/etc/planted")


@attack
def make_socket() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("/etc/planted")


@privileged
def by_first_process() -> None:
    change("/proc/1/root" + VICTIM)


@attack
def by_own_root() -> None:
    put("/proc/self/root/etc")


@attack
def by_working_directory() -> None:
    os.chdir("/etc")
    put("/proc/self/cwd")


@attack
def by_descriptor_of_folder() -> None:
    folder = os.open("/etc", os.O_PATH)
    put(f"/proc/self/fd/{folder}")


@attack
def by_descriptor_of_file() -> None:
    file = os.open(VICTIM, os.O_RDONLY)
    change(f"/proc/self/fd/{file}")


@attack
def by_mapping() -> None:
    with open(VICTIM, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"!"


@attack
def by_hard_link() -> None:
    os.link(VICTIM, "/workspace/same")
    change("/workspace/same")


@attack
def by_hard_link_to_descriptor() -> None:
    file = os.open(VICTIM, os.O_RDONLY)
    checked(LIBC.linkat(FD_HERE, f"/proc/self/fd/{file}".encode(), FD_HERE, b"/tmp/same", FOLLOW))


@attack
def by_symbolic_link() -> None:
    os.symlink(VICTIM, "/tmp/link")
    change("/tmp/link")


@attack
def by_parent() -> None:
    put("/tmp/../etc")


@attack
def by_parent_of_descriptor() -> None:
    folder = os.open("/workspace", os.O_RDONLY)
    os.close(os.open("../etc/planted", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))


@attack
def by_chroot() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            os.makedirs("/workspace/jail", exist_ok=True)
            above = os.open("/", os.O_RDONLY)
            os.chroot("/workspace/jail")
            os.fchdir(above)
            for _ in range(40):
                os.chdir("..")
            os.chroot(".")
            put("/etc")
            os._exit(0)
        except OSError:
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise OSError


@privileged
def by_handle() -> None:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    number = ctypes.c_int()
    place = os.open("/workspace", os.O_RDONLY)
    checked(LIBC.name_to_handle_at(FD_HERE, VICTIM.encode(), handle, ctypes.byref(number), 0))
    os.write(checked(LIBC.open_by_handle_at(place, handle, os.O_WRONLY)), b"!")


@privileged
def by_remount() -> None:
    mount(None, b"/", None, REMOUNT | BIND)


@privileged
def by_remount_of_file_system() -> None:
    mount(None, b"/", None, REMOUNT)


@privileged
def by_mount_attributes() -> None:
    call(MOUNT_SETATTR, FD_HERE, b"/", 0, struct.pack("QQQQ", 0, 1, 0, 0), 32)


@privileged
def by_bind() -> None:
    mount(b"/etc", b"/workspace", None, BIND)


@privileged
def by_bind_over() -> None:
    mount(b"/workspace", b"/etc", None, BIND)


@privileged
def by_move() -> None:
    mount(b"/workspace", b"/etc", None, MOVE)


@privileged
def by_clone() -> None:
    call(OPEN_TREE, FD_HERE, b"/", 1)


@privileged
def by_move_of_descriptor() -> None:
    call(MOVE_MOUNT, FD_HERE, b"/workspace", FD_HERE, b"/etc", 0)


@privileged
def by_unmount() -> None:
    checked(LIBC.umount2(b"/workspace", 2))


@privileged
def by_overlay() -> None:
    call(FSOPEN, b"overlay", 0)


@privileged
def by_memory() -> None:
    mount(b"none", b"/etc", b"tmpfs", 0)


@privileged
def by_propagation() -> None:
    mount(None, b"/", None, REC | PRIVATE)


@privileged
def by_own_mounts() -> None:
    checked(LIBC.unshare(NEWNS))


@privileged
def by_own_users() -> None:
    checked(LIBC.unshare(NEWUSER | NEWNS))


@privileged
def by_own_users_of_a_child() -> None:
    if subprocess.run(["unshare", "-Urm", "true"], stderr=subprocess.DEVNULL).returncode:
        raise OSError


@privileged
def by_mounts_of_first_process() -> None:
    checked(LIBC.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), NEWNS))
    mount(None, b"/", None, REMOUNT | BIND)


@privileged
def by_device() -> None:
    with open("/proc/self/mountinfo") as table:
        devices = {line.split()[2] for line in table}
    for number, device in enumerate(sorted(devices)):
        path = f"/workspace/device-{number}"
        try:
            os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(*map(int, device.split(":"))))
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        return
    raise OSError


@privileged
def by_replacing_a_folder() -> None:
    os.rename("/workspace", "/tmp/workspace")
    os.symlink("/etc", "/workspace")


@attack
def by_removing_a_folder() -> None:
    os.rmdir("/var/tmp")


@privileged
def by_loop() -> None:
    put("/workspace")
    with open("/dev/loop-control") as control:
        fcntl.ioctl(control, 0x4C82)


def renew() -> None:
    """Undo what the attack before has done, where that succeeded."""
    for path in (VICTIM, "/etc/planted", "/workspace/same", "/tmp/same", "/tmp/link"):
        with suppress(OSError):
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    with suppress(OSError), open(VICTIM, "w") as file:
        file.write("13.0\n")
    with suppress(OSError):
        os.mkdir("/var/tmp")


def succeeds(attack: Attack) -> bool:
    """Try it in a separate process, so that its changes to the process do not help the next attempt."""
    pid = os.fork()
    if pid == 0:
        with suppress(OSError):
            attack()
            os._exit(0)
        os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


if __name__ == "__main__":
    print("plain:", *(one.__name__ for one in PLAIN))
    for one in (*PLAIN, *PRIVILEGED):
        renew()
        if succeeds(one):
            print("won:", one.__name__)
