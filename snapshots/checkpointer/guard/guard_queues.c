/* What is on its way in a terminal: output that was not read yet, and input that was not asked for.
 *
 * CRIU reads it out of each end and writes it back through the other one, to the captured session as well as to the
 * restored one. It has been through the terminal's processing once. No program sees that modes differ meanwhile:
 * all tasks of the session are frozen.
 *
 *   output   is written without output processing, which would turn "\r\n" into "\r\r\n".
 *   input    is read with the line that is not finished yet, and written without echo, signals and the rest, so
 *            that it is the same lines again.
 *
 * A terminal takes as much as was in it, but not at once: the kernel passes it on in the background. CRIU keeps
 * the first 16 KiB, a terminal holds up to 20; what is beyond is kept here for the captured session, and for
 * copies in files "beyond-ID" beside the images (HOLDFAST_IMAGES is a descriptor of that folder).
 */
#define _GNU_SOURCE
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"

/* Milliseconds, which a busy machine may need; else it takes none. A buffer of the kernel takes 512 bytes of small
 * writes, and fewer of large ones: in pieces, all that was in a terminal fits again. CRIU knows MOST ends of
 * terminals.
 */
enum { PATIENCE = 2000, PIECE = 128, MOST = 2 * 1001, LARGEST = 1 << 14 };

/* What was beyond the end of the buffer that CRIU read into. */
static struct beyond {
	const char *end;
	char *data;
	size_t size;
} beyond[MOST];
static int beyond_count;
static int lost;

int queue_was_lost(void)
{
	return lost;
}

static int is_master(int fd)
{
	int index;

	return syscall(SYS_ioctl, fd, TIOCGPTN, &index) == 0;
}

static int set_modes(int fd, const struct termios *modes)
{
	return (int)syscall(SYS_ioctl, fd, TCSETS, modes);
}

static long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void rest(void)
{
	poll(NULL, 0, 1);
}

/* As CRIU numbers the ends of terminals: twice the index, and one more for the master. */
static unsigned id_of(int fd)
{
	unsigned index = 0;
	struct stat file;

	if (syscall(SYS_ioctl, fd, TIOCGPTN, &index) == 0)
		return index << 1 | 1;
	return fstat(fd, &file) < 0 ? 0 : minor(file.st_rdev) << 1;
}

static int keep_for_copies(int fd, const struct beyond *kept)
{
	const char *folder = getenv("HOLDFAST_IMAGES");
	char name[32];
	int file, done;

	snprintf(name, sizeof(name), "beyond-%u", id_of(fd));
	file = openat(folder == NULL ? -1 : atoi(folder), name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return -1;
	done = syscall(SYS_write, file, kept->data, kept->size) == (ssize_t)kept->size;
	return close(file) < 0 || !done ? -1 : 0;
}

/* CRIU's buffer is full: take out what is left. The descriptor does not block. */
static void take_rest(int fd, const char *end)
{
	struct beyond *kept = &beyond[beyond_count];
	ssize_t found;
	char *data;

	if (beyond_count == MOST || !(fcntl(fd, F_GETFL) & O_NONBLOCK) || (kept->data = malloc(LARGEST)) == NULL) {
		lost = 1;
		return;
	}
	kept->end = end;
	kept->size = 0;
	while (kept->size < LARGEST &&
	       (found = syscall(SYS_read, fd, kept->data + kept->size, LARGEST - kept->size)) > 0)
		kept->size += (size_t)found;
	if (kept->size == 0) {
		free(kept->data);
		return;
	}
	if (kept->size == LARGEST)
		lost = 1;
	if ((data = realloc(kept->data, kept->size)) != NULL)
		kept->data = data;
	beyond_count++;
	if (keep_for_copies(fd, kept) < 0)
		lost = 1;
}

ssize_t read(int fd, void *data, size_t size)
{
	struct termios before, raw;
	int terminal, lines, saved;
	ssize_t found;

	terminal = is_capture() && syscall(SYS_ioctl, fd, TCGETS, &before) == 0;
	lines = terminal && (before.c_lflag & ICANON) && !is_master(fd);
	if (lines) {
		raw = before;
		raw.c_lflag &= ~(tcflag_t)ICANON;
		set_modes(fd, &raw);
	}
	if (size == sizeof(struct uffd_msg) && hidden_message(fd, data))
		return (ssize_t)size;
	found = syscall(SYS_read, fd, data, size);
	saved = errno;
	if (size == sizeof(struct uffd_msg) && found == (ssize_t)size)
		memory_reported(fd, data);
	if (terminal && found > 0 && (size_t)found == size)
		take_rest(fd, (const char *)data + found);
	if (lines)
		set_modes(fd, &before);
	errno = saved;
	return found;
}

static ssize_t write_at_once(int fd, const char *data, size_t size)
{
	int flags = fcntl(fd, F_GETFL), saved;
	ssize_t written;

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	written = syscall(SYS_write, fd, data, size);
	saved = errno;
	fcntl(fd, F_SETFL, flags);
	errno = saved;
	return written;
}

/* Another opening of a slave, with flags of its own; -1 for a master, which cannot be opened twice. */
static int opened_again(int fd)
{
	char path[32];

	if (is_master(fd))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/* Write all of it, without waiting for a reader: there is none. In a restore another process sets the descriptor's
 * flags at about this time, and CRIU gives up if it finds others than it has set: they are left alone where that is
 * possible, and room as poll(2) sees it is waited for elsewhere. The last bytes may fit without it.
 */
static size_t put(int fd, const char *data, size_t size)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	long last = milliseconds();
	size_t done = 0, piece;
	ssize_t written;
	int again = opened_again(fd);

	while (done < size && milliseconds() < last + PATIENCE) {
		if ((poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT)) && milliseconds() < last + PATIENCE / 10) {
			rest();
			continue;
		}
		piece = size - done < PIECE ? size - done : PIECE;
		written = again < 0 ? write_at_once(fd, data + done, piece)
				    : (ssize_t)syscall(SYS_write, again, data + done, piece);
		if (written > 0) {
			done += (size_t)written;
			last = milliseconds();
		} else if (written == 0 || errno == EAGAIN || errno == EINTR) {
			rest();
		} else {
			break;
		}
	}
	if (again >= 0)
		close(again);
	return done;
}

/* The end of the input that is whole lines; the kernel tells a reader of no more than these. */
static size_t whole_lines(const char *data, size_t size)
{
	const char *last = memrchr(data, '\n', size);

	return last == NULL ? 0 : (size_t)(last + 1 - data);
}

/* Modes may change back only when the terminal has taken what was written in these. */
static void await_taken(int master, const struct termios *modes, const char *data, size_t size)
{
	int slave = (int)syscall(SYS_ioctl, master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	size_t wanted = modes->c_lflag & ICANON ? whole_lines(data, size) : size;
	long deadline = milliseconds() + PATIENCE;
	int there = 0, tries;

	while (slave >= 0 && milliseconds() < deadline) {
		/* It takes 4095 bytes; what is more waits before it, and is processed when there is room. */
		if (syscall(SYS_ioctl, slave, TIOCINQ, &there) < 0 || (size_t)there >= (wanted < 4095 ? wanted : 4095))
			break;
		rest();
	}
	if (wanted < size)
		for (tries = 0; tries < 20; tries++)
			rest();
	if (slave >= 0)
		close(slave);
}

static size_t put_input(int master, const struct termios *before, const char *data, size_t size)
{
	struct termios quiet = *before;
	size_t done;

	quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL | ISIG | IEXTEN);
	quiet.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | ISTRIP | IXON | PARMRK | IUCLC | IMAXBEL);
	if (quiet.c_lflag & ICANON)
		memset(quiet.c_cc, 0, sizeof(quiet.c_cc)); /* 0: no character has a meaning but the newline */
	set_modes(master, &quiet);
	done = put(master, data, size);
	await_taken(master, &quiet, data, done);
	set_modes(master, before);
	return done;
}

static size_t put_output(int slave, const struct termios *before, const char *data, size_t size)
{
	struct termios raw = *before;
	size_t done;

	raw.c_oflag &= ~(tcflag_t)OPOST;
	set_modes(slave, &raw);
	done = put(slave, data, size);
	set_modes(slave, before);
	return done;
}

ssize_t write(int fd, const void *data, size_t size)
{
	size_t (*put_back)(int, const struct termios *, const char *, size_t);
	struct termios before;
	size_t done;
	int i;

	if (syscall(SYS_ioctl, fd, TCGETS, &before) < 0)
		return syscall(SYS_write, fd, data, size);
	put_back = is_master(fd) ? put_input : put_output;
	done = put_back(fd, &before, data, size);
	for (i = 0; i < beyond_count; i++)
		if (beyond[i].end == (const char *)data + size)
			put_back(fd, &before, beyond[i].data, beyond[i].size);
	return done > 0 || size == 0 ? (ssize_t)done : -1;
}
