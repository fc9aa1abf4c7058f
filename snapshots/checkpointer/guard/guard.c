/* Keeps a privileged CRIU from trusting anything that belongs to a session.
 *
 * CRIU has to work inside the namespaces of the session, whose files an untrusted root
 * user can write. It is therefore started, linked and relocated in the checkpointer's own
 * filesystem with this library preloaded, and only then enters the session's mount,
 * network and UTS namespaces (the constructor below). What would still be looked up in
 * the session's filesystem later is answered here instead:
 *
 *   exec*    nothing is ever executed. An action script becomes a line on the control
 *            socket and one byte back, so that dump can be held while tasks are frozen.
 *   kdat     /run/criu.kdat is read raw by CRIU; it is redirected to the checkpointer.
 *   dlopen   refused.
 *   openat   adoption: see become_subreaper; personalities: see guard_personality.c; opening without an event: see
 *            guard_watches.c
 *   read, write  what is on its way in a terminal: see guard_queues.c
 *   setsid   controlling terminals of what is restored: see guard_terminals.c
 *   fstat64  inode numbers: see guard_inodes.c
 *   syscall  limits of processes: see guard_limits.c; processes that were adopted: see guard_adoption.c; what is
 *            watched: see guard_watches.c
 *   setsockopt        connections that CRIU reads: see guard_repair.c
 *   recv              how much of them: see guard_lengths.c
 *   ptrace   stopping all of a container at once: see guard_seize.c; what is restored and not judged yet: see
 *            guard_unjudged.c
 *   epoll_wait, epoll_ctl  interruptions, and memory that is loaded when it is touched: see guard_waits.c
 *   ioctl    memory that is given back while it is served: see guard_returned.c
 *   ioctl, pread  memory that is not written while the tasks are stopped: see guard_heaps.c; pages in the images of several
 *            captures: see guard_pages.c
 *   bind, unlinkat  names of sockets' files: see guard_sockets.c
 *   inotify_init, inotify_init1  whose they are: see guard_instances.c
 *   recvmsg  descriptors of the session that CRIU could not keep: see guard_substitute.c
 *
 * HOLDFAST_GUARD="MNT NET UTS CONTROL KDAT ROOT" names five open descriptors (-1: none) and the pid of the root of the
 * tree that is restored (0: nothing is restored). What else the environment tells it, and where it is described:
 *
 *   in every run         HOLDFAST_IMAGES     guard_queues.c
 *   in a capture         HOLDFAST_SUBSTITUTE guard_substitute.c
 *                        HOLDFAST_FREEZER    guard_seize.c; until the checkpointer says that all is frozen, nothing of
 *                                            the session is entered
 *                        HOLDFAST_WATCHES    guard_watches.c, if the layers can be seen
 *                        HOLDFAST_EMPTY      guard_unread.c
 *                        HOLDFAST_HEAPS      guard_heaps.c
 *                        HOLDFAST_ENDS       the tasks end with their capture
 *   in a restore         HOLDFAST_TERMINALS  guard_terminals.c
 *                        HOLDFAST_ADOPTED    guard_adoption.c
 *                        HOLDFAST_PERSONALITIES  guard_personality.c
 *                        HOLDFAST_SOCKETS    guard_sockets.c
 *   serving memory       HOLDFAST_LOAD, HOLDFAST_LOAD_AFTER, HOLDFAST_WAITING  guard_waits.c
 *                        HOLDFAST_PROCESSES  guard_hidden.c
 *                        HOLDFAST_PAGES      guard_pages.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "guard.h"

static const char KDAT[] = "/run/criu.kdat";
static int kdat_fd = -1;
static pid_t root_pid;
static int tasks_end;

/* The captured session has seen this process while it still ran, and may have asked the kernel to signal it. So
 * another one continues, also a child of the checkpointer, which nothing in there can have named: all is frozen. */
static void go_on_unseen(void)
{
	long child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

	if (child < 0)
		die("go on as another process");
	if (child > 0)
		_exit(0);
	if (ask("unseen") != 'y')
		_exit(EXIT_NOT_BEGUN);
}

__attribute__((constructor)) static void enter_session(void)
{
	const char *spec = getenv("HOLDFAST_GUARD");
	int mnt, net, uts, control;
	char verdict;

	if (spec == NULL || sscanf(spec, "%d %d %d %d %d %d", &mnt, &net, &uts, &control, &kdat_fd, &root_pid) != 6) {
		errno = EINVAL;
		die("read HOLDFAST_GUARD");
	}
	take_control(control);
	unsetenv("HOLDFAST_GUARD");
	read_substitutions(getenv("HOLDFAST_SUBSTITUTE"));
	unsetenv("HOLDFAST_SUBSTITUTE");
	read_births(getenv("HOLDFAST_ADOPTED"));
	unsetenv("HOLDFAST_ADOPTED");
	read_socket_names(getenv("HOLDFAST_SOCKETS"));
	unsetenv("HOLDFAST_SOCKETS");
	read_personalities(getenv("HOLDFAST_PERSONALITIES"));
	unsetenv("HOLDFAST_PERSONALITIES");
	read_layers(getenv("HOLDFAST_WATCHES"));
	unsetenv("HOLDFAST_WATCHES");
	read_watchers(getenv("HOLDFAST_EMPTY"));
	unsetenv("HOLDFAST_EMPTY");
	read_heaps(getenv("HOLDFAST_HEAPS"));
	unsetenv("HOLDFAST_HEAPS");
	read_load(getenv("HOLDFAST_LOAD"), getenv("HOLDFAST_WAITING"), getenv("HOLDFAST_LOAD_AFTER"));
	unsetenv("HOLDFAST_LOAD");
	unsetenv("HOLDFAST_LOAD_AFTER");
	read_processes(getenv("HOLDFAST_PROCESSES"));
	unsetenv("HOLDFAST_PROCESSES");
	read_pages(getenv("HOLDFAST_PAGES"));
	unsetenv("HOLDFAST_PAGES");
	tasks_end = getenv("HOLDFAST_ENDS") != NULL;
	unsetenv("HOLDFAST_ENDS");
	if (root_pid != 0)
		kill_unjudged();
	read_freezer(getenv("HOLDFAST_FREEZER"));
	unsetenv("HOLDFAST_FREEZER");
	unsetenv("LD_PRELOAD");
	/* All that takes time to start is done; the session is frozen only now. After the last
	 * answer nothing that runs there can kill this process any more. */
	while (freezes() && (verdict = ask("ready")) != 'y')
		if (verdict != 'a')
			_exit(EXIT_NOT_BEGUN);
	if (freezes())
		go_on_unseen();
	if (net >= 0 && setns(net, CLONE_NEWNET) < 0)
		die("enter the network namespace");
	if (uts >= 0 && setns(uts, CLONE_NEWUTS) < 0)
		die("enter the UTS namespace");
	/* Last: from here on every path is the session's. */
	if (mnt >= 0 && setns(mnt, CLONE_NEWNS) < 0)
		die("enter the mount namespace");
	make_terminals(getenv("HOLDFAST_TERMINALS"));
	unsetenv("HOLDFAST_TERMINALS");
	if (net >= 0)
		close(net);
	if (uts >= 0)
		close(uts);
	if (mnt >= 0)
		close(mnt);
}

/* CRIU forks to run an action script. The question is asked here, before the child closes the
 * descriptors it does not know; the child only reports the answer.
 */
pid_t fork(void)
{
	static pid_t (*libc_fork)(void);
	const char *action = getenv("CRTOOLS_SCRIPT_ACTION");
	char verdict;
	pid_t child;

	if (action != NULL && strcmp(action, "post-dump") == 0 && !make_twins())
		action = "twins-failed";
	verdict = action == NULL ? 'n' : ask(queue_was_lost() ? "queue-lost" : action);
	if (libc_fork == NULL)
		*(void **)&libc_fork = dlsym(RTLD_NEXT, "fork");
	/* CRIU would let the tasks go whatever the answer, and they would run if it ended. It is in their PID
	 * namespace, and may kill all of them while they are stopped (kill(2), -1). */
	if (verdict != 'y' && action != NULL && strcmp(action, "pre-resume") == 0) {
		kill(-1, SIGKILL);
		_exit(EXIT_NOT_WANTED);
	}
	if (verdict == 'y' && strcmp(action, "pre-resume") == 0)
		tree_was_judged();
	if (verdict == 'y' && tasks_end && action != NULL && strcmp(action, "post-dump") == 0) {
		repair_again();
		release_first_process();
	}
	child = libc_fork();
	if (child == 0 && action != NULL)
		_exit(verdict == 'y' ? 0 : 1);
	return child;
}

static int refuse(void)
{
	errno = EPERM;
	return -1;
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	(void)path, (void)argv, (void)envp;
	return refuse();
}

int execv(const char *path, char *const argv[])
{
	(void)path, (void)argv;
	return refuse();
}

int execvp(const char *file, char *const argv[])
{
	(void)file, (void)argv;
	return refuse();
}

int execlp(const char *file, const char *arg, ...)
{
	(void)file, (void)arg;
	return refuse();
}

int system(const char *command)
{
	(void)command;
	return refuse();
}

void *dlopen(const char *file, int mode)
{
	(void)file, (void)mode;
	return NULL;
}

static int redirected(const char *path)
{
	return kdat_fd >= 0 && path != NULL && strncmp(path, KDAT, sizeof(KDAT) - 1) == 0;
}

/* "/run/criu.kdat.x" becomes "criu.kdat.x" below the checkpointer's own folder. */
static const char *trusted_name(const char *path)
{
	return path + strlen("/run/");
}

/* A process whose session leader is gone comes back as a child of a stand-in for that leader, which
 * then ends. The root must adopt it as it had before, but CRIU gives the root that attribute
 * (PR_SET_CHILD_SUBREAPER) only after its children were made. The root task comes through here in time.
 */
static void become_subreaper(void)
{
	if (root_pid == 0 || getpid() != root_pid)
		return;
	root_pid = 0;
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* Openings that are answered here: each has a descriptor, or -1 if that opening is not its own. */
static int (*const ANSWERS[])(int directory, const char *path, int flags) = {
	made_terminal,
	substituted_fdinfo,
	open_mapped,
};

static int fdinfo_opened(int directory, const char *path, int opened)
{
	return opened < 0 ? opened : marked_watcher(marked_counter(opened), directory, path);
}

static int stream_opened(int directory, const char *path, int opened)
{
	int error = errno;

	(void)directory, (void)path;
	connection_was_read();
	errno = error;
	return opened;
}

static int pages_opened(int directory, const char *path, int opened)
{
	(void)path;
	pagemap_opened(directory, opened);
	return opened;
}

/* Files that mean something in a capture, by the beginning of their names, or all of it: what to do with the
 * descriptor, -1 for one that could not be opened. */
static const struct {
	const char *name;
	size_t length;
	int (*handle)(int directory, const char *path, int opened);
} NAMED[] = {
	{"fdinfo/", sizeof("fdinfo/") - 1, fdinfo_opened},
	{"tcp-stream-", sizeof("tcp-stream-") - 1, stream_opened},
	{"pagemap", sizeof("pagemap"), pages_opened},
};

int openat64(int directory, const char *path, int flags, ...)
{
	int opened;
	size_t at;
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(args, mode_t);
	va_end(args);
	become_subreaper();
	take_personality();
	for (at = 0; at < sizeof(ANSWERS) / sizeof(*ANSWERS); at++) {
		opened = ANSWERS[at](directory, path, flags);
		if (opened >= 0)
			return opened;
	}
	opened = (int)syscall(SYS_openat, directory, path, quiet_flags(directory, path, flags), mode);
	image_opened(path, opened);
	if (!is_capture())
		return opened;
	if (opened >= 0 && flags == O_PATH)
		file_opened(path, opened);
	for (at = 0; at < sizeof(NAMED) / sizeof(*NAMED); at++)
		if (strncmp(path, NAMED[at].name, NAMED[at].length) == 0)
			return NAMED[at].handle(directory, path, opened);
	return opened;
}

int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(args, mode_t);
	va_end(args);
	if (redirected(path))
		return (int)syscall(SYS_openat, kdat_fd, trusted_name(path), flags, mode);
	return (int)syscall(SYS_openat, AT_FDCWD, path, quiet_flags(AT_FDCWD, path, flags), mode);
}

int open(const char *path, int flags, ...) __attribute__((alias("open64")));

int rename(const char *from, const char *to)
{
	int from_dir = redirected(from) ? kdat_fd : AT_FDCWD;
	int to_dir = redirected(to) ? kdat_fd : AT_FDCWD;

	return renameat(from_dir, from_dir == kdat_fd ? trusted_name(from) : from,
			to_dir, to_dir == kdat_fd ? trusted_name(to) : to);
}

int unlink(const char *path)
{
	if (redirected(path))
		return unlinkat(kdat_fd, trusted_name(path), 0);
	return unlinkat(AT_FDCWD, path, 0);
}
