/* Lets the copy have another file in place of one that CRIU cannot keep; the captured session keeps its own.
 *
 * CRIU gets the descriptors of each process over a unix socket from code it has put into it, and describes
 * what it was given. Here they pass by first:
 *
 *   /dev/tty   stands for the controlling terminal of the process that opened it, named by the kernel
 *              (TIOCGDEV, ioctl_tty(2)). The copy has that terminal itself open.
 *   left out   what HOLDFAST_SUBSTITUTE="PID:FD PID:FD..." names, wherever else it is open (kcmp(2)). Pids are
 *              those of the session. In its place: a socket that is not connected for a socket, an event
 *              counter for what is not a file (both can stand in a set of epoll), else /dev/null.
 *
 * What fdinfo says must be of the same file; CRIU reads it by the number the process has.
 */
#define _GNU_SOURCE
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guard.h"

enum { MOST = 256, NULL_MAJOR = 1, NULL_MINOR = 3, TTY_AUX_MAJOR = 5, PTY_SLAVE_MAJOR = 136 };

struct descriptor {
	pid_t pid;
	int fd;
};

static struct descriptor left_out[MOST];
static int left_out_count;

void read_substitutions(const char *spec)
{
	int length;

	if (spec == NULL)
		return;
	note_capture();
	while (left_out_count < MOST &&
	       sscanf(spec, " %d:%d%n", &left_out[left_out_count].pid, &left_out[left_out_count].fd, &length) == 2) {
		spec += length;
		left_out_count++;
	}
}

static int is_left_out(pid_t pid, int fd)
{
	int i;

	for (i = 0; i < left_out_count; i++)
		if (syscall(SYS_kcmp, pid, left_out[i].pid, KCMP_FILE, fd, left_out[i].fd) == 0)
			return 1;
	return 0;
}

/* As the original was opened: CRIU opens the copy's the same way. */
static int mode_of(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? O_RDWR : flags & (O_ACCMODE | O_NONBLOCK | O_APPEND);
}

static int open_null(int fd)
{
	int flags = (fd < 0 ? O_RDWR : mode_of(fd)) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int null = open("/dev/null", flags);
	struct stat found;

	if (null < 0)
		return -1;
	/* The session could have put anything there; what is not the device is not read from. */
	if (fstat(null, &found) < 0 || !S_ISCHR(found.st_mode) || found.st_rdev != makedev(NULL_MAJOR, NULL_MINOR)) {
		close(null);
		return -1;
	}
	fcntl(null, F_SETFL, flags & O_ACCMODE);
	return null;
}

/* The terminal that an open /dev/tty stands for, opened by its own name. -1 if it cannot be. */
static int open_terminal(int fd)
{
	unsigned device;
	struct statfs fs;
	struct stat found;
	char path[32];
	int terminal;

	if (syscall(SYS_ioctl, fd, TIOCGDEV, &device) < 0)
		return open_null(fd); /* It was hung up: reading also ends at once there. */
	/* As the kernel writes a device into 32 bits: 12 for the major, 20 for the minor, in three parts. */
	if (((device >> 8) & 0xfff) != PTY_SLAVE_MAJOR)
		return -1;
	snprintf(path, sizeof(path), "/dev/pts/%u", (device & 0xff) | ((device >> 12) & 0xfff00));
	terminal = open(path, mode_of(fd) | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	if (terminal < 0)
		return -1;
	/* The session could have put anything there. */
	if (fstatfs(terminal, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC || fstat(terminal, &found) < 0 ||
	    !S_ISCHR(found.st_mode) || major(found.st_rdev) != PTY_SLAVE_MAJOR) {
		close(terminal);
		return -1;
	}
	fcntl(terminal, F_SETFL, mode_of(fd));
	return terminal;
}

/* What takes the place of something left out, by the kind of it. */
enum kind { SOCKET, COUNTER, FILE_LIKE, KINDS };

static enum kind kind_of(const struct stat *file, const struct statfs *fs)
{
	if (S_ISSOCK(file->st_mode))
		return SOCKET;
	return fs->f_type == ANON_INODE_FS_MAGIC ? COUNTER : FILE_LIKE;
}

static int open_stand_in(enum kind kind, int fd)
{
	if (kind == SOCKET)
		return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return kind == COUNTER ? eventfd(0, EFD_CLOEXEC) : open_null(fd);
}

static int is_dev_tty(const struct stat *file)
{
	return S_ISCHR(file->st_mode) && file->st_rdev == makedev(TTY_AUX_MAJOR, 0);
}

static void replace(int fd)
{
	struct statfs fs;
	struct stat file;
	int other = -1;

	if (fstat(fd, &file) < 0)
		return;
	if (is_dev_tty(&file))
		other = open_terminal(fd);
	else if (left_out_count > 0 && is_left_out(getpid(), fd) && fstatfs(fd, &fs) == 0)
		other = open_stand_in(kind_of(&file, &fs), fd);
	if (other < 0)
		return;
	dup3(other, fd, O_CLOEXEC);
	close(other);
}

ssize_t recvmsg(int connection, struct msghdr *message, int flags)
{
	ssize_t received = syscall(SYS_recvmsg, connection, message, flags);
	struct cmsghdr *part;
	size_t i, count;
	int fd;

	if (received < 0 || !is_capture())
		return received;
	for (part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
			replace(fd);
		}
	}
	return received;
}

pid_t process_of(int directory)
{
	char name[64], target[64];
	ssize_t length;
	pid_t pid;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", directory);
	length = readlink(name, target, sizeof(target) - 1);
	if (length < 0)
		return -1;
	target[length] = '\0';
	return sscanf(target, "/proc/%d", &pid) == 1 ? pid : -1;
}

int substituted_fdinfo(int directory, const char *path, int flags)
{
	/* Open as long as CRIU runs: what fdinfo says is made when it is read. */
	static int shown[KINDS] = {-1, -1, -1};
	struct statfs fs;
	struct stat file;
	enum kind kind;
	char name[64];
	pid_t pid;
	int fd;

	(void)flags;
	if (left_out_count == 0 || path == NULL || sscanf(path, "fdinfo/%d", &fd) != 1)
		return -1;
	pid = process_of(directory);
	if (pid < 0 || !is_left_out(pid, fd))
		return -1;
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, fd);
	if (stat(name, &file) < 0 || statfs(name, &fs) < 0)
		return -1;
	kind = kind_of(&file, &fs);
	if (shown[kind] < 0)
		shown[kind] = open_stand_in(kind, -1);
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", shown[kind]);
	return (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
}
