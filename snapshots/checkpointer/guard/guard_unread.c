/* Keeps in the images which inotify had events that were not read yet.
 *
 * They cannot be read without being taken from the captured session, nor be put into a queue; CRIU leaves them out.
 * An inotify that has some is shown to it with one flag more, which a restore takes off again, and says in the copy
 * that events were lost: see event_queues.py.
 *
 * HOLDFAST_EMPTY is there in a capture: the number of a file that has " PID:FD " of each inotify that was empty when
 * the session was frozen, in pids of the session. What a capture does itself is an event for some.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

/* No flag of an open file (asm-generic/fcntl.h); CRIU keeps 32 bits of them. event_queues.py has the same. */
static const int UNREAD = 1 << 30;

static int empty_fd = -1;

void read_watchers(const char *spec)
{
	if (spec != NULL && sscanf(spec, "%d", &empty_fd) != 1) {
		errno = EINVAL;
		die("read HOLDFAST_EMPTY");
	}
}

static int is_inotify(int directory, int number)
{
	char name[64], target[64];
	ssize_t length;

	snprintf(name, sizeof(name), "fd/%d", number);
	length = readlinkat(directory, name, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = '\0';
	return strcmp(target, "anon_inode:inotify") == 0;
}

static int unread_of(pid_t pid, int number)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), queue, unread = 0;

	if (process < 0)
		return 0;
	queue = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	close(process);
	if (queue < 0)
		return 0;
	if (ioctl(queue, FIONREAD, &unread) < 0)
		unread = 0;
	close(queue);
	return unread;
}

/* Was it empty when the session was frozen? */
static int was_empty(pid_t pid, int number)
{
	static char *empty;
	static size_t size;
	char wanted[32];
	struct stat list;

	if (empty == NULL) {
		if (empty_fd < 0 || fstat(empty_fd, &list) < 0 || (empty = calloc(1, (size_t)list.st_size + 1)) == NULL)
			return 0;
		size = (size_t)list.st_size;
		if (pread(empty_fd, empty, size, 0) != (ssize_t)size)
			*empty = '\0';
	}
	snprintf(wanted, sizeof(wanted), " %d:%d ", pid, number);
	return strstr(empty, wanted) != NULL;
}

int marked_watcher(int info, int directory, const char *path)
{
	static const char FLAGS[] = "flags:\t";
	char text[256], *flags, *rest;
	ssize_t size;
	pid_t pid;
	int number, shown, length;
	unsigned value;

	/* Of its own descriptors CRIU reads what is watched; of the session's, what concerns all kinds of files. */
	if (sscanf(path, "fdinfo/%d", &number) != 1 || !is_inotify(directory, number))
		return info;
	pid = process_of(directory);
	if (pid == getpid())
		note_watches(info);
	if (pid <= 0 || pid == getpid() || unread_of(pid, number) == 0 || was_empty(pid, number))
		return info;
	size = pread(info, text, sizeof(text) - 1, 0);
	text[size < 0 ? 0 : size] = '\0';
	rest = strstr(text, "inotify ");
	if (rest != NULL)
		*rest = '\0';
	flags = strstr(text, FLAGS);
	if (flags == NULL || sscanf(flags + sizeof(FLAGS) - 1, "%o%n", &value, &length) != 1)
		return info;
	shown = memfd_create("fdinfo", MFD_CLOEXEC);
	if (shown < 0)
		return info;
	rest = flags + sizeof(FLAGS) - 1 + length;
	*flags = '\0';
	dprintf(shown, "%s%s0%o%s", text, FLAGS, value | (unsigned)UNREAD, rest);
	lseek(shown, 0, SEEK_SET);
	close(info);
	return shown;
}
