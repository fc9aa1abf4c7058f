"""The system calls permitted in a session: Docker's default set, without calls whose effects cannot be
captured.

Docker's default profile is the baseline: a program that runs in a plain container runs here.  Beyond it
these are refused, because no snapshot can hold them or because they reach around the container:

- io_uring: its rings cannot be dumped; programs fall back to epoll when it is refused.
- memfd_secret: its memory is hidden from the dump as well.
- Landlock, mseal, and memory that is never both written and executed (PR_SET_MDWE): the kernel does not
  reveal which processes have confined themselves so, and a copy would run without it. Programs see a kernel
  without these features.
- sockets other than UNIX, INET, INET6, NETLINK and PACKET: AF_VSOCK talks to the hypervisor, AF_ALG to the
  kernel's crypto, and the rest cannot be restored.

Pure data: the engine driver hands `profile()` to Docker as JSON.  Names an architecture or an older
libseccomp does not know are skipped there, so one list serves all.
"""

from __future__ import annotations

import errno
from typing import Any

# One group per purpose; 32-bit and 64-bit variants stand together.
FILES = """
    access chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3
    faccessat faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32
    fchownat fcntl fcntl64 fdatasync flock fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate
    ftruncate64 futimesat getcwd getdents getdents64 ioctl lchown lchown32 link linkat listmount _llseek lseek
    lstat lstat64 mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat openat2 pipe pipe2
    pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv rename
    renameat renameat2 rmdir sendfile sendfile64 splice stat stat64 statfs statfs64 statmount statx symlink
    symlinkat sync sync_file_range sync_file_range2 syncfs tee truncate truncate64 umask unlink unlinkat
    utime utimensat utimensat_time64 utimes vmsplice write writev arm_fadvise64_64 arm_sync_file_range
"""
ATTRIBUTES = """
    fgetxattr flistxattr fremovexattr fsetxattr getxattr getxattrat lgetxattr listxattr listxattrat llistxattr
    lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat
"""
FILE_EVENTS = "fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch"
MEMORY = """
    brk cachestat madvise map_shadow_stack membarrier memfd_create mincore mlock mlock2 mlockall mmap mmap2
    mprotect mremap msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect
    process_mrelease remap_file_pages
"""
PROCESSES = """
    execve execveat exit exit_group fork get_robust_list get_thread_area getpgid getpgrp getpid getppid getsid
    gettid pidfd_open pidfd_send_signal process_vm_readv process_vm_writev ptrace restart_syscall rseq
    set_robust_list set_thread_area set_tid_address setpgid setsid uretprobe vfork wait4 waitid waitpid
    arch_prctl modify_ldt breakpoint cacheflush set_tls
"""
IDENTITY = """
    capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getresgid
    getresgid32 getresuid getresuid32 getuid getuid32 setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32
    setgroups setgroups32 setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32
    setuid setuid32
"""
SIGNALS = """
    alarm kill pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
    rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaltstack signalfd signalfd4 sigprocmask
    sigreturn tgkill tkill
"""
TIME = """
    adjtimex clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
    clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep setitimer time timer_create
    timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create
    timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times
"""
WAITING = """
    epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old
    eventfd eventfd2 futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake io_cancel io_destroy
    io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit _newselect poll ppoll ppoll_time64
    pselect6 pselect6_time64 select
"""
NETWORK = """
    accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg
    recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketpair
"""
SYSTEM_V_AND_POSIX_IPC = """
    ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend
    mq_timedsend_time64
    mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat shmctl shmdt
    shmget
"""
SCHEDULING_AND_LIMITS = """
    getcpu getpriority getrlimit getrusage ioprio_get ioprio_set prlimit64 sched_get_priority_max
    sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
    sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam
    sched_setscheduler sched_yield setpriority setrlimit ugetrlimit
"""
SYSTEM = "getrandom sysinfo uname"
CONFINEMENT = "seccomp"
LANDLOCK = ["landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self"]
# Docker allows this with CAP_SYS_CHROOT, which sessions have: package managers and build tools need it.
CHROOT = "chroot"

GROUPS = (
    FILES, ATTRIBUTES, FILE_EVENTS, MEMORY, PROCESSES, IDENTITY, SIGNALS, TIME, WAITING, NETWORK,
    SYSTEM_V_AND_POSIX_IPC, SCHEDULING_AND_LIMITS, SYSTEM, CONFINEMENT, CHROOT,
)  # fmt: skip

# Equality over the whole register: a family with stray upper bits, which the kernel would cut off, is
# refused.  Each is a rule of its own, because runc makes several conditions on one argument alternatives.
SOCKET_FAMILIES = {"UNIX": 1, "INET": 2, "INET6": 10, "NETLINK": 16, "PACKET": 17}

# Without CAP_AUDIT_WRITE, sudo, su and useradd complain that they cannot write to the kernel's audit log.
# They are silent where the kernel has no audit log, so that is the answer they get.
AF_NETLINK = SOCKET_FAMILIES["NETLINK"]
NETLINK_AUDIT = 9

PR_SET_MDWE = 65

# PER_LINUX, PER_LINUX32, each also with UNAME26; and the query of the present one.
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

# CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET
NAMESPACE_FLAGS = 0x7E020000

ARCHITECTURES = {"SCMP_ARCH_X86_64": ["SCMP_ARCH_X86"], "SCMP_ARCH_AARCH64": ["SCMP_ARCH_ARM"]}


def allowed() -> list[str]:
    """Return the calls that are allowed whatever their arguments."""
    return sorted({name for group in GROUPS for name in group.split()})


def profile() -> dict[str, Any]:
    """Return the profile in the form Docker reads, 20.10 and newer; calls not named fail with EPERM."""
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [{"architecture": name, "subArchitectures": more} for name, more in ARCHITECTURES.items()],
        "syscalls": [
            _allow(allowed()),
            *(
                _allow("socket", _argument(0, family))
                for family in SOCKET_FAMILIES.values()
                if family != AF_NETLINK
            ),
            _allow("socket", _argument(0, AF_NETLINK), _argument(2, NETLINK_AUDIT, "SCMP_CMP_NE")),
            _refuse("socket", errno.EPROTONOSUPPORT, _argument(0, AF_NETLINK), _argument(2, NETLINK_AUDIT)),
            *(_allow("personality", _argument(0, value)) for value in PERSONALITIES),
            # The errors of kernels without them: disabled (landlock_create_ruleset(2)), unknown.
            _refuse(LANDLOCK, errno.EOPNOTSUPP),
            _refuse("mseal", errno.ENOSYS),
            _allow("prctl", _argument(0, PR_SET_MDWE, "SCMP_CMP_NE")),
            _refuse("prctl", errno.EINVAL, _argument(0, PR_SET_MDWE)),
            # clone's flags are in a register; those of clone3 are in memory, where no filter sees them.
            # ENOSYS makes the C library use clone instead.
            _allow("clone", _argument(0, NAMESPACE_FLAGS, "SCMP_CMP_MASKED_EQ")),
            _refuse("clone3", errno.ENOSYS),
            # The 32-bit way to make sockets hides the family in memory, likewise.
            _refuse("socketcall", errno.ENOSYS),
        ],
    }


def _argument(index: int, value: int, operator: str = "SCMP_CMP_EQ") -> dict[str, Any]:
    """Return a condition on one argument; for MASKED_EQ, `value` is the mask, whose bits must all
    be clear.
    """
    return {"index": index, "value": value, "valueTwo": 0, "op": operator}


def _allow(names: str | list[str], *conditions: dict[str, Any]) -> dict[str, Any]:
    listed = [names] if isinstance(names, str) else names
    rule: dict[str, Any] = {"names": listed, "action": "SCMP_ACT_ALLOW"}
    return {**rule, "args": list(conditions)} if conditions else rule


def _refuse(names: str | list[str], error: int, *conditions: dict[str, Any]) -> dict[str, Any]:
    listed = [names] if isinstance(names, str) else names
    rule: dict[str, Any] = {"names": listed, "action": "SCMP_ACT_ERRNO", "errnoRet": error}
    return {**rule, "args": list(conditions)} if conditions else rule
