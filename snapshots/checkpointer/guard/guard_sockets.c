/* Names of the files of unix sockets that were renamed or linked since they were bound.
 *
 * The kernel keeps the name that a socket was bound by, and CRIU binds it by that again. Sockets whose file has
 * other names by then are given to CRIU as sockets without a file, which it binds, and whose file it removes at
 * once (bind_on_deleted in criu/sk-unix.c). It gets its names here first.
 *
 * HOLDFAST_SOCKETS="INDEX KEEPS NAME,NAME,... ..." (unix_sockets.py): names are in hexadecimal; KEEPS: the file
 * also has the name it was bound by. An index behind the end of the name, where the kernel does not read, says which
 * socket is bound.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "guard.h"

static const char *names;
static char bound[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
static int bound_index = -1;

void read_socket_names(const char *spec)
{
	names = spec == NULL ? NULL : strdup(spec);
	if (spec != NULL && names == NULL)
		die("note the names of sockets");
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t size)
{
	const struct sockaddr_un *name = address.__sockaddr_un__;
	size_t room = size - offsetof(struct sockaddr_un, sun_path), length;
	char index[8] = "";

	bound_index = -1;
	if (names != NULL && size > offsetof(struct sockaddr_un, sun_path) && name->sun_family == AF_UNIX &&
	    room < sizeof(bound) && (length = strnlen(name->sun_path, room)) > 0 && room > length + 1 &&
	    room - length - 1 < sizeof(index)) {
		memcpy(bound, name->sun_path, length);
		bound[length] = '\0';
		memcpy(index, name->sun_path + length + 1, room - length - 1);
		bound_index = atoi(index);
	}
	return (int)syscall(SYS_bind, fd, name, size);
}

/* The part of the list for a socket; NULL: it has none. */
static const char *names_of(int wanted, int *keeps)
{
	const char *at = names;
	int index, length;

	while (sscanf(at, " %d %d %n", &index, keeps, &length) == 2) {
		at += length;
		if (index == wanted)
			return at;
		at += strcspn(at, " ");
	}
	return NULL;
}

/* Read a name, and return what follows it; NULL: that is not a name. */
static const char *next_name(const char *from, char *name)
{
	unsigned byte;
	size_t length = 0;

	for (; length < PATH_MAX - 1 && isxdigit((unsigned char)*from) && sscanf(from, "%2x", &byte) == 1; from += 2)
		name[length++] = (char)byte;
	name[length] = '\0';
	if (length == 0 || (*from != ',' && *from != ' ' && *from != '\0'))
		return NULL;
	return *from == ',' ? from + 1 : from;
}

static int give_names(int index)
{
	char name[PATH_MAX];
	int keeps = 0;
	const char *at = names_of(index, &keeps);

	while (at != NULL && *at != '\0' && *at != ' ') {
		at = next_name(at, name);
		if (at != NULL && linkat(AT_FDCWD, bound, AT_FDCWD, name, 0) < 0)
			return -1;
	}
	if (at == NULL) {
		errno = EINVAL;
		return -1;
	}
	return keeps ? 0 : (int)syscall(SYS_unlinkat, AT_FDCWD, bound, 0);
}

int unlinkat(int directory, const char *path, int flags)
{
	int index = bound_index;

	if (index >= 0 && directory == AT_FDCWD && flags == 0 && strcmp(path, bound) == 0) {
		bound_index = -1;
		return give_names(index);
	}
	return (int)syscall(SYS_unlinkat, directory, path, flags);
}
