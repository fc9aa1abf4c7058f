/* Finds what inotify watches, without the session seeing that it was looked for.
 *
 * The kernel reports for a watch a handle of its inode (proc_pid_fdinfo(5)), which overlayfs does not open. CRIU would
 * walk the whole file system for each watch, in folders that are watched themselves. But the handle holds the one
 * that the file has in the container's layers, and that can be opened (fs/overlayfs/export.c of Linux): its name
 * below the layer is its name in the session. HOLDFAST_WATCHES="FD FD..." is there in a capture: the open folders of
 * the layers, each the root of a mount of its own. Of a file that is not below it the kernel has no name.
 *
 * A name is followed in the session's mounts through no link, and it must lead to the very inode: the kernel gives
 * a file that is found the same handle. A watch of a link is one of the link, also in a copy.
 *
 * Opening by name only (O_PATH) is no event, and is enough for most of what CRIU asks of a file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guard.h"

/* OVL_FILEID_V1, and what comes before the handle of the real file: padding, struct ovl_fb. */
enum { OVERLAY_HANDLE = 0xf8, MAGIC_AT = 4, MAGIC = 0xfb, LENGTH_AT = 5, TYPE_AT = 7, REAL_AT = 24, PADDING = 3 };
/* The kernel's MAX_HANDLE_SZ; the answer for a handle that is for comparing only (linux/fcntl.h). */
enum { LONGEST_HANDLE = 128, HANDLE_FID = 0x200 };
/* Watches that CRIU may look for in its own way, each a walk of a quarter of a second or more. */
enum { MOST_WALKS = 16 };

struct handle {
	unsigned bytes;
	int type;
	unsigned char data[LONGEST_HANDLE];
};

/* Overlayfs has at most 500 (OVL_MAX_STACK). */
static int layers[512];
static unsigned layer_count;
static int walks;

void read_layers(const char *spec)
{
	int length;

	while (spec != NULL && layer_count < sizeof(layers) / sizeof(*layers) &&
	       sscanf(spec, " %d%n", &layers[layer_count], &length) == 1) {
		spec += length;
		layer_count++;
	}
}

/* The handle of the file in its layer. */
static int real_handle(const struct handle *overlay, struct handle *real)
{
	unsigned length = overlay->data[LENGTH_AT];

	if (overlay->bytes > LONGEST_HANDLE || overlay->bytes <= REAL_AT || overlay->data[MAGIC_AT] != MAGIC ||
	    length + PADDING > overlay->bytes || length + PADDING <= REAL_AT)
		return -1;
	real->bytes = length + PADDING - REAL_AT;
	real->type = overlay->data[TYPE_AT];
	memcpy(real->data, overlay->data + REAL_AT, real->bytes);
	return 0;
}

/* The name of an open file, as the kernel tells it. */
static int name_of(int fd, char *name, size_t size)
{
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, name, size);
	if (length <= 0 || (size_t)length >= size || name[0] != '/')
		return -1;
	name[length] = '\0';
	return 0;
}

static int has_handle(int fd, const struct handle *wanted)
{
	struct handle found = { .bytes = LONGEST_HANDLE };
	int mount;

	return syscall(SYS_name_to_handle_at, fd, "", &found, &mount, AT_EMPTY_PATH | HANDLE_FID) == 0 &&
	       found.type == wanted->type && found.bytes == wanted->bytes &&
	       memcmp(found.data, wanted->data, wanted->bytes) == 0;
}

/* The file of the session by a name, if it has the handle; -1 otherwise. */
static int open_if_same(int root, const char *name, const struct handle *wanted)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd;

	while (*name == '/')
		name++;
	if (*name == '\0')
		name = ".";
	fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	if (fd >= 0 && has_handle(fd, wanted))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int open_below(int layer, struct handle *real, const struct handle *wanted)
{
	static int root = -1;
	int in_layer = open_by_handle_at(layer, (struct file_handle *)real, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char name[4096];
	int named;

	if (in_layer < 0)
		return -1;
	named = name_of(in_layer, name, sizeof(name)) == 0;
	close(in_layer);
	if (root < 0)
		root = (int)syscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return named && root >= 0 ? open_if_same(root, name, wanted) : -1;
}

static int open_watched(const struct handle *wanted)
{
	/* What is watched together is in the same layer, as a rule. */
	static unsigned first;
	struct handle real;
	unsigned i;
	int fd;

	if (real_handle(wanted, &real) < 0)
		return -1;
	for (i = 0; i < layer_count; i++) {
		fd = open_below(layers[(first + i) % layer_count], &real, wanted);
		if (fd >= 0) {
			first = (first + i) % layer_count;
			return fd;
		}
	}
	return -1;
}

/* A folder that was opened by name only, for what needs more than that. */
static int open_fully(int folder)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
	return (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

long open_handle(int mount, void *handle, int flags)
{
	const struct handle *wanted = handle;
	int folder, fd;

	if (!is_capture())
		return open_by_handle_at(mount, handle, flags);
	if (wanted->type == OVERLAY_HANDLE) {
		fd = open_watched(wanted);
		if (fd >= 0) {
			expect_file(fd, wanted->data, wanted->bytes);
			return fd;
		}
		walks++;
	}
	folder = open_fully(mount);
	if (folder < 0)
		return -1;
	fd = open_by_handle_at(folder, handle, flags);
	close(folder);
	return fd;
}

/* CRIU begins to list a folder: to look for a watch in its own way, if its handle was not found just now. */
DIR *fdopendir(int fd)
{
	static DIR *(*libc_fdopendir)(int);

	if (walks > MOST_WALKS) {
		errno = EMFILE;
		return NULL;
	}
	if (libc_fdopendir == NULL)
		*(void **)&libc_fdopendir = dlsym(RTLD_NEXT, "fdopendir");
	return libc_fdopendir(fd);
}

static int is_mapping(const char *name)
{
	size_t first = strspn(name, "0123456789abcdef"), second;

	if (first == 0 || name[first] != '-')
		return 0;
	second = strspn(name + first + 1, "0123456789abcdef");
	return second > 0 && name[first + 1 + second] == '\0';
}

static int is_in(int fd, long filesystem)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (long)fs.f_type == filesystem;
}

int quiet_flags(int directory, const char *path, int flags)
{
	/* What is watched has a name that ends with no link, unless the link is what is watched. CRIU's own entries of
	 * /proc are links. */
	if (flags == O_PATH && directory >= 0 && path[0] != '/' && !is_in(directory, PROC_SUPER_MAGIC))
		return flags | O_NOFOLLOW;
	if (!is_capture())
		return flags;
	/* The root of the session, and mounts where the handle of a watch could belong to. */
	if ((flags == (O_RDONLY | O_DIRECTORY) && strcmp(path, "/") == 0) ||
	    (flags == O_RDONLY && strncmp(path, "./", 2) == 0))
		return flags | O_PATH;
	return flags;
}

int open_mapped(int directory, const char *path, int flags)
{
	int fd;

	if (!is_capture() || flags != O_RDONLY || !is_mapping(path))
		return -1;
	fd = (int)syscall(SYS_openat, directory, path, O_PATH);
	if (fd < 0)
		return -1;
	/* Of a file in memory CRIU asks more, its seals for one; and it learns from a failure what is not a file. */
	if (is_in(fd, OVERLAYFS_SUPER_MAGIC) || is_in(fd, EXT4_SUPER_MAGIC) || is_in(fd, XFS_SUPER_MAGIC) ||
	    is_in(fd, BTRFS_SUPER_MAGIC))
		return fd;
	close(fd);
	return -1;
}
