/* Terminals of what is restored.
 *
 * A process can get its controlling terminal only from its parent when it is forked, or as the leader of its
 * session (TIOCSCTTY, ioctl_tty(2)). CRIU makes all processes first and the terminals after that, so that all
 * but the leaders came back without one: no /dev/tty, no job control. Therefore the terminals are made here
 * before any process, with the numbers they had, and held by CRIU's first process; a leader takes its one
 * right after it has become one, and all that it forks have it.
 *
 * HOLDFAST_TERMINALS="INDEX:SESSION ..." in the order of the index (session 0: none). Where CRIU opens
 * the master "/dev/holdfast-ptmx-INDEX", named so by terminals.py, it gets the one that was made.
 */
#define _GNU_SOURCE
#include <asm/ioctls.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guard.h"

enum { MOST = 1001 }; /* CRIU knows indices up to 1000. */

static struct terminal {
	int index, master, slave;
	pid_t session;
} terminals[MOST];
static int terminal_count;
static pid_t holder;

static void read_terminals(const char *spec)
{
	struct terminal *made;
	int length;

	for (; terminal_count < MOST; terminal_count++, spec += length) {
		made = &terminals[terminal_count];
		made->slave = -1;
		if (sscanf(spec, " %d:%d%n", &made->index, &made->session, &length) != 2)
			return;
	}
}

static int open_next(int *index)
{
	struct statfs fs;
	int fd = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC ||
	    syscall(SYS_ioctl, fd, TIOCGPTN, index) < 0)
		die("make a terminal");
	return fd;
}

/* The other end, to be taken by its session. Without one it stays as it is: to open and close it would end what
 * the master reads. CRIU sets lock, owner, modes and size later.
 */
static void open_slave(struct terminal *made)
{
	int unlocked = 0;

	if (syscall(SYS_ioctl, made->master, TIOCSPTLCK, &unlocked) < 0)
		die("unlock a terminal");
	made->slave = (int)syscall(SYS_ioctl, made->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (made->slave < 0)
		die("open a terminal");
}

void make_terminals(const char *spec)
{
	int unused[MOST], unused_count = 0, index, i = 0;

	if (spec == NULL)
		return;
	read_terminals(spec);
	holder = getpid();
	/* The kernel gives the lowest free index, so that those between are made as well, and given back. */
	while (i < terminal_count) {
		int fd = open_next(&index);

		if (index == terminals[i].index) {
			terminals[i].master = fd;
			if (terminals[i].session != 0)
				open_slave(&terminals[i]);
			i++;
		} else if (index < terminals[i].index && unused_count < MOST) {
			unused[unused_count++] = fd;
		} else {
			errno = EBUSY;
			die("make a terminal of a certain number");
		}
	}
	while (unused_count > 0)
		close(unused[--unused_count]);
}

/* Tasks have closed what they inherited: what is held is fetched from the holder. */
static int fetch(int fd)
{
	int process, fetched;

	process = (int)syscall(SYS_pidfd_open, holder, 0);
	if (process < 0)
		return -1;
	fetched = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
	close(process);
	return fetched;
}

int made_terminal(int directory, const char *path, int flags)
{
	int index, i, fd;

	(void)directory;
	if (terminal_count == 0 || path == NULL || sscanf(path, "dev/holdfast-ptmx-%d", &index) != 1)
		return -1;
	for (i = 0; i < terminal_count; i++)
		if (terminals[i].index == index) {
			fd = fetch(terminals[i].master);
			if (fd >= 0)
				fcntl(fd, F_SETFL, flags & (O_NONBLOCK | O_APPEND | O_ASYNC));
			return fd;
		}
	return -1;
}

pid_t setsid(void)
{
	static pid_t (*libc_setsid)(void);
	int i, fd, saved;
	pid_t made;

	if (libc_setsid == NULL)
		*(void **)&libc_setsid = dlsym(RTLD_NEXT, "setsid");
	made = libc_setsid();
	saved = errno;
	for (i = 0; made > 0 && i < terminal_count; i++) {
		if (terminals[i].session != made)
			continue;
		fd = fetch(terminals[i].slave);
		if (fd < 0 || syscall(SYS_ioctl, fd, TIOCSCTTY, 0) < 0)
			dprintf(2, "guard: cannot give session %d its terminal: %s\n", made, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	errno = saved;
	return made;
}
