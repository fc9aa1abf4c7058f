"""A file system that lacks what the test names, over a folder: FUSE without a library.

Such are network and foreign file systems: NFS without its lock daemon, or of a server that grants root
nothing; vfat and exfat, without links, sockets and permissions. The kernel's protocol is in <linux/fuse.h>;
each method answers one of its requests. Single-threaded; mounting it takes root.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LACKS = ("locks", "links", "sockets", "permissions", "mapping", "root")
"""flock(2), link(2), mknod(2) of a socket, chmod(2), shared writable mmap(2), access for other users than its
owner."""
ROOT = 1
_IN, _OUT = struct.Struct("=IIQQIIIHH"), struct.Struct("=IiQ")
_FLOCK, _BIG_WRITES, _MAX_PAGES, _DIRECT_IO = 1 << 10, 1 << 5, 1 << 22, 1
_MAX_WRITE = 1 << 20
_SILENT = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET


class FuseDisk:
    """Serves one mount: each node is a descriptor of the folder below."""

    def __init__(self, device: int, below: Path, lacks: set[str]) -> None:
        self._device, self._lacks = device, lacks
        self._nodes = {ROOT: os.open(below, os.O_PATH)}
        self._listings: dict[int, list[tuple[int, int, bytes]]] = {}
        self._owner = (0, 0)

    def serve(self) -> None:
        """Answer until it is unmounted."""
        known = {
            "lookup": 1, "getattr": 3, "setattr": 4, "readlink": 5, "symlink": 6, "mknod": 8, "mkdir": 9,
            "unlink": 10, "rmdir": 11, "rename": 12, "link": 13, "open": 14, "read": 15, "write": 16,
            "statfs": 17, "release": 18, "fsync": 20, "flush": 25, "init": 26, "opendir": 27, "readdir": 28,
            "releasedir": 29, "fsyncdir": 30, "setlk": 32, "setlkw": 33, "create": 35, "rename2": 45,
        }  # fmt: skip
        answers: dict[int, Callable[[int, bytes], bytes]] = {
            code: getattr(self, f"_{name}") for name, code in known.items()
        }
        while True:
            try:
                request = os.read(self._device, _MAX_WRITE + 4096)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                continue  # ENOENT: the request was interrupted
            _, code, unique, node, uid, gid, *_ = _IN.unpack_from(request)
            if code in _SILENT:
                continue
            self._owner = (uid, gid)
            fault, answer = 0, b""
            try:
                answer = answers[code](node, request[_IN.size :])
            except KeyError:
                fault = errno.ENOSYS
            except OSError as error:
                fault = error.errno or errno.EIO
            with suppress(OSError):
                os.write(self._device, _OUT.pack(_OUT.size + len(answer), -fault, unique) + answer)

    def _init(self, _node: int, _body: bytes) -> bytes:
        flags = _BIG_WRITES | _MAX_PAGES | (_FLOCK if "locks" in self._lacks else 0)
        return struct.pack("=IIIIHHIIHHI28x", 7, 31, 1 << 17, flags, 12, 9, _MAX_WRITE, 1, 256, 0, 0)

    def _attributes(self, at: int) -> bytes:
        found = os.fstat(at)
        mode = found.st_mode | 0o777 if "permissions" in self._lacks else found.st_mode
        times = [divmod(value, 10**9) for value in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
        whole, parts = [one for one, _ in times], [part for _, part in times]
        sizes = (found.st_ino, found.st_size, found.st_blocks)
        owner = (found.st_nlink, found.st_uid, found.st_gid, found.st_rdev, 4096, 0)
        return struct.pack("=6Q10I", *sizes, *whole, *parts, mode, *owner)

    def _entry(self, parent: int, name: str | bytes) -> bytes:
        at = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._nodes[parent])
        node = os.fstat(at).st_ino
        if node in self._nodes:
            os.close(at)
        else:
            self._nodes[node] = at
        return struct.pack("=QQQQII", node, 0, 0, 0, 0, 0) + self._attributes(self._nodes[node])

    def _made(self, parent: int, name: bytes) -> bytes:
        os.chown(name, *self._owner, dir_fd=self._nodes[parent], follow_symlinks=False)
        return self._entry(parent, name)

    def _path(self, node: int) -> str:
        return f"/proc/self/fd/{self._nodes[node]}"

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(node, body[:-1])

    def _getattr(self, node: int, _body: bytes) -> bytes:
        return struct.pack("=QII", 0, 0, 0) + self._attributes(self._nodes[node])

    def _setattr(self, node: int, body: bytes) -> bytes:
        valid, _, handle, size, _, atime, mtime, _, anano, mnano, _, mode, _, uid, gid, _ = (
            struct.unpack_from("=IIQQQQQQ8I", body)
        )
        path = self._path(node)
        if valid & 1 and "permissions" in self._lacks:
            raise OSError(errno.EPERM, "no permissions")
        if valid & 1:
            os.chmod(path, stat.S_IMODE(mode))  # noqa: PTH101
        if valid & 6:
            os.chown(path, uid if valid & 2 else -1, gid if valid & 4 else -1)
        if valid & 8:
            os.truncate(handle if valid & 64 else path, size)
        if valid & 48:
            before = os.stat(path)  # noqa: PTH116
            first = before.st_atime_ns if not valid & 16 else atime * 10**9 + anano
            second = before.st_mtime_ns if not valid & 32 else mtime * 10**9 + mnano
            os.utime(path, ns=(first, second))
        return self._getattr(node, b"")

    def _readlink(self, node: int, _body: bytes) -> bytes:
        return os.readlink(b"", dir_fd=self._nodes[node])

    def _symlink(self, node: int, body: bytes) -> bytes:
        name, target, _ = body.split(b"\0")
        os.symlink(target, name, dir_fd=self._nodes[node])
        return self._made(node, name)

    def _mknod(self, node: int, body: bytes) -> bytes:
        mode, device = struct.unpack_from("=II", body)
        if stat.S_ISSOCK(mode) and "sockets" in self._lacks:
            raise OSError(errno.EPERM, "no sockets")
        os.mknod(body[16:-1], mode, device, dir_fd=self._nodes[node])
        return self._made(node, body[16:-1])

    def _mkdir(self, node: int, body: bytes) -> bytes:
        os.mkdir(body[8:-1], struct.unpack_from("=I", body)[0], dir_fd=self._nodes[node])
        return self._made(node, body[8:-1])

    def _unlink(self, node: int, body: bytes) -> bytes:
        os.unlink(body[:-1], dir_fd=self._nodes[node])
        return b""

    def _rmdir(self, node: int, body: bytes) -> bytes:
        os.rmdir(body[:-1], dir_fd=self._nodes[node])
        return b""

    def _rename(self, node: int, body: bytes) -> bytes:
        (target,) = struct.unpack_from("=Q", body)
        old, new, _ = body[8:].split(b"\0")
        os.rename(old, new, src_dir_fd=self._nodes[node], dst_dir_fd=self._nodes[target])
        return b""

    def _rename2(self, node: int, body: bytes) -> bytes:
        if struct.unpack_from("=QI", body)[1]:
            raise OSError(errno.EINVAL, "plain renames only")
        return self._rename(node, body[:8] + body[16:])

    def _link(self, node: int, body: bytes) -> bytes:
        if "links" in self._lacks:
            raise OSError(errno.EPERM, "no links")
        (old,) = struct.unpack_from("=Q", body)
        os.link(self._path(old), body[8:-1], dst_dir_fd=self._nodes[node], follow_symlinks=True)
        return self._entry(node, body[8:-1])

    def _handle(self, descriptor: int) -> bytes:
        return struct.pack("=QII", descriptor, _DIRECT_IO if "mapping" in self._lacks else 0, 0)

    def _open(self, node: int, body: bytes) -> bytes:
        flags = struct.unpack_from("=I", body)[0] & ~(os.O_NOFOLLOW | os.O_APPEND | os.O_DIRECT)
        return self._handle(os.open(self._path(node), flags))

    def _create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("=II", body)
        flags &= ~(os.O_APPEND | os.O_DIRECT)
        descriptor = os.open(body[16:-1], flags | os.O_CREAT, mode, dir_fd=self._nodes[node])
        return self._made(node, body[16:-1]) + self._handle(descriptor)

    def _read(self, _node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("=QQI", body)
        return os.pread(handle, size, offset)

    def _write(self, _node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("=QQI", body)
        return struct.pack("=II", os.pwrite(handle, body[40 : 40 + size], offset), 0)

    def _statfs(self, node: int, _body: bytes) -> bytes:
        found = os.statvfs(self._path(node))
        blocks = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return struct.pack("=5Q4I24x", *blocks, found.f_bsize, 255, found.f_frsize, 0)

    def _release(self, _node: int, body: bytes) -> bytes:
        os.close(struct.unpack_from("=Q", body)[0])
        return b""

    def _fsync(self, _node: int, body: bytes) -> bytes:
        os.fsync(struct.unpack_from("=Q", body)[0])
        return b""

    def _flush(self, _node: int, _body: bytes) -> bytes:
        return b""

    _fsyncdir = _flush

    def _setlk(self, _node: int, _body: bytes) -> bytes:
        raise OSError(errno.ENOLCK, "no locks")

    _setlkw = _setlk

    def _opendir(self, node: int, _body: bytes) -> bytes:
        with os.scandir(self._path(node)) as listing:
            found = [
                (one.inode(), one.stat(follow_symlinks=False).st_mode >> 12, one.name) for one in listing
            ]
        handle = max(self._listings, default=0) + 1
        self._listings[handle] = [(number, kind, os.fsencode(name)) for number, kind, name in found]
        return struct.pack("=QII", handle, 0, 0)

    def _readdir(self, _node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("=QQI", body)
        answer = b""
        for place, (number, kind, name) in enumerate(self._listings[handle][offset:], offset + 1):
            one = struct.pack("=QQII", number, place, len(name), kind) + name
            one += bytes(-len(one) % 8)
            if len(answer) + len(one) > size:
                break
            answer += one
        return answer

    def _releasedir(self, _node: int, body: bytes) -> bytes:
        del self._listings[struct.unpack_from("=Q", body)[0]]
        return b""


@contextmanager
def mounted(below: Path, point: Path, *lacks: str, owner: int = 0) -> Iterator[Path]:
    """Mount it for the block; all users can use it unless it lacks `root`, then only its owner can."""
    assert set(lacks) <= set(LACKS)
    device = os.open("/dev/fuse", os.O_RDWR)
    others = "" if "root" in lacks else ",allow_other"
    options = f"fd={device},rootmode=40000,user_id={owner},group_id={owner},default_permissions{others}"
    command = ["mount", "-i", "-t", "fuse", "-o", options, "lacking", str(point)]
    subprocess.run(command, pass_fds=[device], check=True)
    server = subprocess.Popen([sys.executable, __file__, str(device), below, *lacks], pass_fds=[device])
    os.close(device)
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", point], check=True)
        server.send_signal(signal.SIGTERM)
        server.wait()


if __name__ == "__main__":
    os.umask(0)
    FuseDisk(int(sys.argv[1]), Path(sys.argv[2]), set(sys.argv[3:])).serve()
