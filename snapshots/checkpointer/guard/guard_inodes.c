/* Gives CRIU the inode number of a watched file that it expects, and a removed folder no links.
 *
 * CRIU compares the number that the kernel tells of a watch (proc_pid_fdinfo(5)) with that of the file it found.
 * Overlayfs may give the file another one, if it has several names and was changed since: that such a file is the
 * one that is watched is known by its handle (guard_watches.c). Otherwise CRIU would keep the watch without a name,
 * and no copy could start.
 *
 * On overlayfs, a folder with a layer below also has links after it was removed, so that CRIU would look for its other
 * name: with none, it is kept as a removed file is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

/* Some 130 bytes for each watch. */
enum { MOST = 256 << 20, PIECE = 1 << 16 };

/* What the kernel reported last, and where in it the last one was found: CRIU asks in the same order. */
static char *answer, *last;
/* A name that CRIU will open, below the root; then what it opened; and the number it expects. */
static char name[4096];
static int opened = -1;
static unsigned long expected;

void note_watches(int info)
{
	size_t size = 0, room = 0;
	char *more;
	ssize_t got;

	free(answer);
	answer = NULL;
	do {
		room += PIECE;
		if (room > MOST)
			break;
		more = realloc(answer, room + 1);
		if (more == NULL)
			break;
		answer = more;
		got = pread(info, answer + size, room - size, (off_t)size);
		size += got > 0 ? (size_t)got : 0;
		/* A piece ends with a whole line. */
		room = size;
	} while (got > 0);
	if (answer != NULL)
		answer[size] = '\0';
	last = answer;
}

static char *line_with(char *text, const char *wanted)
{
	char *found = strstr(text, wanted);

	while (found != NULL && found > answer && found[-1] != '\n')
		found--;
	return found;
}

void expect_file(int fd, const unsigned char *handle, unsigned size)
{
	char wanted[300] = "f_handle:", link[64], *line;
	ssize_t length;
	unsigned i, at;

	*name = '\0';
	if (answer == NULL)
		return;
	for (i = 0, at = 9; i < size && at + 3 < sizeof(wanted); i++, at += 2)
		snprintf(wanted + at, 3, "%02x", handle[i]);
	line = line_with(last, wanted);
	if (line == NULL)
		line = line_with(answer, wanted);
	if (line == NULL || sscanf(line, "inotify wd:%*x ino:%lx", &expected) != 1)
		return;
	last = line;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, name, sizeof(name) - 1);
	name[length < 0 ? 0 : length] = '\0';
}

void file_opened(const char *path, int fd)
{
	if (*name != '\0' && (strcmp(name + 1, path) == 0 || (name[1] == '\0' && strcmp(path, ".") == 0)))
		opened = fd;
}

/* A name can end with the kernel's mark; listing a removed folder fails (iterate_dir() in fs/readdir.c), which is asked
 * second, as overlayfs reads a whole folder for its first entry.
 */
static int was_removed(int fd)
{
	static const char mark[] = " (deleted)";
	const size_t marked = sizeof(mark) - 1;
	char link[64], path[4096], entries[512];
	ssize_t length;
	int folder, removed;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path));
	if (length < (ssize_t)marked || memcmp(path + length - marked, mark, marked) != 0)
		return 0;
	folder = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return 0;
	removed = syscall(SYS_getdents64, folder, entries, sizeof(entries)) < 0 && errno == ENOENT;
	close(folder);
	return removed;
}

int fstat64(int fd, struct stat64 *found)
{
	int result = (int)syscall(SYS_newfstatat, fd, "", found, AT_EMPTY_PATH);

	if (result == 0 && fd >= 0 && fd == opened) {
		found->st_ino = expected;
		opened = -1;
	}
	if (result == 0 && S_ISDIR(found->st_mode) && found->st_nlink != 0 && is_capture() && was_removed(fd))
		found->st_nlink = 0;
	return result;
}
